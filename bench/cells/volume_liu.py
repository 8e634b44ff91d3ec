"""LiU in the simulator: segments at random on one disk, the paper's benchmarks on its six calibrated data servers (second run, nothing in
servers' memory, the first run beside it), and beside other jobs."""

import os
import re
import tempfile

from harness import SCENARIOS, say, simulate

#: Files of ior whose blocks differ by a MiB.
BLOCKS_MIB = range(148, 154)
BUFFERS_MB = (32, 64, 128, 256, 512)


def jobs_of(name, policy, *changes):
    """The jobs of a scenario by their names, changed first where patterns match."""
    with open(os.path.join(SCENARIOS, "liu", f"{name}.toml"), encoding="utf-8") as file:
        text = file.read()
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text)
        assert count, f"{name} has no {pattern}"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
        scenario.write(text)
        scenario.flush()
        report = simulate(scenario.name, "--server-policy", policy)
    jobs = {job["name"]: job["phases"][0] for job in report["jobs"]}
    return {**jobs, "seek_mb_mean": round(report["disk"][0]["seek_bytes_mean"] / 1e6, 2)}


def in_requests(phase):
    """What ranks have while they wait for requests, as benchmarks print it: without barriers and pauses."""
    return (phase["read_bytes"] + phase["write_bytes"]) * 1e-6 / phase["rank_s_max"]


def segments(name):
    jobs = jobs_of(name, "liu")
    stock = jobs_of(name, "stock")
    ratio = jobs["random"]["mb_per_s"] / stock["in-order"]["mb_per_s"]
    return {"ratio": round(ratio, 4), "mb_s": jobs["random"]["mb_per_s"], "in_order_mb_s": stock["in-order"]["mb_per_s"]}


def second_run(name, *changes):
    stock, liu = (jobs_of(name, policy, *changes) for policy in ("stock", "liu"))
    rates = [in_requests(runs[run]) for runs in (stock, liu) for run in ("first", "second")]
    return {
        "ratio": round(rates[3] / rates[1], 4),
        "first_ratio": round(rates[2] / rates[0], 4),
        "stock_mb_s": round(rates[1], 2),
        "mb_s": round(rates[3], 2),
        "latency_ms": {"stock": stock["second"]["latency"]["mean_ms"], "liu": liu["second"]["latency"]["mean_ms"]},
        "seek_mb": {"stock": stock["seek_mb_mean"], "liu": liu["seek_mb_mean"]},
    }


def sizes():
    """ior over files of several sizes."""
    each = [second_run("ior-read", (r"150MiB", f"{block}MiB")) for block in BLOCKS_MIB]
    ratios = [of["ratio"] for of in each]
    return {"ratio": round(sum(ratios) / len(ratios), 4), "minimum": min(ratios), "each": each}


def beside(name, alone):
    found = second_run(name)
    return {**found, "kept": round(found["mb_s"] / alone, 4)}


def measure():
    test = second_run("test-read")
    say(f"  mpi-io-test alone: {test['ratio']}")
    buffers = {}
    for megabytes in BUFFERS_MB:
        change = (r"\[volume\]", f'[volume]\nbuffer = "{megabytes}MB"')
        buffers[f"{megabytes}MB"] = {name: second_run(f"{name}-read", change)["mb_s"] for name in ("ior", "test")}
    return {
        "liu": {
            "segment_read": {"20": segments("segment-read"), "15": segments("segment-read-15")},
            "segment_read_modern": segments("segment-read-modern"),
            "ior_read": sizes(),
            "tile_read": second_run("tile-read"),
            "test_read": test,
            "interfered_by_test": beside("test-beside-test", test["mb_s"]),
            "interfered_by_ior": beside("test-beside-ior", test["mb_s"]),
            "buffer": buffers,
        }
    }
