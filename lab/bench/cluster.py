"""What a cluster of nodes gains and costs; the last line is one JSON object.

Nodes are namespaces of this machine (lab/nodes), which share emulated servers, or directories in memory, and the machine's two
processors. All ratios are of one run. `--only KEY` measures one part; every part is a module of `cells`.

BASELINE=DIRECTORY with `headstart` and `libheadstart.so` of another version measures `one_node` with that one first."""

import sys

from cells import cluster_guest, cluster_hard, cluster_jobs, cluster_member, cluster_memory, cluster_opens, cluster_scale, cluster_takeover
from harness import in_turns, measure_parts

#: Parts in the order they are measured, and the keys they give.
PARTS = {
    "hard_over_easy": lambda: {"hard_over_easy": cluster_hard.measure()},
    "ior_mix": lambda: {"ior_mix": cluster_jobs.measure("ior_mix")},
    "zipf": lambda: {"zipf": cluster_jobs.measure("zipf")},
    "hpio": lambda: {"hpio": cluster_jobs.measure("hpio")},
    "tile": lambda: {"tile": cluster_jobs.measure("tile")},
    "open_added_us": lambda: {"open_added_us": cluster_opens.measure()},
    "one_node": lambda: {"one_node": in_turns(cluster_member.measure)},
    "takeover_s": lambda: {"takeover_s": cluster_takeover.measure()},
    "guest_commit_us": lambda: {"guest_commit_us": cluster_guest.measure()},
    "sim": lambda: {"sim": cluster_scale.measure()},
    "member_bytes": lambda: {"member_bytes": cluster_memory.measure()},
}


if __name__ == "__main__":
    sys.exit(measure_parts(__doc__, PARTS))
