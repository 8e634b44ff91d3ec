"""The suite's eight benchmarks in real time: 48 threads on a served volume (`crates/volume/examples/streams.rs`) of an emulated wd1602 and
pm9a3, a slice of a fifth of the bytes, until the disk holds everything; against the same disk passed through, under deadline with 128
requests, in the same run."""

import json
import statistics
import tomllib
from concurrent.futures import ThreadPoolExecutor

from cells.volume_devices import STOCK, STREAMS, volume
from cells.volume_suite import SUITE, key_of, scenario, summary
from harness import execute, say

#: 4 KiB at random, from each of 48 threads so often: the scenario's 2000 would take ten minutes on the disk alone.
UNIFORM_REQUESTS = 200
#: Both runs at the same time, on devices of their own: the disk alone positions for each request, some hundred times a second, and takes most of
#: the time; the others move what a processor notices.
SEEKING = ("ior-write", "ior-read", "iozone-reverse-read", "random-mix", "random-write")
#: Their rates waver by a hundredth, or by a tenth, from one run to the next, as much as they gain or lose: so many times each, in turns.
ROUNDS = {"test-read": 2, "tile-write": 3, "tile-read": 3}
#: The least slice that has room for a log.
SLICE_BYTES_MIN = 8_000_000


def run(name, slice_bytes, options, requests):
    with volume(slice_bytes // 4096 * 4096, *options) as served:
        limit = [str(requests)] if requests else []
        figures = json.loads(execute([STREAMS, scenario(name), served.disk, *limit], timeout=1200))
        drain_seconds = served.drain()
    return {
        "mb_s": figures["bytes"] / 1e6 / (figures["seconds"] + drain_seconds),
        "run_mb_s": figures["bytes"] / 1e6 / figures["seconds"],
        "drain_seconds": drain_seconds,
        "p99_ms": figures["p99_ms"],
        "bytes": figures["bytes"],
    }


def mean(turns):
    """Of all figures; rates are those of all turns together."""
    of = {key: statistics.mean(turn[key] for turn in turns) for key in turns[0]}
    return {**of, **{key: statistics.harmonic_mean([turn[key] for turn in turns]) for key in ("mb_s", "run_mb_s")}}


def cell(name, requests=None, slice_bytes=None):
    if slice_bytes is None:
        with open(scenario(name), "rb") as file:
            slice_bytes = int(tomllib.load(file)["volume"]["slice"].removesuffix("MB")) * 1_000_000
    rounds = ROUNDS.get(name, 1)
    with ThreadPoolExecutor(2 if name in SEEKING else 1) as runs:
        turns = list(runs.map(lambda options: run(name, slice_bytes, options, requests), (STOCK, ("--policy", "itransformer")) * rounds))
    stock, itransformer = mean(turns[::2]), mean(turns[1::2])
    say(f"  {name}: {stock['mb_s']:.2f} to {itransformer['mb_s']:.2f} MB/s")
    return {
        "ratio": round(itransformer["mb_s"] / stock["mb_s"], 4),
        "stock_mb_s": round(stock["mb_s"], 2),
        **{key: round(itransformer[key], 2) for key in ("mb_s", "run_mb_s", "drain_seconds", "p99_ms")},
        "stock_p99_ms": round(stock["p99_ms"], 2),
        "rounds_mb_s": [[round(turn["mb_s"], 2) for turn in of] for of in (turns[::2], turns[1::2])],
    }


def part(name):
    return lambda: {"suite": {key_of(name): cell(name)}}


#: One benchmark each.
PARTS = {f"suite.{key_of(name)}": part(name) for name in SUITE}


def uniform():
    """Against the disk alone; its slice, too, is a fifth of what is written or the least there is."""
    slice_bytes = max(SLICE_BYTES_MIN, 48 * UNIFORM_REQUESTS * 4096 // 5)
    return {"uniform_random_write_4k": cell("random-write", UNIFORM_REQUESTS, slice_bytes)}


def conclude(results):
    suite = results.get("suite", {})
    if len(suite) == len(SUITE):
        suite.update(summary(suite))
