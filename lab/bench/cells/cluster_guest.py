"""What a write takes longer on a node that has to ask another one for its place in a file's order: of programs on two nodes that have
one file open, on directories in memory. And how many packets go for it while eight ranks write at once.

`value` is the median on the guest's node over that on the owner's, in microseconds."""

import contextlib
import os
import statistics
import subprocess
import time

import harness
import nodes as clusters
from cells.overhead import PINNED, WANTED, memory_site
from harness import Failed, say

SIZE, COUNT, ROUNDS, RANKS = 4096, 4000, 3, 8
#: Has a file open until a file of that name is there.
HOLD = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
os.pread(file, 1, 0)
open(sys.argv[2] + ".begun", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
"""


class NotAbsorbed(Exception):
    """A file that two nodes use lies on the disks, so that nobody commits."""


@contextlib.contextmanager
def held_open(nodes, node, path):
    """A program on that node has the file open meanwhile."""
    end = os.path.join(nodes.work, f"end.{node}.{time.monotonic_ns()}")
    words = [harness.HEADSTART, "run", "--keep-dirty", "--", "/usr/bin/python3", "-c", HOLD, path, end]
    program = subprocess.Popen(nodes.within(node, words), env=nodes.environment)
    try:
        while not os.path.exists(end + ".begun"):
            if program.poll() is not None:
                raise Failed(f"the program that has {path} open ended with {program.returncode}")
            time.sleep(0.01)
        yield
    finally:
        with open(end, "w", encoding="utf-8"):
            pass
        program.wait()


def sent(nodes, node):
    return nodes.status(node)["cluster"]["traffic"]["sent_packets_total"]


def written(nodes, node, path, ranks, generation):
    """Median of a write's nanoseconds, and packets of both agents for each."""
    command = [harness.RANKS_PROGRAM, "--file", path, "--op", "write", "--ranks", str(ranks), "--size", str(SIZE), "--count",
               str(COUNT // ranks), "--generation", str(generation)]
    before = [sent(nodes, each) for each in nodes.all()]
    printed, report = nodes.run(command, "--keep-dirty", node=node)
    packets = [sent(nodes, each) - was for each, was in zip(nodes.all(), before)]
    if report["requests"]["absorbed_requests_total"] < COUNT * 0.9:
        raise NotAbsorbed(f"flash took {report['requests']['absorbed_requests_total']} of {COUNT} writes of node {node}")
    return printed[-1]["p50_ns"], [count / COUNT for count in packets]


def one_round():
    with clusters.in_memory(memory_site(WANTED, "1GiB", PINNED), 2) as nodes:
        path = os.path.join(nodes.slow, "file")
        nodes.program(["/usr/bin/python3", "-c", "import sys, os; os.truncate(os.open(sys.argv[1], 66), int(sys.argv[2])); print('{}')",
                       path, str(SIZE * COUNT)])
        # The first one that writes is its owner.
        alone, _ = written(nodes, 1, path, 1, 1)
        with held_open(nodes, 1, path):
            guest, one_rank = written(nodes, 2, path, 1, 2)
            _, ranks = written(nodes, 2, path, RANKS, 3)
        with held_open(nodes, 2, path):
            owner, _ = written(nodes, 1, path, 1, 4)
        nodes.forget()
    return {"alone": alone, "owner": owner, "guest": guest, "packets": one_rank, "packets_of_eight": ranks}


def measure():
    rounds = []
    for number in range(ROUNDS):
        say(f"  round {number + 1} ...")
        try:
            rounds.append(one_round())
        except NotAbsorbed as error:
            return {"value": None, "why": f"files that several nodes use lie on the disks: {error}"}
    at = {side: statistics.median(found[side] for found in rounds) / 1e3 for side in ("alone", "owner", "guest")}
    packets = {
        key: {side: round(statistics.median(found[key][node] for found in rounds), 3) for node, side in enumerate(("owner", "guest"))}
        for key in ("packets", "packets_of_eight")
    }
    return {
        "value": round(at["guest"] - at["owner"], 1), "p50_us": {side: round(us, 1) for side, us in at.items()},
        "packets_per_commit": packets["packets_of_eight"]["guest"], **packets, "ranks": RANKS,
    }
