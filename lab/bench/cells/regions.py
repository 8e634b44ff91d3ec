"""CARL's evaluation (2013, IV-B): random requests by Zipf's law and evenly drawn, of four sizes, with 20 % and 33 % of the file on
flash, and with more ranks. Reads with and without the drives' read cache, which serves hot blocks in stock too; RANDOM with it."""

import contextlib

import harness
from cells import simulating
from cells.placement import Drawn, Experiment
from harness import say

#: Requests a rank by size: in stock each size takes a fifth to a quarter of a minute.
SIZES = {8 << 10: 1500, 16 << 10: 1250, 32 << 10: 1250, 256 << 10: 300}
#: Of requests that are evenly drawn fewer say as much.
UNIFORM_SIZES = {8 << 10: 1500, 16 << 10: 750, 32 << 10: 750, 256 << 10: 200}
#: HDD:SSD 2:1.
HALF = 1 / 3
#: Stripes of a rank's block, odd, in a file of the same size; as many requests of 16 KiB in all.
RANKS_STRIPES = {32: 511, 64: 255, 128: 127}
NO_CACHE = ("--drive-read-ahead", "off")


def name(transfer):
    return f"{transfer >> 10}KiB"


@contextlib.contextmanager
def testbed(*options):
    """Emulated servers, and what software takes of this machine, which plans and advice are told."""
    software = simulating.told()
    with simulating.testbed(*options) as site:
        site.environment.update(software)
        yield site


def zipf_reads():
    results = {"zipf": {}, "random": {"zipf": {}, "zipf_half": {"8KiB": {}}}, "zipf_half": {"8KiB": {}}}
    for options in ((), NO_CACHE):
        with testbed(*options) as site:
            for transfer, requests in SIZES.items():
                say(f"zipf: reads of {name(transfer)}{', no read cache in the drives' if options else ''}")
                experiment = Experiment(site, Drawn(transfer, requests), "read")
                half = experiment.carl(HALF) if transfer == 8 << 10 else None
                if options:
                    results["zipf"][name(transfer)]["read"]["no_drive_cache"] = experiment.carl()
                    if half:
                        results["zipf_half"]["8KiB"]["read"]["no_drive_cache"] = half
                    continue
                results["zipf"][name(transfer)] = {"read": experiment.carl()}
                results["random"]["zipf"][name(transfer)] = {"read": experiment.random()}
                if half:
                    results["zipf_half"]["8KiB"]["read"] = half
                    results["random"]["zipf_half"]["8KiB"]["read"] = experiment.random(HALF)
            timing = harness.timing(site)
        results["zipf"]["timing_no_drive_cache" if options else "timing"] = timing
    return results


def of_every_size(key, order, operation, with_oracle, sizes=SIZES):
    results = {key: {}, "random": {key: {}}}
    with testbed() as site:
        for transfer, requests in sizes.items():
            say(f"{key}: {operation}s of {name(transfer)}")
            experiment = Experiment(site, Drawn(transfer, requests, order), operation)
            results[key][name(transfer)] = {operation: experiment.carl(with_oracle=with_oracle)}
            results["random"][key][name(transfer)] = {operation: experiment.random()}
        results[key][f"timing_{operation}"] = harness.timing(site)
    return results


def zipf_writes():
    return of_every_size("zipf", "zipf_own_block", "write", with_oracle=True)


def uniform_reads():
    return of_every_size("uniform", "uniform_own_block", "read", with_oracle=False, sizes=UNIFORM_SIZES)


def more_ranks():
    """`16` is `zipf.16KiB.read`."""
    results = {"ranks": {}, "random": {"ranks": {}}}
    with testbed() as site:
        for ranks, stripes in RANKS_STRIPES.items():
            say(f"ranks: {ranks}")
            requests = SIZES[16 << 10] * harness.RANKS // ranks
            experiment = Experiment(site, Drawn(16 << 10, requests, ranks=ranks, stripes=stripes), "read")
            results["ranks"][str(ranks)] = experiment.carl(with_oracle=False)
            results["random"]["ranks"][str(ranks)] = experiment.random()
        results["ranks"]["timing"] = harness.timing(site)
    return results
