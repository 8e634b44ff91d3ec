"""A start of a volume whose slice of 64 GB is full of isolated blocks of 4 KiB (`crates/volume/examples/recovery.rs`): each in a record of
its own, as a single flushing writer leaves them, and a hundred to a record, as many writers at once do."""

import json
import os
import statistics
import tempfile

from cells.volume_nbd import drop_from_cache
from harness import ROOT, execute, say

EXAMPLE = os.path.join(ROOT, "target", "release", "examples", "recovery")
FLASH_GB = 64
SHAPES = {"alone": 1, "gathered": 100}
#: Starts of which the time is the median: most of it is spent waiting for memory, which others on the machine use as well.
STARTS = 3


def start(per_record):
    with tempfile.TemporaryDirectory(prefix="headstart-recovery-") as work:
        execute([EXAMPLE, "make", work, str(FLASH_GB), str(per_record)])
        starts = []
        for _ in range(STARTS):
            drop_from_cache(os.path.join(work, "flash"))
            starts.append(json.loads(execute([EXAMPLE, "attach", work])))
    seconds = [figures["seconds"] for figures in starts]
    return {**starts[0], "seconds": statistics.median(seconds), "all_seconds": seconds, "memory_bytes": max(figures["memory_bytes"] for figures in starts)}


def measure():
    shapes = {}
    for name, per_record in SHAPES.items():
        figures = shapes[name] = start(per_record)
        say(f"  {name}: {figures['extents']} extents, {figures['seconds']:.2f} s, {figures['memory_bytes'] / 1e6:.0f} MB")
    return {
        "recovery": {
            "seconds": round(max(of["seconds"] for of in shapes.values()), 2),
            "memory_mb": round(max(of["memory_bytes"] for of in shapes.values()) / 1e6, 1),
            **shapes,
        },
        "ram_bytes_per_gb_flash": round(max(of["memory_bytes"] for of in shapes.values()) / FLASH_GB),
    }
