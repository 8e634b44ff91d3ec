"""What the first open of a file that nobody knows yet takes longer: of a node that is alone, and of one of two. On directories in
memory, by a program that opens many files, each once."""

import json
import os
import statistics

import nodes as clusters
from cells.overhead import UNWANTED, memory_site
from harness import Failed, say

FILES, ROUNDS = 1500, 3
#: Prints nanoseconds of each open, sorted.
PROGRAM = """
import json, os, sys, time
taken = []
for number in range(int(sys.argv[2])):
    path = f"{sys.argv[1]}/{number}"
    begin = time.perf_counter_ns()
    file = os.open(path, os.O_RDWR)
    taken.append(time.perf_counter_ns() - begin)
    os.close(file)
print(json.dumps({"opened_ns": sorted(taken)}))
"""


def command(directory):
    return ["/usr/bin/python3", "-c", PROGRAM, directory, str(FILES)]


def made(nodes, name):
    """Files that no agent has seen."""
    directory = os.path.join(nodes.slow, name)
    os.mkdir(directory)
    for number in range(FILES):
        with open(os.path.join(directory, str(number)), "wb"):
            pass
    return directory


def one_round():
    """Sorted times of a node without Headstart, of one that is alone, and of one of two."""
    with clusters.in_memory(memory_site(UNWANTED), 2) as nodes:
        taken = {"stock": nodes.program(command(made(nodes, "stock")))["opened_ns"]}
        for side, members in (("alone", 1), ("of_two", 2)):
            if members == 2:
                nodes.headstart(2, "run", "--keep-dirty", "--", "true")
            printed, _ = nodes.run(command(made(nodes, side)), "--keep-dirty")
            taken[side] = printed[-1]["opened_ns"]
            if nodes.members() != members:
                raise Failed(f"{nodes.members()} members instead of {members}")
        nodes.forget()
    return taken


def measure():
    rounds = []
    for number in range(ROUNDS):
        say(f"  round {number + 1} ...")
        rounds.append(one_round())
    at = {side: {p: statistics.median(taken[side][int(FILES * p)] for taken in rounds) / 1e3 for p in (0.5, 0.99)} for side in rounds[0]}
    return {
        "value": round(at["of_two"][0.5] - at["stock"][0.5], 1), "alone": round(at["alone"][0.5] - at["stock"][0.5], 1),
        "p99": round(at["of_two"][0.99] - at["stock"][0.99], 1), "files": FILES,
        "p50_us": {side: round(found[0.5], 1) for side, found in at.items()},
    }
