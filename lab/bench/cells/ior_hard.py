"""IOR's two ends on one file system, by 16 ranks. Hard: records of 47,008 bytes of all ranks, one beside the other, in
one new file. Easy: requests of 1 MiB, a new file a rank. Each is written, synced and read in one job; a rank reads what
another one wrote.

`ratio` is the rate of hard over that of easy, writes and reads together: on the disks, everything on flash, and under
Headstart with flash for a share of the bytes. `hard_over_stock` is Headstart's hard rate over that of the disks."""

import os

import harness
from cells.ratios import rate
from harness import RANKS, Failed, mpirun, say

RECORD, RECORDS = 47008, 144
TRANSFER, BLOCK = 1 << 20, 8 << 20
#: Arguments of the program, and bytes.
KINDS = {
    "hard": (["--transfer", str(RECORD), "--block", str(RECORD), "--segments", str(RECORDS)], RECORD * RECORDS * RANKS),
    "easy": (["--transfer", str(TRANSFER), "--block", str(BLOCK), "--file-per-process"], BLOCK * RANKS),
}
#: Flash in per cent of the bytes; the first is the headline.
CAPACITIES = (20, 60)
#: Turns, whose times are added up.
TURNS = 2


def command(kind, directory, generation):
    return [*mpirun(), harness.PATTERNS, "ior", *KINDS[kind][0], "--op", "write-read", "--reorder-tasks", "1", "--sync",
            "--verify", "--generation", str(generation), "--json", os.path.join(directory, kind)]


def plain(site, kind, directory, generation):
    """A run without Headstart: its phases' seconds, and no share of flash."""
    seconds = harness.phases(site.program(command(kind, directory, generation)))
    site.forget()
    return seconds, None


def managed(site, kind, percent, generation):
    capacity = KINDS[kind][1] * percent // 100
    printed, report = site.run(command(kind, site.slow, generation), "--capacity", str(capacity))
    if report["dirty_bytes"]:
        raise Failed(f"{report['dirty_bytes']} bytes were not written back")
    site.forget()
    return harness.phases(printed), report["flash_share"]


def cell(runs):
    """Rates of both kinds by the runs of all turns, and the one over the other."""
    found = {}
    for kind, (_, size) in KINDS.items():
        seconds = {operation: sum(run[operation] for run, _ in runs[kind]) for operation in ("write", "read")}
        moved = size * len(runs[kind])
        found[kind] = {f"{operation}_mb_s": rate(moved, seconds[operation]) for operation in seconds}
        found[kind]["mb_s"] = rate(2 * moved, sum(seconds.values()))
        if runs[kind][-1][1] is not None:
            found[kind]["flash_share"] = round(runs[kind][-1][1], 4)
    return {"ratio": round(found["hard"]["mb_s"] / found["easy"]["mb_s"], 3), **found}


def table(site):
    sides = {"stock": (plain, site.slow), "all_flash": (plain, site.fast)}
    sides.update({f"{percent}%": (managed, percent) for percent in CAPACITIES})
    runs = {side: {kind: [] for kind in KINDS} for side in sides}
    for generation in range(TURNS):
        say(f"  turn {generation + 1} ...")
        for side, (run, where) in sides.items():
            for kind in KINDS:
                runs[side][kind].append(run(site, kind, where, generation))
    cells = {side: cell(runs[side]) for side in sides}
    at = {f"{percent}%": cells.pop(f"{percent}%") for percent in CAPACITIES}
    for found in at.values():
        found["hard_over_stock"] = round(found["hard"]["mb_s"] / cells["stock"]["hard"]["mb_s"], 3)
    headline = f"{CAPACITIES[0]}%"
    return {**cells, "headstart": {**at[headline], "capacity": headline, "at": at}}


def measure():
    with harness.testbed("--server-cache", "8MiB") as site:
        return {"hard_over_easy": {**table(site), "server_cache": "8MiB", "timing": harness.timing(site)}}
