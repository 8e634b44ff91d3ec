"""A node's power fails while its flash alone has what it wrote and synced: seconds until a program on another node has read that, for
two lengths of the time for which a member may be silent."""

import os
import subprocess
import time

import nodes as clusters
from cells.overhead import PINNED, WANTED, memory_site
from harness import Failed, say

HOLDS_S, MARGIN_S = (5, 30), 5
#: Nobody is waited for longer than this after the time by which others go on.
PATIENCE_S = 30
WRITE = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(64):
    os.pwrite(file, bytes([number + 1]) * 4096, number * 4096)
os.fsync(file)
"""
READ = """
import sys
found = open(sys.argv[1], "rb").read()
assert found == b"".join(bytes([number + 1]) * 4096 for number in range(64)), len(found)
"""


def taken(hold):
    """Seconds, or why there is no answer."""
    environment = {"HEADSTART_CLUSTER_HOLD_S": str(hold), "HEADSTART_CLUSTER_MARGIN_S": str(MARGIN_S)}
    with clusters.in_memory(memory_site(WANTED, "64MiB", PINNED), 2, environment) as nodes:
        path = os.path.join(nodes.slow, "file")
        nodes.headstart(1, "run", "--keep-dirty", "--", "/usr/bin/python3", "-c", WRITE, path)
        nodes.headstart(2, "run", "--keep-dirty", "--", "true")
        if nodes.members() != 2 or not nodes.status(1)["dirty_bytes"]:
            raise Failed("the first node's flash has nothing that the second could ask for")
        nodes.control("kill", "1")
        begin = time.monotonic()
        try:
            read = ["run", "--keep-dirty", "--", "/usr/bin/python3", "-c", READ, path]
            nodes.headstart(2, *read, timeout=hold + MARGIN_S + PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None, f"no answer within {hold + MARGIN_S + PATIENCE_S} s"
        return round(time.monotonic() - begin, 2), None


def measure():
    found = {}
    for hold in HOLDS_S:
        say(f"  silent for {hold} s ...")
        seconds, why = taken(hold)
        found[f"hold_{hold}"] = {"value": seconds, "margin_s": MARGIN_S, **({"why": why} if why else {})}
    return found
