"""Six runs on the emulated servers and the same in `headstart sim`. That holds the testbed's timing and the simulator's ways of asking
against each other; both have the same models of devices, so it says nothing about how true those are. Software takes this machine's
processors time: what an absorbed write takes them is measured first, on flash that takes none, and told to the simulator."""

import json
import os

import harness
from cells import regions
from cells.placement import MEASURED_SEED, REGIONS, TRACED_SEED, Drawn, Placed, plan
from harness import RANKS, Workload, cached, direct, say

#: Of a rank's block: odd, so that ranks do not convoy.
STRIPES = 255


class Ordered(Workload):
    """Every byte once, in an order of IOR's."""

    def __init__(self, transfer, order):
        super().__init__(transfer, STRIPES)
        self.order, self.file_bytes, self.extra = order, self.bytes, {}

    def command(self, path, operation, generation, seed):
        command = super().command(path, operation, generation, seed)
        command[command.index("perm_own_block")] = self.order
        return command

    def prepare(self, site, directory):
        """A file of that length, written in long requests; its path."""
        path = os.path.join(directory, "ordered")
        if not os.path.exists(path):
            site.program([
                *harness.mpirun(RANKS), harness.PATTERNS, "ior", "--transfer", str(self.block), "--block", str(self.block),
                "--op", "write", "--json", path,
            ])
            harness.sync_seconds(path)
        return path


def zipf(transfer, requests):
    workload = Drawn(transfer, requests)
    workload.extra = {"requests": requests, "theta": 1.0}
    return workload


#: Workload, operation, policy.
SCENARIOS = {
    "random_read": (lambda: Ordered(16 << 10, "perm_own_block"), "read", "stock"),
    "random_write": (lambda: Ordered(16 << 10, "perm_own_block"), "write", "stock"),
    "sequential_read": (lambda: Ordered(64 << 10, "seq"), "read", "stock"),
    "zipf_read_carl": (lambda: zipf(8 << 10, 1500), "read", "carl"),
    "zipf_write_carl": (lambda: zipf(32 << 10, 1500), "write", "carl"),
    "random_write_s4d": (lambda: Ordered(32 << 10, "perm_own_block"), "write", "s4d"),
}
CAPACITY = 0.2

SCENARIO = """
name = "{name}"
seed = {seed}
policy = "{policy}"
capacity = "{capacity}"
region = "{region}"

# No card of a compute node: the emulated servers have none either.
[clients]
nodes = 1
bytes_per_s = 0
processors = {processors}
request_cpu_ms = {request_cpu_ms}

[disk]
servers = 8
profile = "seagate-250"

[flash]
servers = 4
profile = "revodrive-x2"

[[job]]
name = "ior"
[job.workload]
kind = "ior"
ranks = {ranks}
transfer = "{transfer}"
block = "{block}"
order = "{order}"
operation = "{operation}"
seed = {seed}
"""


def software_ms(workload):
    """What a processor works for each write that S4D absorbs: library, agent, copies and the emulation itself."""
    with regions.testbed("--ssd-profile", "null", "--network", "none") as site:
        file = workload.prepare(site, site.slow)
        # Without the first run, which takes flash for the first time.
        capacity = str(2 * workload.bytes)
        runs = [cached(site, workload, file, "write", capacity, turn + 1, MEASURED_SEED)["seconds"] for turn in range(3)][1:]
    return min(runs) * os.cpu_count() / (workload.bytes / workload.transfer) * 1e3


def simulated(site, name, workload, operation, policy, request_cpu_ms):
    text = SCENARIO.format(
        processors=os.cpu_count(), request_cpu_ms=request_cpu_ms,
        name=name, seed=MEASURED_SEED, policy=policy, capacity=int(workload.file_bytes * CAPACITY),
        region=workload.file_bytes // REGIONS // 4096 * 4096, ranks=RANKS, transfer=workload.transfer, block=workload.block,
        order=workload.order, operation=operation,
    )
    text += "".join(f"{key} = {value}\n" for key, value in workload.extra.items())
    path = os.path.join(site.work, f"{name}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    (job,) = json.loads(site.headstart("sim", path, "--json"))["jobs"]
    return job["seconds"]


def measured(site, workload, operation, policy):
    file = workload.prepare(site, site.slow)
    # What is read is what `prepare` wrote; what is written differs from it.
    first, second = (0, 0) if operation == "read" else (1, 2)
    if policy == "stock":
        return direct(site, workload, file, operation, first, MEASURED_SEED)["seconds"]
    if policy == "s4d":
        capacity = str(int(workload.file_bytes * CAPACITY))
        return cached(site, workload, file, operation, capacity, first, MEASURED_SEED)["seconds"]
    trace = os.path.join(site.work, "trace")
    site.trace(workload.command(file, operation, first, TRACED_SEED), trace)
    path, promised = plan(site, trace, "simulated", workload.file_bytes, CAPACITY)
    with Placed(site, path, promised["capacity_bytes"]) as placed:
        return placed.run(workload, file, operation, policy, second)["seconds"]


def measure():
    cells = {}
    say("sim_vs_testbed: software ...")
    absorbed_ms = software_ms(SCENARIOS["random_write_s4d"][0]())
    with regions.testbed() as site:
        for name, (make, operation, policy) in SCENARIOS.items():
            say(f"sim_vs_testbed: {name} ...")
            workload = make()
            found = measured(site, workload, operation, policy)
            request_cpu_ms = absorbed_ms if policy == "s4d" else 0
            promised = simulated(site, name, workload, operation, policy, request_cpu_ms)
            moved = workload.bytes / 1e6
            cells[name] = {
                "testbed_mb_s": round(moved / found, 2), "sim_mb_s": round(moved / promised, 2),
                "error": round(found / promised - 1, 4),
            }
            site.forget()
        timing = harness.timing(site)
    worst = max(cells, key=lambda name: abs(cells[name]["error"]))
    return {"sim_vs_testbed": {"value": abs(cells[worst]["error"]), "at": worst, "cells": cells, "software_ms": round(absorbed_ms, 4), "timing": timing}}
