"""What a program of one node pays for there being a second one, which does nothing: the costs of single calls, on directories in
memory. `value` is the most that one of them takes longer."""

import os
import statistics

import harness
import nodes as clusters
from cells.overhead import PINNED, WANTED, memory_site
from harness import Failed, say

SIZE, COUNT, ROUNDS = 4096, 20000, 5
CAPACITY = "1GiB"


def ranks(path, operation):
    return [harness.RANKS_PROGRAM, "--file", path, "--op", operation, "--ranks", "1", "--size", str(SIZE), "--count", str(COUNT),
            "--prealloc"]


def calls(nodes, turn):
    """Median times of an absorbed write, of a read on flash, of a read of bytes that are on the disks, and of an open and close."""
    absorbed, cold = os.path.join(nodes.slow, f"absorbed.{turn}"), os.path.join(nodes.slow, "cold")
    latency = [harness.LATENCY, "--file", cold, "--count", str(COUNT)]

    def taken(command, key):
        printed, report = nodes.run(command, "--keep-dirty")
        return printed[-1][key], report["requests"]

    found = {}
    found["absorbed_write_ns"], requests = taken(ranks(absorbed, "write"), "p50_ns")
    if requests["absorbed_requests_total"] < COUNT:
        raise Failed("flash did not take all the writes")
    found["flash_read_ns"], requests = taken(ranks(absorbed, "read"), "p50_ns")
    if requests["flash_read_requests_total"] < COUNT:
        raise Failed("the reads did not go to flash")
    found["open_close_ns"], _ = taken([*latency, "--size", "1", "--op", "open"], "batch_p50_ns")
    found["untouched_read_ns"], _ = taken([*latency, "--size", str(SIZE), "--span", "4M"], "batch_p50_ns")
    nodes.headstart(1, "drain")
    nodes.headstart(1, "run", "--keep-dirty", "--", "rm", absorbed)
    return found


def rounds(members):
    with clusters.in_memory(memory_site(WANTED, CAPACITY, PINNED), 2) as nodes:
        nodes.program([harness.LATENCY, "--file", os.path.join(nodes.slow, "cold"), "--count", "64", "--span", "4M", "--fill"])
        for node in range(1, members + 1):
            nodes.headstart(node, "run", "--keep-dirty", "--", "true")
        taken = [calls(nodes, turn) for turn in range(ROUNDS)]
        if nodes.members() != members:
            raise Failed(f"{nodes.members()} members instead of {members}")
        nodes.forget()
    return {key: statistics.median(found[key] for found in taken) for key in taken[0]}


def measure():
    say("  alone ...")
    alone = rounds(1)
    say("  beside one that does nothing ...")
    member = rounds(2)
    over = {key: round(member[key] / alone[key], 3) for key in alone}
    return {"value": round(max(over.values()) - 1, 3), "over_alone": over, "alone": alone, "of_two": member}
