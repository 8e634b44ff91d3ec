"""Random requests of 16 KiB by 16 ranks in one file of 511 MiB, with and without the servers' write cache."""

import os

import harness
from cells.ratios import compare
from harness import Workload, cached, direct, say

TRANSFER = 16 << 10
STRIPES = 511
CAPACITIES = ("20%", "50%")


def table(site, workload):
    """Writes and second-run reads at every capacity; the first run of the reads is not counted."""
    slow, fast = os.path.join(site.slow, "ior"), os.path.join(site.fast, "ior")
    say("  stock ...")
    stock = {operation: direct(site, workload, slow, operation) for operation in ("write", "read")}
    say("  all on flash ...")
    flash = {operation: direct(site, workload, fast, operation) for operation in ("write", "read")}
    cells = {"write": {}, "read_second_run": {}}
    for capacity in CAPACITIES:
        site.forget()
        say(f"  Headstart, capacity {capacity}: write, read, read again ...")
        write = cached(site, workload, slow, "write", capacity, generation=1)
        cached(site, workload, slow, "read", capacity, generation=1)
        second = cached(site, workload, slow, "read", capacity, generation=1)
        cells["write"][capacity] = compare(workload.bytes, stock["write"], write, flash["write"])
        cells["read_second_run"][capacity] = compare(workload.bytes, stock["read"], second, flash["read"])
    # The headline is the larger capacity; the other stands beside it.
    return {name: {**of["50%"], "capacity": "50%", "at": of} for name, of in cells.items()}


def measure():
    workload = Workload(TRANSFER, STRIPES)
    results = {}
    for key, cache in (("ior_random", "0"), ("ior_random_server_cache", "8MiB")):
        say(f"{key}: server write cache {cache}")
        with harness.testbed("--server-cache", cache) as site:
            results[key] = {"16KiB": table(site, workload), "server_cache": cache, "timing": harness.timing(site)}
    return results
