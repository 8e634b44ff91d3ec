"""Six runs on the emulated servers and the same in `headstart-lab sim`. That holds the testbed's timing and the simulator's ways of asking
against each other; both have the same models of devices, so it says nothing about how true those are. Software takes this machine's
processors time: what an absorbed write and a copy back take them is measured first and told to the simulator."""

import functools
import json
import os
import statistics
import time

import harness
from cells.placement import MEASURED_SEED, REGIONS, TRACED_SEED, Drawn, Placed, plan
from harness import RANKS, Workload, cached, direct, phase, say

#: Of a rank's block: odd, so that ranks do not convoy.
STRIPES = 255


class Ordered(Workload):
    """Every byte once, in an order of IOR's."""

    def __init__(self, transfer, order, stripes=STRIPES):
        super().__init__(transfer, stripes)
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
#: Runs of each kind, in turns, of which what software takes is measured.
ROUNDS = 5

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
copy_cpu_ms = {copy_cpu_ms}

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


def testbed(*options):
    return harness.testbed("--server-cache", "0", *options)


def busy_seconds():
    """What all processors have worked since some time: what they were not idle. Idle time is counted exactly, work often only sampled at
    each tick, which found 0.108 ms for a request where idle time said 0.122 of the same runs."""
    with open("/proc/stat", encoding="ascii") as file:
        idle, wait = map(int, file.readline().split()[4:6])
    return time.monotonic() * os.cpu_count() - (idle + wait) / os.sysconf("SC_CLK_TCK")


@functools.cache
def software():
    """Milliseconds of a processor, measured once, by how long processors work in all: for each write that S4D absorbs (library, agent, copies in memory,
    the emulation itself), beyond a job of few, and for each copy back to the disks, of which little flash makes more than plenty."""
    few, many = (Ordered(16 << 10, "perm_own_block", stripes) for stripes in (1, STRIPES))
    with testbed() as site:
        file = many.prepare(site, site.slow)
        generation = 0

        def run(workload, share):
            """Seconds that processors worked, and copies back."""
            nonlocal generation
            generation += 1
            busy = busy_seconds()
            command = workload.command(file, "write", generation, MEASURED_SEED)
            _, report = site.run(command, "--capacity", str(int(share * many.bytes)), "--keep-dirty")
            busy, copies = busy_seconds() - busy, [report[when]["write_backs_total"] for when in ("agent_before", "agent_after")]
            site.headstart("drain")
            return busy, copies[1] - copies[0]

        # The first takes flash anew.
        run(many, 2)
        rounds = [[run(*one) for one in ((few, 2), (many, 2), (many, CAPACITY))] for _ in range(ROUNDS)]
        begun, absorbed, written_back = map(statistics.median_low, zip(*rounds))
    return {
        "processors": os.cpu_count(),
        "request_cpu_ms": (absorbed[0] - begun[0]) / ((many.bytes - few.bytes) / many.transfer) * 1e3,
        "copy_cpu_ms": (written_back[0] - absorbed[0]) / (written_back[1] - absorbed[1]) * 1e3,
    }


def told():
    """The environment in which plans and advice know of it."""
    return {f"HEADSTART_SOFTWARE_{key.upper()}": str(value) for key, value in software().items()}


def simulated(site, name, workload, operation, policy, costs):
    text = SCENARIO.format(
        **costs,
        name=name, seed=MEASURED_SEED, policy=policy, capacity=int(workload.file_bytes * CAPACITY),
        region=workload.file_bytes // REGIONS // 4096 * 4096, ranks=RANKS, transfer=workload.transfer, block=workload.block,
        order=workload.order, operation=operation,
    )
    text += "".join(f"{key} = {value}\n" for key, value in workload.extra.items())
    path = os.path.join(site.work, f"{name}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    (job,) = json.loads(site.lab("sim", path, "--json"))["jobs"]
    return job["seconds"]


def measured(site, workload, operation, policy):
    file = workload.prepare(site, site.slow)
    # What is read is what `prepare` wrote; what is written differs from it.
    first, second = (0, 0) if operation == "read" else (1, 2)
    if policy == "stock":
        return direct(site, workload, file, operation, first, MEASURED_SEED)["seconds"]
    if policy == "s4d":
        capacity = str(int(workload.file_bytes * CAPACITY))
        # The first run waits for memory where the emulated flash keeps its bytes.
        runs = [cached(site, workload, file, operation, capacity, generation, MEASURED_SEED) for generation in (first, second)]
        return runs[1]["seconds"]
    trace = os.path.join(site.work, "trace")
    site.trace(workload.command(file, operation, first, TRACED_SEED), trace)
    path, promised = plan(site, trace, "simulated", workload.file_bytes, CAPACITY)
    with Placed(site, path, promised["capacity_bytes"]) as placed:
        return placed.run(workload, file, operation, policy, second)["seconds"]


def measure():
    cells = {}
    say("sim_vs_testbed: software ...")
    absorbed = software()
    with testbed() as site:
        for name, (make, operation, policy) in SCENARIOS.items():
            say(f"sim_vs_testbed: {name} ...")
            workload = make()
            found = measured(site, workload, operation, policy)
            costs = absorbed if policy == "s4d" else {**absorbed, "request_cpu_ms": 0, "copy_cpu_ms": 0}
            promised = simulated(site, name, workload, operation, policy, costs)
            moved = workload.bytes / 1e6
            cells[name] = {
                "testbed_mb_s": round(moved / found, 2), "sim_mb_s": round(moved / promised, 2),
                "error": round(found / promised - 1, 4),
            }
            site.forget()
        timing = harness.timing(site)
    worst = max(cells, key=lambda name: abs(cells[name]["error"]))
    return {"sim_vs_testbed": {"value": abs(cells[worst]["error"]), "at": worst, "cells": cells, "software": absorbed, "timing": timing}}
