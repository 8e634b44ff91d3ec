"""The workloads of IO500 on many nodes with 32 ranks and an agent each, in the simulator: what is written and read, and what the
busiest agent, the owner of a shared file, hears and says. The curves are drawn as well."""

import os

import harness
from harness import json_lines, say

NODES = (10, 100, 1000)
#: Requests of a rank in each direction.
REQUESTS = 4
#: Up to so many nodes files of a rank's own are simulated: 1,000 nodes have 32,000 of them, and take minutes each.
OWN_FILES_NODES_MAX = 100
PLOT = os.path.join(harness.ROOT, "target", "bench-cluster-scale.svg")


def runs():
    few = [nodes for nodes in NODES if nodes <= OWN_FILES_NODES_MAX]
    found = []
    for workloads, nodes in (("hard", NODES), ("easy,own-files", few)):
        command = [harness.LAB, "scale", "--json", "--requests", str(REQUESTS), "--workloads", workloads, "--plot", plot(workloads)]
        found += json_lines(harness.execute([*command, "--nodes", ",".join(map(str, nodes))], timeout=1800))
    return found


def plot(workloads):
    return PLOT.replace(".svg", f"-{workloads.replace(',', '-')}.svg")


def cell(line):
    found = {"write_mb_s": round(line["write_mb_per_s"]), "read_mb_s": round(line["read_mb_per_s"]), "wall_s": round(line["wall_s"], 1)}
    if agents := line.get("agents"):
        found["flash_share"] = round(line["flash_share"], 3)
        found["busiest_loop"] = round(agents["busiest"]["busy"], 5)
        found["busiest_messages_s"] = round(agents["busiest"]["messages_per_s"])
        found["mean_messages_s"] = round(agents["mean"]["messages_per_s"], 1)
    return found


def saturates_at(lines):
    """Nodes whose ranks keep the loop of one file's owner busy: its share at the most nodes simulated, gone on with in proportion."""
    busiest = max(lines, key=lambda line: line["nodes"])
    return round(busiest["nodes"] / busiest["agents"]["busiest"]["busy"])


def measure():
    say("  simulating ...")
    lines = runs()
    scale = {}
    for line in lines:
        scale.setdefault(line["workload"], {}).setdefault(line["storage"], {})[line["nodes"]] = cell(line)
    hard = [line for line in lines if line["workload"] == "hard" and line.get("agents")]
    return {
        "scale": scale, "requests": REQUESTS, "one_owner_saturates_at_nodes": saturates_at(hard),
        "curves": [os.path.relpath(plot(workloads), harness.ROOT) for workloads in ("hard", "easy,own-files")],
    }
