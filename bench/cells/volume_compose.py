"""Policies above and below each other, simulated: eight benchmarks of 16 ranks on eight disk servers and four of flash, CARL, S4D, both or
nothing in the clients, a volume beneath each disk server or not; and `auto` against each other setting of a volume, on the suite of one server."""

import os
import statistics
from concurrent.futures import ThreadPoolExecutor

from cells.volume_suite import SUITE, key_of, simulated
from harness import say, simulate

WORKLOADS = (
    "ior-write", "ior-read", "ior-random-write", "ior-random-read", "zipf-read", "test-write", "tile-write", "tile-read",
)
CLIENTS = ("carl", "s4d", "carl,s4d")
SERVERS = ("itransformer", "liu", "liu,itransformer")
#: Runs of a workload, each of another seed; more where they differ by a fifth and more.
SEEDS_ELSE = 5
SEEDS = {"tile-read": 24}
SETTINGS = ("stock", "none", "itransformer", "liu", "liu,itransformer")


def rate(name, client, server, seed):
    options = ("--policy", client, "--server-policy", server, "--seed", str(seed))
    return simulate(os.path.join("compose", f"{name}.toml"), *options)["drained_mb_per_s"]


def mean_rate(name, client, server):
    """Over seeds: in which order ranks come decides up to a third of what a drive's own read-ahead gives."""
    seeds = range(1, SEEDS.get(name, SEEDS_ELSE) + 1)
    return statistics.geometric_mean(rate(name, client, server, seed) for seed in seeds)


def pairs(name):
    """Each pair over the better of its two alone."""
    settings = [(client, server) for client in ("stock", *CLIENTS) for server in ("stock", *SERVERS)]
    with ThreadPoolExecutor(2) as simulations:
        of = dict(zip(settings, simulations.map(lambda setting: mean_rate(name, *setting), settings)))

    def beside(both, one, other):
        return of[both] / max(of[one], of[other])

    found = {
        "liu,itransformer": beside(("stock", "liu,itransformer"), ("stock", "liu"), ("stock", "itransformer")),
        "carl,s4d": beside(("carl,s4d", "stock"), ("carl", "stock"), ("s4d", "stock")),
    }
    for client in CLIENTS:
        for server in SERVERS:
            found[f"{client} over {server}"] = beside((client, server), (client, "stock"), ("stock", server))
    return {pair: round(ratio, 4) for pair, ratio in found.items()}


def measure():
    table = {key_of(name): pairs(name) for name in WORKLOADS}
    least, workload, pair = min((ratio, name, pair) for name, of in table.items() for pair, ratio in of.items())
    say(f"  worst pair: {pair} on {workload}, {least}")
    auto = {}
    for name in SUITE:
        settings = {setting: simulated(name, setting)["drained_mb_per_s"] for setting in SETTINGS}
        best = max(settings, key=settings.get)
        auto[key_of(name)] = {"ratio": round(simulated(name, "auto")["drained_mb_per_s"] / settings[best], 4), "best": best}
    return {
        "compose": {"min": {"value": least, "workload": workload, "pair": pair}, **table},
        "auto": {"min": min(of["ratio"] for of in auto.values()), **auto},
    }
