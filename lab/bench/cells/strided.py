"""HPIO and mpi-tile-io, one blocking call a region or row: holes, and large pieces. Written and then read in one instance."""

import os
import statistics

import harness
from cells.ratios import compare
from harness import RANKS, Failed, mpirun, say

CAPACITY = "20%"
HPIO_SPACINGS = (0, 1 << 10, 2 << 10, 4 << 10)
HPIO_REGIONS = 1024
HPIO_BYTES = RANKS * HPIO_REGIONS * (8 << 10)
#: Tiles across and down, and rows of a tile; rows of 320 KiB as in the paper. As many bytes as 112 tiles of 10 rows.
TILES = {"14": (14, 1, 80), "8": (8, 2, 70)}
TILE_ROW = 320 << 10


def hpio(spacing, launch=mpirun):
    return [
        *launch(), harness.PATTERNS, "hpio", "--region-count", str(HPIO_REGIONS), "--region-size", "8KiB", "--region-spacing",
        str(spacing), "--pattern", "c-nc", "--individual",
    ]


def tile(across, down, rows, launch=mpirun):
    return [
        *launch(across * down), harness.PATTERNS, "tile", "--nx", str(across), "--ny", str(down), "--sx", "10", "--sy", str(rows),
        "--element", "32KiB", "--individual",
    ]


def instance(site, program, generation):
    """Stock, all on flash, and Headstart, each in files of its own: times of the phases, how long the disks were behind, and the share
    of flash."""
    common = ["--op", "write-read", "--prealloc", "--verify", "--json"]
    slow, fast = os.path.join(site.slow, "file"), os.path.join(site.fast, "file")

    def plain(path):
        found = harness.phases(site.program([*program, *common, path]))
        return {**found, "behind": harness.sync_seconds(path)}

    stock, flash = plain(slow), plain(fast)
    site.forget()
    printed, report = site.run([*program, *common, "--generation", str(generation), slow], "--capacity", CAPACITY)
    if report["dirty_bytes"]:
        raise Failed(f"{report['dirty_bytes']} bytes were not written back")
    behind = report["drain_s"] + harness.sync_seconds(slow)
    site.forget()
    return stock, flash, {**harness.phases(printed), "behind": behind, "share": report["flash_share"]}


def table(site, program, size, turns):
    """Medians of turns: where a file comes to lie on the disks changes the reads of stock threefold."""
    taken = [instance(site, program, generation) for generation in range(1, turns + 1)]
    stock, flash, found = ({key: statistics.median(one[key] for one in side) for key in side[0]} for side in zip(*taken))
    cells = {}
    for operation in ("write", "read"):
        before, after = {"seconds": stock[operation]}, {"seconds": found[operation], "flash_share": found["share"]}
        if operation == "write":
            before["drained_seconds"] = before["seconds"] + stock["behind"]
            after["drained_seconds"] = after["seconds"] + found["behind"]
        cells[operation] = compare(size, before, after, {"seconds": flash[operation]})
    return cells


def measure():
    results = {"hpio": {}, "tile": {}}
    with harness.testbed("--server-cache", "0") as site:
        for spacing in HPIO_SPACINGS:
            say(f"hpio: spacing {spacing >> 10} KiB")
            results["hpio"][f"{spacing >> 10}KiB"] = table(site, hpio(spacing), HPIO_BYTES, turns=1)
        for width, (across, down, rows) in TILES.items():
            say(f"tile: {across} x {down}")
            results["tile"][width] = table(site, tile(across, down, rows), across * down * rows * TILE_ROW, turns=5)
        timing = harness.timing(site)
    # The headline is the lesser of the two grids.
    results["tile"] = {
        operation: {
            "ratio": min(results["tile"][width][operation]["ratio"] for width in TILES),
            "by_width": {width: results["tile"][width][operation] for width in TILES},
        }
        for operation in ("write", "read")
    }
    results["hpio"]["timing"] = timing
    return results
