"""What `headstart advise` promises of a traced run against what the emulated servers show: six workloads, three capacities, the policy
advised at each. The constants of the prediction were chosen by three of the workloads, the writes (docs/internals/models.md, section 2), the reads are apart
from that; all are random. What software takes of this machine's processors is measured first and
told to it. Speed: requests of a trace over the time of the whole command."""

import json
import os
import statistics

import harness
from cells import planning, regions, simulating
from cells.ior_mix import TIME_SCALE
from cells.placement import MEASURED_SEED, REGIONS, TRACED_SEED, Drawn, Placed, plan
from harness import phase, say

#: Shares of the file.
CAPACITIES = (0.1, 0.2, 0.4)
#: Requests a rank, transfer, order, operation. Reads come first: they find what `prepare` wrote.
WORKLOADS = {
    "zipf.8KiB.read": (1500, 8 << 10, "zipf_own_block", "read"),
    "zipf.256KiB.read": (400, 256 << 10, "zipf_own_block", "read"),
    "uniform.16KiB.read": (1500, 16 << 10, "uniform_own_block", "read"),
    "zipf.32KiB.write": (1500, 32 << 10, "zipf_own_block", "write"),
    "uniform.16KiB.write": (1500, 16 << 10, "uniform_own_block", "write"),
    "uniform.256KiB.write": (400, 256 << 10, "uniform_own_block", "write"),
}
#: Policies whose curve is for a first run on empty flash, and what `run` calls them.
FIRST_RUN = {"s4d, first run": "s4d"}
#: How often each is measured.
FIRST_RUNS = 3


def curves(site, trace, file_bytes):
    printed = site.headstart("advise", trace, "--region", str(file_bytes // REGIONS), "--json")
    return {curve["policy"]: curve["points"] for curve in json.loads(printed)["policies"]}


def at(points, share):
    return min(points, key=lambda point: abs(point["share"] - share))


def of_regions(site, workload, file, operation, policy, trace, share, generation):
    path, promised = plan(site, trace, "advised", workload.file_bytes, share)
    with Placed(site, path, promised["capacity_bytes"]) as placed:
        return placed.run(workload, file, operation, policy, generation)["seconds"]


def of_first_runs(site, workload, file, operation, policy, share, generation):
    """On empty flash; several times, as processors are the limit of many, and their pace wavers with what else the machine does."""
    found = [of_a_first_run(site, workload, file, operation, policy, share, generation + nth) for nth in range(FIRST_RUNS)]
    return statistics.median(found), found


def of_a_first_run(site, workload, file, operation, policy, share, generation):
    capacity = str(int(workload.file_bytes * share))
    command = workload.command(file, operation, generation, MEASURED_SEED)
    site.environment["HEADSTART_CAPACITY"] = capacity
    try:
        seconds = phase(site.run(command, "--policy", policy, "--capacity", capacity)[0])["seconds"]
        site.headstart("drain")
        site.headstart("capacity", "0")
        site.headstart("stop")
    finally:
        del site.environment["HEADSTART_CAPACITY"]
    return seconds


def cells_of(site, name):
    requests, transfer, order, operation = WORKLOADS[name]
    workload = Drawn(transfer, requests, order)
    file, trace = workload.prepare(site, site.slow), os.path.join(site.work, "trace")
    # What is read is what `prepare` wrote; every write differs from the one before.
    step = 1 if operation == "write" else 0
    generation = step
    phase(site.trace(workload.command(file, operation, generation, TRACED_SEED), trace))
    promised = curves(site, trace, workload.file_bytes)
    # Of the policies that a first run can show, the one advised at each capacity.
    shown = ("carl", "carl,s4d", *FIRST_RUN) if operation == "write" else ("carl",)
    cells = {}
    for share in CAPACITIES:
        policy = min((policy for policy in shown if policy in promised), key=lambda one: at(promised[one], share)["run_s"])
        predicted = at(promised[policy], share)["run_s"]
        say(f"  {share:.0%}, {policy} ...")
        generation += step
        if policy in FIRST_RUN:
            seconds, all_seconds = of_first_runs(site, workload, file, operation, FIRST_RUN[policy], share, generation)
            generation += step * (FIRST_RUNS - 1)
        else:
            seconds = of_regions(site, workload, file, operation, policy, trace, share, generation)
            all_seconds = [seconds]
        cells[f"{share:.0%}"] = {
            "policy": policy, "predicted_s": round(predicted, 3), "measured_s": round(seconds, 3),
            "runs_s": [round(one, 3) for one in all_seconds], "error": round(predicted / seconds - 1, 4),
        }
    return cells


def cells(workloads, *options):
    """Every cell of some workloads, the worst of them, what software takes, and how well the servers kept time."""
    say("advise: software ...")
    results = {"cells": {}, "software": simulating.software()}
    with regions.testbed(*options) as site:
        for name in workloads:
            say(f"advise: {name}")
            results["cells"][name] = cells_of(site, name)
        results["timing"] = harness.timing(site)
    errors = {
        f"{name}.{share}": cell["error"] for name, found in results["cells"].items() for share, cell in found.items()
    }
    worst = max(errors, key=lambda cell: abs(errors[cell]))
    return {**results, "error_max": {"value": abs(errors[worst]), "at": worst}}


def measure():
    return {"advise": {**cells(WORKLOADS), "requests_per_s": planning.advised_requests_per_s()}}


def measure_slowed():
    """The writes on servers that take longer for everything, as if this machine's processors, which are what bounds S4D's runs here and
    which the prediction knows only roughly, were faster by as much."""
    writes = [name for name, (*_, operation) in WORKLOADS.items() if operation == "write"]
    return {"advise_slowed": {"time_scale": TIME_SCALE, **cells(writes, "--time-scale", str(TIME_SCALE))}}
