"""Eight benchmarks of 48 streams on one data server, with iTransformer beneath it and without: its disk wd1602 under deadline with 128
requests, its flash pm9a3, a slice of a fifth of the bytes; simulated, until the disk holds everything."""

import math
import os

from harness import SCENARIOS, say, simulate

SUITE = ("ior-write", "ior-read", "test-write", "test-read", "tile-write", "tile-read", "iozone-reverse-read", "random-mix")
#: Beside the suite.
STATED = {"random-write": "uniform_random_write_4k"}


def scenario(name):
    return os.path.join(SCENARIOS, "itransformer", f"{name}.toml")


def key_of(name):
    return name.replace("-", "_")


def summary(suite):
    """Of the ratios of all benchmarks."""
    ratios = [of["ratio"] for of in suite.values()]
    mean = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4)
    return {"geometric_mean": mean, "best": max(ratios), "minimum": min(ratios)}


def simulated(name, policy):
    return simulate(scenario(name), "--server-policy", policy)


def cell(name):
    stock, itransformer = (simulated(name, policy) for policy in ("stock", "itransformer"))
    rates = stock["drained_mb_per_s"], itransformer["drained_mb_per_s"]
    say(f"  {name}: {rates[0]:.1f} to {rates[1]:.1f} MB/s")
    return {
        "ratio": round(rates[1] / rates[0], 4),
        "stock_mb_s": round(rates[0], 2),
        "mb_s": round(rates[1], 2),
        "added_p99_ms": itransformer["disk"][0]["volume"]["held_ms_p99"],
    }


def measure():
    suite = {key_of(name): cell(name) for name in SUITE}
    return {
        "predicted": {
            "suite": {**suite, **summary(suite)},
            **{key: cell(name) for name, key in STATED.items()},
        }
    }
