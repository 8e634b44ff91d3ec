"""A program whose hot region moves every 20 seconds, never traced (`--policy auto`), against stock and against perfect knowledge: the
best regions of each place on flash before the program gets there."""

import os

import harness
from cells.placement import CAPACITY, MEASURED_SEED, TRACED_SEED, Drawn, Placed, plan
from harness import Failed, phase, say

SECONDS = 20
#: Places of the hot region, one after another; the first is no move.
WINDOWS = 3
TRANSFER = 8 << 10
#: More than a rank gets done in one window with everything hot on flash, so that no draw comes twice.
REQUESTS = 20000


def workload(first, windows):
    options = ("--shift-seconds", str(SECONDS), "--shift-first", str(first), "--shift-windows", str(windows))
    return Drawn(TRANSFER, REQUESTS, options=options)


def windows_of(result):
    phase(result)
    return result["phases"][0]["windows"]


def known(site, file, window):
    """Requests of one window without flash, and with its own plan placed."""
    alone = workload(window, 1)
    trace = os.path.join(site.work, "trace")
    (stock,) = windows_of(site.trace(alone.command(file, "read", 0, TRACED_SEED), trace))
    path, promised = plan(site, trace, "window", alone.file_bytes)
    with Placed(site, path, promised["capacity_bytes"]):
        (best,) = windows_of(site.run(alone.command(file, "read", 0, MEASURED_SEED), "--policy", "carl", "--plan", path)[0])
    return stock, best


def measure():
    with harness.testbed("--server-cache", "0") as site:
        moving = workload(0, WINDOWS)
        file = moving.prepare(site, site.slow)
        pairs = []
        for window in range(1, WINDOWS):
            say(f"shift: place {window}: stock, and with perfect knowledge ...")
            pairs.append(known(site, file, window))
        say("shift: --policy auto ...")
        options = ("--policy", "auto", "--capacity", str(int(moving.file_bytes * CAPACITY)))
        printed, report = site.run(moving.command(file, "read", 0, MEASURED_SEED), *options)
        found = windows_of(printed)
        timing = harness.timing(site)
    moves = []
    for (stock, best), auto in zip(pairs, found[1:]):
        if best <= stock:
            raise Failed(f"knowing the place gains nothing: {best} requests against {stock}")
        moves.append({
            "stock_requests": stock, "oracle_requests": best, "auto_requests": auto, "oracle_ratio": round(best / stock, 3),
            "ratio": round(auto / stock, 3), "share_of_gain": round((auto - stock) / (best - stock), 3),
        })
    shift = {
        "value": min(move["share_of_gain"] for move in moves), "first_place_requests": found[0], "moves": moves,
        "flash_share": round(report["flash_share"], 4), "timing": timing,
    }
    return {"auto": {"shift": shift}}
