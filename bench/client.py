"""What the client side gains and costs; the last line is one JSON object.

Random requests of 16 KiB by 16 ranks in one file of 511 MiB: without Headstart, with it at 20 % and 50 % capacity, and all on
flash; with and without the servers' write cache. Then what a call costs that Headstart has nothing to do with, and a question
to the agent. `ratio` is stock time over Headstart's, to the last close; `drained_ratio` to the last byte on the disks."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from harness import Failed, Site, Workload, cached, direct, say

TRANSFER = 16 << 10
STRIPES = 511
CAPACITIES = ("20%", "50%")


def figures(workload, stock, headstart, flash):
    """One cell: rates, ratios and the bounds they stand under."""
    rate = lambda run: round(workload.bytes / 1e6 / run["seconds"], 1)
    ratio = stock["seconds"] / headstart["seconds"]
    share = headstart["flash_share"]
    return {
        "ratio": round(ratio, 3),
        "drained_ratio": round(stock["drained_seconds"] / headstart["drained_seconds"], 3),
        "stock_mb_s": rate(stock),
        "headstart_mb_s": rate(headstart),
        "all_flash_mb_s": rate(flash),
        "of_all_flash": round(flash["seconds"] / headstart["seconds"], 3),
        "flash_share": round(share, 4),
        "bounds": {
            "all_flash_over_stock": round(stock["seconds"] / flash["seconds"], 2),
            "one_over_share_left": round(1 / (1 - share), 2) if share < 1 else None,
        },
    }


def ior_random(site, workload):
    """Writes and second-run reads at every capacity; the first run of the reads is not counted."""
    slow, fast = os.path.join(site.slow, "ior"), os.path.join(site.fast, "ior")
    say("  stock ...")
    stock = {operation: direct(site, workload, slow, operation) for operation in ("write", "read")}
    say("  all on flash ...")
    flash = {operation: direct(site, workload, fast, operation) for operation in ("write", "read")}
    table = {"write": {}, "read_second_run": {}}
    for capacity in CAPACITIES:
        site.forget()
        say(f"  Headstart, capacity {capacity}: write, read, read again ...")
        write = cached(site, workload, slow, "write", capacity, generation=1)
        cached(site, workload, slow, "read", capacity, generation=1)
        second = cached(site, workload, slow, "read", capacity, generation=1)
        table["write"][capacity] = figures(workload, stock["write"], write, flash["write"])
        table["read_second_run"][capacity] = figures(workload, stock["read"], second, flash["read"])
    for operation in table:
        # The headline is the larger capacity; the other stands beside it.
        table[operation] = {**table[operation]["50%"], "capacity": "50%", "at": table[operation]}
    return table


def ior_random_all():
    workload = Workload(TRANSFER, STRIPES)
    results = {}
    for key, cache in (("ior_random", "0"), ("ior_random_server_cache", "8MiB")):
        say(f"{key}: server write cache {cache}")
        with harness.testbed("--server-cache", cache) as site:
            results[key] = {"16KiB": ior_random(site, workload), "server_cache": cache, "timing": harness.timing(site)}
    return results


@contextlib.contextmanager
def memory_site(flash_s_per_byte):
    """Two directories in memory; the cost model wants flash or not, as its rate says."""
    with tempfile.TemporaryDirectory(prefix="headstart-", dir="/dev/shm") as work:
        slow, fast = os.path.join(work, "slow"), os.path.join(work, "fast")
        os.mkdir(slow)
        os.mkdir(fast)
        site = Site(work, slow, fast)
        model = {"hdd_servers": 8, "ssd_servers": 4, "stripe_bytes": 65536, "rotation_s": 0.004, "seek_s_max": 0.014,
                 "hdd_s_per_byte": 1e-8, "ssd_s_per_byte": flash_s_per_byte}
        lines = [f'slow = "{slow}"', f'fast = "{fast}"', 'capacity = "64MiB"']
        for direction in ("read", "write"):
            lines.append(f"[s4d.{direction}]")
            lines += [f"{key} = {value}" for key, value in model.items()]
            lines.append("seek_curve = []")
        with open(site.environment["HEADSTART_SITE"], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        try:
            yield site
        finally:
            with contextlib.suppress(Failed):
                site.headstart("stop", "--keep-dirty")
            site.close()


def untouched_call(rounds=9):
    """A 4 KiB pread of a managed file that has nothing on flash and that the cost model leaves on disk: what it costs more."""
    with memory_site(flash_s_per_byte=1.0) as site:
        path = os.path.join(site.slow, "file")
        call = [harness.LATENCY, "--file", path, "--size", "4096", "--count", "200000", "--span", "16M"]
        site.program(call + ["--fill"])
        plain, managed = [], []
        for _ in range(rounds):
            plain.append(site.program(call)["batch_p50_ns"])
            managed.append(site.run(call)[0]["batch_p50_ns"])
        cheap = site.status()["requests"]["cheap_requests_total"]
        if cheap < 200000 * rounds:
            raise Failed(f"only {cheap} calls took the cheap path")
        added = [m - p for m, p in zip(managed, plain)]
        return {"value": round(statistics.median(managed) - statistics.median(plain), 1), "plain_ns": statistics.median(plain),
                "managed_ns": statistics.median(managed), "added_min_ns": round(min(added), 1), "added_max_ns": round(max(added), 1)}


def agent_round_trip():
    """A 4 KiB pread of bytes on flash: one question to the agent and one pread; the pread is taken off."""
    with memory_site(flash_s_per_byte=1e-9) as site:
        path = os.path.join(site.slow, "file")
        call = [harness.LATENCY, "--file", path, "--size", "4096", "--span", "16M"]
        site.program(call + ["--count", "64", "--fill"])
        site.run(call + ["--op", "pwrite", "--count", "60000"], "--keep-dirty")

        def asked(*options):
            plain = site.program(call + list(options))
            managed = site.run(call + list(options), "--keep-dirty")[0]
            return {"value": round((managed["p50_ns"] - plain["p50_ns"]) / 1e3, 2), "p50_us": round(managed["p50_ns"] / 1e3, 2),
                    "p99_us": round(managed["p99_ns"] / 1e3, 2), "pread_p50_us": round(plain["p50_ns"] / 1e3, 2)}

        before = site.status()["requests"]["flash_read_requests_total"]
        paced = asked("--count", "8000", "--pause-us", "300")
        result = {**paced, "back_to_back": asked("--count", "40000")}
        spin = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(16)]
        try:
            time.sleep(0.5)
            result["beside_16_busy_processes"] = asked("--count", "1500", "--pause-us", "300")
        finally:
            for process in spin:
                process.kill()
        if site.status()["requests"]["flash_read_requests_total"] - before < 49000:
            raise Failed("the reads did not go to flash")
        site.headstart("drain")
        return result


def main():
    start = time.monotonic()
    say("untouched calls ...")
    results = {"untouched_call_added_ns": untouched_call()}
    say("questions to the agent ...")
    results["agent_round_trip_us"] = agent_round_trip()
    results.update(ior_random_all())
    results["seconds"] = round(time.monotonic() - start)
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"bench-client: {error}")
