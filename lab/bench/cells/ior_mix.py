"""S4D's evaluation V-B: ten IOR instances one after another, six sequential and four random, each a file of its own that it
writes, syncs and then reads; capacity 20 % of all ten. One job runs all ten, as a batch script would; the job runs twice, and then
its ten reads alone.

The sync before the close is IOR's -e: an instance is as large as all servers' caches together, so that without it the write time of
stock is that of the network alone, with the disks' work left to whatever comes next."""

import os
import re

import harness
from cells.ratios import compare
from harness import RANKS, STRIPE, Failed, mpirun, say

#: The paper gives the numbers but no order.
ORDER = "SRSSRSSRSR"
STRIPES = 61
TRANSFERS = (8 << 10, 16 << 10, 32 << 10, 64 << 10)
#: One request a rank: the nearest to 4 MiB that leaves an odd number of stripes.
LARGE = STRIPES * STRIPE
BYTES = STRIPES * STRIPE * RANKS * len(ORDER)
#: How much slower the emulated servers are where software is not to be what is measured, and sizes that are measured there.
TIME_SCALE = 4
SLOWED_TRANSFERS = (8 << 10, 32 << 10)
CAPACITY = str(BYTES // 5)


def command(directory, number, transfer, operation, generation, launch=mpirun):
    order = {"S": "seq", "R": "perm_own_block"}[ORDER[number]]
    return [
        *launch(), harness.PATTERNS, "ior", "--transfer", str(transfer), "--block", str(STRIPES * STRIPE), "--order", order,
        "--op", operation, "--generation", str(generation), "--seed", str(number), "--prealloc", "--sync", "--verify", "--json",
        os.path.join(directory, f"ior.{number}"),
    ]


class Pass:
    """The ten instances one after another in one job: their times, a list an operation, and how long the disks were behind at the
    end."""

    def __init__(self, instances, behind, flash_share=None):
        found = [harness.phases(instance) for instance in instances]
        self.seconds = {operation: [phases[operation] for phases in found] for operation in found[0]}
        self.behind, self.flash_share = behind, flash_share

    def of(self, operation):
        whole = {"seconds": sum(self.seconds[operation])}
        if operation == "write":
            whole["drained_seconds"] = whole["seconds"] + self.behind
        if self.flash_share is not None:
            whole["flash_share"] = self.flash_share
        return whole


def job(directory, transfer, operation, generation):
    return harness.job(command(directory, number, transfer, operation, generation) for number in range(len(ORDER)))


def behind(directory):
    return sum(harness.sync_seconds(os.path.join(directory, f"ior.{number}")) for number in range(len(ORDER)))


def plain(site, directory, transfer, generation):
    """All instances without Headstart."""
    instances = site.programs(job(directory, transfer, "write-read", generation))
    return Pass(instances, behind(directory))


def managed(site, transfer, generation, operation="write-read"):
    """All instances under one `headstart run`."""
    instances, report = site.run_programs(job(site.slow, transfer, operation, generation), "--capacity", CAPACITY)
    if report["dirty_bytes"]:
        raise Failed(f"{report['dirty_bytes']} bytes were not written back")
    return Pass(instances, report["drain_s"] + behind(site.slow), report["flash_share"])


def oracle(stock, flash):
    """Time of the ten reads had the best fifth of the bytes been on flash, chosen with hindsight: the instances that gain most."""
    gains = sorted((s - f for s, f in zip(stock.seconds["read"], flash.seconds["read"])), reverse=True)
    return sum(stock.seconds["read"]) - sum(gains[: len(ORDER) // 5])


def reads_alone(site, transfer, generation, stock, flash):
    alone = managed(site, transfer, generation, "read").of("read")
    best = sum(stock.seconds["read"]) / oracle(stock, flash)
    ratio = sum(stock.seconds["read"]) / alone["seconds"]
    return {
        "ratio": round(ratio, 3),
        "oracle_ratio": round(best, 3),
        "of_oracle_gain": round((ratio - 1) / (best - 1), 3),
        "flash_share": round(alone["flash_share"], 4),
    }


def table(site, transfer, alone, runs=2, time_scale=1):
    """Rates are of modelled time."""
    say("  stock ...")
    stock = plain(site, site.slow, transfer, generation=0)
    say("  all on flash ...")
    flash = plain(site, site.fast, transfer, generation=0)
    site.forget()
    passes = []
    for number in range(1, runs + 1):
        say(f"  Headstart, run {number} of the mix ...")
        passes.append(managed(site, transfer, generation=number))
    cells = {}
    for operation in ("write", "read"):
        first, *second = [
            compare(BYTES * time_scale, stock.of(operation), run.of(operation), flash.of(operation)) for run in passes
        ]
        cells[operation] = {**first, **{"second_run": run for run in second}}
    if alone:
        say("  Headstart, the reads alone ...")
        cells["reads_alone"] = reads_alone(site, transfer, runs, stock, flash)
    site.forget()
    return cells


def device_chosen():
    """Cells of size, pattern and direction in which the cost model names the directory that is measured to be faster, with 16 ranks at
    work, in virtual time."""
    printed = harness.execute([harness.LAB, "testbed", "profile", "--server-cache", "8MiB"])
    agreeing, cells = map(int, re.search(r"names the faster directory in (\d+) of (\d+) cells", printed).groups())
    return {"value": round(agreeing / cells, 4), "agreeing": agreeing, "cells": cells}


def measure():
    results = {"device_chosen": device_chosen()}
    for key, cache in (("ior_mix", "8MiB"), ("ior_mix_no_server_cache", "0")):
        results[key] = {"server_cache": cache}
        with harness.testbed("--server-cache", cache) as site:
            for transfer in TRANSFERS:
                say(f"{key}: requests of {transfer >> 10} KiB, server write cache {cache}")
                results[key][f"{transfer >> 10}KiB"] = table(site, transfer, alone=cache != "0" and transfer <= 32 << 10)
            if cache != "0":
                say(f"{key}: requests of {LARGE >> 10} KiB")
                results[key]["4096KiB"] = table(site, LARGE, alone=False)
            results[key]["timing"] = harness.timing(site)
    alone = {size: cells["reads_alone"] for size, cells in results["ior_mix"].items() if "reads_alone" in cells}
    results["reads_alone"] = {"value": min(of["of_oracle_gain"] for of in alone.values()), **alone}
    return results


def measure_slowed():
    """The same on servers that take longer for everything, as if this machine's processors, which ranks, agent and servers share, were
    faster by as much: without that small requests measure the machine."""
    results = {"server_cache": "8MiB", "time_scale": TIME_SCALE}
    with harness.testbed("--server-cache", "8MiB", "--time-scale", str(TIME_SCALE)) as site:
        for transfer in SLOWED_TRANSFERS:
            say(f"ior_mix_slowed: requests of {transfer >> 10} KiB")
            results[f"{transfer >> 10}KiB"] = table(site, transfer, alone=False, runs=1, time_scale=TIME_SCALE)
        results["timing"] = harness.timing(site)
    return {"ior_mix_slowed": results}
