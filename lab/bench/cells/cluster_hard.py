"""IOR's two ends (`cells.ior_hard`) by 16 ranks on four nodes; a rank reads what a rank of the next node wrote.

`ratio` is the rate of hard over that of easy, writes and reads together: on the disks, under Headstart, and with everything on flash.
The public median of Lustre's is 0.044 for writes (IO500)."""

import os

import harness
import nodes as clusters
from cells.ior_hard import CAPACITIES, KINDS, cell
from harness import RANKS, Failed, say

#: Turns, whose times are added up.
TURNS = 2


def command(nodes, kind, directory, generation):
    """A rank reads what the one wrote that is as many ranks on as a node has."""
    return [
        *nodes.launch(RANKS, nodes.count), harness.PATTERNS, "ior", *KINDS[kind][0], "--op", "write-read", "--reorder-tasks",
        str(RANKS // nodes.count), "--sync", "--verify", "--generation", str(generation), "--json", os.path.join(directory, kind),
    ]


def plain(nodes, kind, directory, generation):
    """A run without Headstart: its phases' seconds, and no share of flash."""
    seconds = harness.phases(nodes.program(command(nodes, kind, directory, generation)))
    nodes.forget()
    return seconds, None


def managed(nodes, kind, generation):
    capacity = KINDS[kind][1] * CAPACITIES[0] // 100
    printed, report = nodes.run(command(nodes, kind, nodes.slow, generation), "--capacity", str(capacity))
    if nodes.members() != nodes.count:
        raise Failed(f"{nodes.members()} of {nodes.count} nodes took part")
    nodes.forget()
    return harness.phases(printed[-1]), report["flash_share"]


def measure():
    runs = {side: {kind: [] for kind in KINDS} for side in ("stock", "headstart", "all_flash")}
    with clusters.on_testbed("--server-cache", "8MiB") as nodes:
        for generation in range(TURNS):
            say(f"  turn {generation + 1} ...")
            for kind in KINDS:
                runs["stock"][kind].append(plain(nodes, kind, nodes.slow, generation))
                runs["headstart"][kind].append(managed(nodes, kind, generation))
                runs["all_flash"][kind].append(plain(nodes, kind, nodes.fast, generation))
        timing = harness.timing(nodes.site)
    cells = {side: cell(runs[side]) for side in runs}
    return {
        **cells, "of_all_flash": round(cells["headstart"]["ratio"] / cells["all_flash"]["ratio"], 3),
        "over_stock": round(cells["headstart"]["hard"]["mb_s"] / cells["stock"]["hard"]["mb_s"], 3),
        "capacity": f"{CAPACITIES[0]}%", "server_cache": "8MiB", "timing": timing,
    }
