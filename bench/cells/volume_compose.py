"""Policies above and below each other, simulated: eight benchmarks of 16 ranks on eight disk servers and four of flash, S4D in the clients or
not, a volume beneath each disk server or not; and `auto` against each other setting of a volume, on the suite of one server."""

import os

from cells.volume_suite import SUITE, key_of, simulated
from harness import say, simulate

WORKLOADS = (
    "ior-write", "ior-read", "ior-random-write", "ior-random-read", "zipf-read", "test-write", "tile-write", "tile-read",
)
SERVERS = ("itransformer", "liu", "liu,itransformer")
SETTINGS = ("stock", "none", "itransformer", "liu", "liu,itransformer")


def rate(name, client, server):
    return simulate(os.path.join("compose", f"{name}.toml"), "--policy", client, "--server-policy", server)["drained_mb_per_s"]


def pairs(name):
    """Each pair over the better of its two alone."""
    below = {server: rate(name, "stock", server) for server in SERVERS}
    s4d = rate(name, "s4d", "stock")
    found = {"liu,itransformer": below["liu,itransformer"] / max(below["liu"], below["itransformer"])}
    for server in SERVERS:
        found[f"s4d over {server}"] = rate(name, "s4d", server) / max(s4d, below[server])
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
