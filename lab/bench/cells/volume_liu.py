"""LiU in the simulator: segments at random on one disk, the paper's benchmarks on its six calibrated data servers (second run, nothing in
servers' memory, the first run beside it), and beside other jobs; and rows of `headstart-lab paper` that a volume predicts."""

import os
import re
import statistics
import tempfile

from cells import papers
from harness import SCENARIOS, say, simulate

#: Files of ior whose blocks differ by a MiB.
BLOCKS_MIB = range(148, 154)
BUFFERS_MB = (32, 64, 128, 256, 512)
#: Beside another job stock differs by a seventh from one seed to the next, in which order ranks come.
SEEDS = range(1, 7)
#: What the paper's stock has of mpi-io-test alone, and how far off it a figure beside others may rest upon (docs/internals/models.md, section 6).
ALONE_MB_S, ALONE_SHARE = 264.7, 0.15
#: What runs beside mpi-io-test in Table III.
NEIGHBOURS = {"alone": "alone", "beside_test": "+ mpi-io-test", "beside_ior": "+ ior"}
#: iTransformer's, and LiU's writes of ior, Figs 5 to 7, and Table III.
ROWS = ("I3", "I4", "I5", "L10", "L12", "L13", "L14", "L22-LiU", "L23-LiU")


def jobs_of(name, policy, *changes, seed=1):
    """The jobs of a scenario by their names, changed first where patterns match."""
    with open(os.path.join(SCENARIOS, "liu", f"{name}.toml"), encoding="utf-8") as file:
        text = file.read()
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text)
        assert count, f"{name} has no {pattern}"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
        scenario.write(text)
        scenario.flush()
        report = simulate(scenario.name, "--server-policy", policy, "--seed", str(seed))
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


def second_run(name, *changes, seeds=(1,)):
    """Means of runs of these seeds."""
    runs = {policy: [jobs_of(name, policy, *changes, seed=seed) for seed in seeds] for policy in ("stock", "liu")}

    def mean(policy, figure):
        return statistics.mean(figure(jobs) for jobs in runs[policy])

    def rate(policy, run):
        return mean(policy, lambda jobs: in_requests(jobs[run]))

    def of_both(figure):
        return {policy: round(mean(policy, figure), 2) for policy in runs}

    return {
        "ratio": round(rate("liu", "second") / rate("stock", "second"), 4),
        "first_ratio": round(rate("liu", "first") / rate("stock", "first"), 4),
        "stock_mb_s": round(rate("stock", "second"), 2),
        "mb_s": round(rate("liu", "second"), 2),
        "latency_ms": of_both(lambda jobs: jobs["second"]["latency"]["mean_ms"]),
        "seek_mb": of_both(lambda jobs: jobs["seek_mb_mean"]),
    }


def sizes():
    """ior over files of several sizes."""
    each = [second_run("ior-read", (r"150MiB", f"{block}MiB")) for block in BLOCKS_MIB]
    ratios = [of["ratio"] for of in each]
    return {"ratio": round(sum(ratios) / len(ratios), 4), "minimum": min(ratios), "each": each}


def beside(name, alone):
    """mpi-io-test beside another job; `kept` is the share of what it has alone."""
    found = second_run(name, seeds=SEEDS)
    alone_is_the_papers = abs(alone["stock_mb_s"] / ALONE_MB_S - 1) <= ALONE_SHARE
    return {
        **found,
        "kept": round(found["mb_s"] / alone["mb_s"], 4),
        "stock_kept": round(found["stock_mb_s"] / alone["stock_mb_s"], 4),
        "stock_alone_mb_s": alone["stock_mb_s"],
        "stock_alone_is_the_papers": alone_is_the_papers,
    }


def buffer(megabytes):
    """ior, which needs room, and mpi-io-test, which does not; `ratio` is ior's."""
    change = (r"\[volume\]", f'[volume]\nbuffer = "{megabytes}MB"')
    found = {name: {key: second_run(f"{name}-read", change)[key] for key in ("ratio", "mb_s")} for name in ("ior", "test")}
    return {"ratio": found["ior"]["ratio"], **found}


def measure():
    test = second_run("test-read", seeds=SEEDS)
    say(f"  mpi-io-test alone: {test['ratio']}")
    by_segments = {share: segments(name) for share, name in (("20", "segment-read"), ("15", "segment-read-15"))}
    return {
        "liu": {
            "segment_read": {"ratio": by_segments["20"]["ratio"], "bound": 1.25, **by_segments},
            "segment_read_modern": segments("segment-read-modern"),
            "tile_read": second_run("tile-read", seeds=SEEDS),
            "test_read": test,
            "interfered_by_test": beside("test-beside-test", test),
            "interfered_by_ior": beside("test-beside-ior", test),
            "buffer": {f"{megabytes}MB": buffer(megabytes) for megabytes in BUFFERS_MB},
        },
        "liu_simulated": {"ior_read": sizes()},
    }


def beside_others(row, stock, liu):
    """A row of Table III, of two of its series; `ratio` is stock beside ior over LiU there."""
    ours, paper = papers.values(row, "ours"), papers.values(row, "paper")
    table = {
        key: {"stock": ours[stock][point], "liu": ours[liu][point], "paper": {"stock": paper[stock][point], "liu": paper[liu][point]}}
        for key, point in NEIGHBOURS.items()
    }
    return {"ratio": round(table["beside_ior"]["stock"] / table["beside_ior"]["liu"], 4), **table}


def predict():
    """Rows of `headstart-lab paper`, on the same calibrated servers and at the paper's sizes."""
    with tempfile.TemporaryDirectory(prefix="headstart-paper-") as drawings:
        row = papers.simulated(drawings, *(option for name in ROWS for option in ("--id", name)))["row"]
    claims = {name: papers.report(row[name])["claims"] for name in ROWS}
    writes = {name: cells["8 MiB"] for name, cells in papers.values(row["L10"], "ours").items()}
    requests = papers.values(row["L13"], "ours")
    return {
        "paper": {name: papers.report(row[name]) for name in ("I3", "I4", "I5")},
        "liu": {
            "ior_write": {
                "ratio": round(writes["LiU"] / writes["stock"], 4),
                "stock_mb_s": round(writes["stock"], 2),
                "mb_s": round(writes["LiU"], 2),
                "latency_free_mb_s": round(writes["latency-free"], 2),
            },
            "latency_ms": {
                **beside_others(row["L23-LiU"], "stock, ms", "LiU, ms"),
                "ior_read": {name: cells["read"] for name, cells in requests.items()},
                "claims": {**claims["L23-LiU"], **claims["L13"]},
            },
            "seek_distance": {
                "unit": "millions of sectors",
                **beside_others(row["L22-LiU"], "stock", "LiU"),
                "claims": {**claims["L22-LiU"], **claims["L12"], **claims["L14"]},
            },
        },
    }
