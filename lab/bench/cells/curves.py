"""How the gain follows the capacity (S4D, Table IV) and the number of ranks (S4D, Fig 7): random requests of 16 KiB."""

import os

import harness
from cells.ratios import compare
from harness import Workload, cached, direct, say

TRANSFER = 16 << 10
STRIPES = 127
CAPACITIES = ("0%", "10%", "20%", "30%")
#: One file for every number of ranks, so that only that differs; each rank keeps an odd number of stripes.
RANKS_STRIPES = {16: 120 + 7, 32: 63, 64: 31, 128: 15}


def cells_of(site, workload, capacity, stock):
    slow = os.path.join(site.slow, "ior")
    write = cached(site, workload, slow, "write", capacity, generation=1)
    cached(site, workload, slow, "read", capacity, generation=1)
    read = cached(site, workload, slow, "read", capacity, generation=1)
    site.forget()
    return {
        "write": compare(workload.bytes, stock["write"], write),
        "read_second_run": compare(workload.bytes, stock["read"], read),
    }


def stock_of(site, workload):
    slow = os.path.join(site.slow, "ior")
    stock = {operation: direct(site, workload, slow, operation) for operation in ("write", "read")}
    site.forget()
    return stock


def measure():
    results = {"capacity": {}, "ranks": {}}
    with harness.testbed("--server-cache", "0") as site:
        workload = Workload(TRANSFER, STRIPES)
        stock = stock_of(site, workload)
        for capacity in CAPACITIES:
            say(f"capacity {capacity}")
            results["capacity"][capacity] = cells_of(site, workload, capacity, stock)
        results["ranks"]["16"] = results["capacity"]["20%"]
        for ranks, stripes in list(RANKS_STRIPES.items())[1:]:
            say(f"{ranks} ranks")
            workload = Workload(TRANSFER, stripes, ranks)
            results["ranks"][str(ranks)] = cells_of(site, workload, "20%", stock_of(site, workload))
        results["capacity"]["timing"] = harness.timing(site)
    return results
