"""CARL's three steps on one workload: trace a run, plan from it, place, and run again with other requests. Beside it stock, everything
on flash, RANDOM, and the placement of somebody who knew the second run's requests."""

import json
import os
import tomllib

import harness
from cells.ratios import compare
from harness import RANKS, STRIPE, Failed, Workload, direct, mpirun, phase, say, sync_seconds

#: Random numbers of the run that is traced, and of the one that is measured.
TRACED_SEED, MEASURED_SEED = 1, 2
#: Stripes of a rank's block: odd, so that ranks do not convoy, and with 16 ranks 64 MiB less one stripe.
STRIPES = 1023
#: Regions of a file.
REGIONS = 640
CAPACITY = 0.2


class Drawn(Workload):
    """So many requests a rank, drawn from its own block by Zipf's law or evenly."""

    def __init__(self, transfer, requests, order="zipf_own_block", ranks=RANKS, stripes=STRIPES, options=()):
        super().__init__(transfer, stripes, ranks)
        self.requests, self.order, self.options = requests, order, options
        self.file_bytes, self.bytes = self.bytes, transfer * requests * ranks

    def command(self, path, operation, generation, seed):
        return [
            *mpirun(self.ranks), harness.PATTERNS, "ior", "--transfer", str(self.transfer), "--block", str(self.block),
            "--order", self.order, "--requests", str(self.requests), *self.options, "--op", operation, "--generation",
            str(generation), "--seed", str(seed), "--prealloc", "--verify", "--json", path,
        ]

    def prepare(self, site, directory):
        """The file, every byte of generation 0, written in a few long requests; its path."""
        path = os.path.join(directory, f"ior.{self.ranks}")
        if not os.path.exists(path):
            site.program([
                *mpirun(self.ranks), harness.PATTERNS, "ior", "--transfer", str(self.block), "--block", str(self.block),
                "--op", "write", "--json", path,
            ])
            sync_seconds(path)
        return path

    def check(self, site, path, generation, seed):
        """Whether what a run wrote is on the disks, read where the emulated servers keep it."""
        kept = os.path.join(site.backing, "slow", os.path.relpath(path, site.slow))
        phase(site.program(self.command(kept, "read", generation, seed)))


def plan(site, trace, name, file_bytes, capacity=CAPACITY, *options):
    """The plan's path, and what it promises."""
    path = os.path.join(site.work, f"{name}.toml")
    printed = site.headstart(
        "plan", trace, "--capacity", str(int(file_bytes * capacity)), "--region", str(file_bytes // REGIONS), "-o", path,
        "--json", *options,
    )
    return path, json.loads(printed)


def share_of_placed(path):
    """Share of the requests that a plan was made from which are for its chosen regions; of a request that is cut each part counts."""
    with open(path, "rb") as file:
        regions = [region for one in tomllib.load(file)["file"] for region in one["region"]]
    requests = [(region["reads"] + region["writes"], region["place"]) for region in regions]
    return sum(count for count, chosen in requests if chosen) / sum(count for count, _ in requests)


class Placed:
    """A plan, placed for as long as the block runs: its regions lie on flash before the run that is measured."""

    def __init__(self, site, path, capacity_bytes):
        self.site, self.path = site, path
        self.site.environment["HEADSTART_CAPACITY"] = str(capacity_bytes)

    def __enter__(self):
        self.site.headstart("place", self.path)
        return self

    def __exit__(self, *failure):
        self.site.headstart("unplace", self.path)
        self.site.headstart("stop")
        del self.site.environment["HEADSTART_CAPACITY"]

    def run(self, workload, file, operation, policy="carl", generation=0, seed=MEASURED_SEED):
        """As `harness.cached`, with the plan instead of a capacity."""
        command = workload.command(file, operation, generation, seed)
        printed, report = self.site.run(command, "--policy", policy, "--plan", self.path)
        seconds = phase(printed)["seconds"]
        drained = seconds + report["drain_s"] + (sync_seconds(file) if operation == "write" else 0.0)
        if report["dirty_bytes"]:
            raise Failed(f"{report['dirty_bytes']} bytes were not written back")
        if operation == "write":
            workload.check(self.site, file, generation, seed)
        return {"seconds": seconds, "drained_seconds": drained, "flash_share": report["flash_share"], "report": report}


class Experiment:
    """One workload and operation on a testbed: the runs that need no plan are made once, each placement is measured beside them."""

    def __init__(self, site, workload, operation):
        self.site, self.workload, self.operation = site, workload, operation
        self.file = workload.prepare(site, site.slow)
        self.generation = 0
        self.trace = os.path.join(site.work, "trace")
        self.hindsight = os.path.join(site.work, "hindsight")
        say("  stock, traced, twice ...")
        self.traced(TRACED_SEED, self.trace)
        self.stock = self.traced(MEASURED_SEED, self.hindsight)
        say("  all on flash ...")
        fast = os.path.join(site.fast, "ior") if operation == "write" else workload.prepare(site, site.fast)
        self.flash = direct(site, workload, fast, operation, self.next_generation(), MEASURED_SEED)

    def next_generation(self):
        """Each write has contents of its own, so that none is taken for another."""
        self.generation += self.operation == "write"
        return self.generation

    def traced(self, seed, trace):
        generation = self.next_generation()
        command = self.workload.command(self.file, self.operation, generation, seed)
        seconds = phase(self.site.trace(command, trace))["seconds"]
        behind = 0.0
        if self.operation == "write":
            behind = sync_seconds(self.file)
            self.workload.check(self.site, self.file, generation, seed)
        return {"seconds": seconds, "drained_seconds": seconds + behind}

    def placed(self, name, trace, capacity, *options):
        """Stock's time over that of a placement, and how far off the prediction was."""
        say(f"  {name} ...")
        path, promised = plan(self.site, trace, name, self.workload.file_bytes, capacity, *options)
        with Placed(self.site, path, promised["capacity_bytes"]) as placed:
            found = placed.run(self.workload, self.file, self.operation, generation=self.next_generation())
        cell = compare(self.workload.bytes, self.stock, found, self.flash)
        predicted = {"predicted_s": round(promised["after_s"], 3), "measured_s": round(found["seconds"], 3)}
        predicted["predicted_error"] = round(promised["after_s"] / found["seconds"] - 1, 4)
        return {**cell, **predicted}

    def carl(self, capacity=CAPACITY, with_oracle=True):
        """CARL's cell, and the choice that knows the measured run's requests: no other of whole regions serves more of them. With
        the oracle, that one is placed and run as well."""
        cell = self.placed("carl", self.trace, capacity)
        path, _ = plan(self.site, self.hindsight, "hindsight", self.workload.file_bytes, capacity)
        cell["oracle"] = {"flash_share": round(share_of_placed(path), 4)}
        if with_oracle:
            best = self.placed("oracle", self.hindsight, capacity)
            cell["oracle"]["ratio"] = best["ratio"]
            cell["of_oracle"] = round(cell["ratio"] / best["ratio"], 3)
        return cell

    def random(self, capacity=CAPACITY):
        return self.placed("random", self.trace, capacity, "--choice", "random", "--seed", "3")
