"""What calls cost that Headstart adds to: on directories in memory, where nothing but its own work counts."""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time

import harness
from harness import Failed, Site, Workload, say

MODEL = {"hdd_servers": 8, "ssd_servers": 4, "stripe_bytes": 65536, "rotation_s": 0.004, "seek_s_max": 0.014,
         "hdd_s_per_byte": 1e-8}
#: Flash costs next to nothing: everything is wanted there; or so much that nothing is.
WANTED, UNWANTED = 1e-9, 1.0
#: Dirty bytes stay on flash until somebody asks for them.
PINNED = "[agent]\ndirty_low = 0.99\ndirty_high = 1.0\ndirty_full = 1.0\n"


@contextlib.contextmanager
def memory_site(flash_s_per_byte, capacity="64MiB", more=""):
    with tempfile.TemporaryDirectory(prefix="headstart-", dir="/dev/shm") as work:
        slow, fast = os.path.join(work, "slow"), os.path.join(work, "fast")
        os.mkdir(slow)
        os.mkdir(fast)
        site = Site(work, slow, fast)
        lines = [f'slow = "{slow}"', f'fast = "{fast}"', f'capacity = "{capacity}"']
        for direction in ("read", "write"):
            lines.append(f"[s4d.{direction}]")
            lines += [f"{key} = {value}" for key, value in MODEL.items()]
            lines += [f"ssd_s_per_byte = {flash_s_per_byte}", "seek_curve = []"]
        with open(site.environment["HEADSTART_SITE"], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n" + more)
        try:
            yield site
        finally:
            with contextlib.suppress(Failed):
                site.headstart("stop", "--keep-dirty")
            site.close()


def latency(path, *options):
    return [harness.LATENCY, "--file", path, *options]


def under_null(site, command):
    """A program under a library that takes every call and passes it on: what interposing costs by itself."""
    return harness.json_lines(harness.execute(command, {**site.environment, "LD_PRELOAD": harness.NULL}))[-1]


def beside_null(site, command, managed_command=None, rounds=9):
    """Nanoseconds a call costs more under Headstart than under the null interposer; medians of rounds in turn."""
    kinds = {
        "plain": lambda: site.program(command),
        "null": lambda: under_null(site, command),
        "managed": lambda: site.run(managed_command or command)[0],
    }
    samples = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, call in kinds.items():
            samples[kind].append(call()["batch_p50_ns"])
    medians = {kind: statistics.median(values) for kind, values in samples.items()}
    added = [managed - null for managed, null in zip(samples["managed"], samples["null"])]
    return {
        "value": round(medians["managed"] - medians["null"], 1),
        "over_nothing_preloaded": round(medians["managed"] - medians["plain"], 1),
        **{f"{kind}_ns": median for kind, median in medians.items()},
        "added_min_ns": round(min(added), 1),
        "added_max_ns": round(max(added), 1),
    }


def untouched_call(rounds=9):
    """A 4 KiB pread of a managed file that has nothing on flash and that the cost model leaves on disk."""
    with memory_site(UNWANTED) as site:
        path = os.path.join(site.slow, "file")
        options = ["--size", "4096", "--count", "200000", "--span", "16M"]
        site.program(latency(path, *options, "--fill"))
        result = beside_null(site, latency(path, *options), rounds=rounds)
        if site.status()["requests"]["cheap_requests_total"] < 200000 * rounds:
            raise Failed("the calls did not take the cheap path")
        return result


def open_close():
    """open and close of a file outside the managed directory; and of a managed one, of which the agent must know."""
    options = ["--size", "1", "--count", "20000", "--op", "open"]
    with memory_site(UNWANTED) as site:
        outside, inside = os.path.join(site.work, "outside"), os.path.join(site.slow, "inside")
        for path in (outside, inside):
            site.program(latency(path, "--count", "64", "--span", "4k", "--fill"))
        return {**beside_null(site, latency(outside, *options)), "managed_file": beside_null(site, latency(inside, *options), rounds=3)}


def agent_round_trip():
    """A 4 KiB pread of bytes on flash: one question to the agent and one pread; the pread is taken off."""
    with memory_site(WANTED) as site:
        path = os.path.join(site.slow, "file")
        call = latency(path, "--size", "4096", "--span", "16M")
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


def agent_decisions(processes=16, count=20000):
    """Questions one agent answers when 16 processes ask without a pause: reads of 512 bytes on flash."""
    with memory_site(WANTED) as site:
        path = os.path.join(site.slow, "file")
        call = latency(path, "--size", "512", "--span", "4M")
        site.program(call + ["--count", "64", "--fill"])
        site.run(call + ["--op", "pwrite", "--count", "40000"], "--keep-dirty")
        report = os.path.join(site.work, "report.json")
        one = " ".join(call + ["--count", str(count)])
        shell = f"for i in $(seq {processes}); do {one} > /dev/null & done; wait"
        site.headstart("run", "--keep-dirty", "--report", report, "--", "sh", "-c", shell)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
        site.headstart("drain")
        questions = found["requests"]["round_trips_total"]
        if questions < processes * count:
            raise Failed(f"only {questions} questions were asked")
        return {"value": round(questions / found["program_s"]), "questions": questions, "seconds": found["program_s"],
                "processes": processes, "includes": "starting the processes, and the pread after each answer"}


def fill_flash(site, capacity):
    """All of the capacity dirty, and pinned by the site's marks."""
    path = os.path.join(site.slow, "pinned")
    size = 2 * capacity
    fill = latency(path, "--size", "65536", "--span", str(size), "--op", "pwrite", "--count", str(size // 4096))
    site.program(latency(path, "--size", "65536", "--span", str(size), "--count", "64", "--fill"))
    site.run(fill, "--keep-dirty")
    used = site.status()["mapped_bytes"]
    if used < 0.9 * capacity:
        raise Failed(f"only {used} of {capacity} bytes of flash are full")


def all_miss_latency(capacity=16 << 20):
    """What a write costs more that is wanted on flash and finds it full, beside nothing preloaded."""
    with memory_site(WANTED, str(capacity), PINNED) as site:
        fill_flash(site, capacity)
        path = os.path.join(site.slow, "file")
        call = latency(path, "--size", "16384", "--span", "64M", "--op", "pwrite")
        site.program(call + ["--count", "64", "--fill"])
        call += ["--count", "10000", "--pause-us", "100"]
        before = site.status()["requests"]
        plain, managed = site.program(call), site.run(call, "--keep-dirty")[0]
        after = site.status()["requests"]
        if after["absorbed_requests_total"] - before["absorbed_requests_total"] > 500:
            raise Failed("flash was not full")
        return {f"added_{p}_us": round((managed[f"{p}_ns"] - plain[f"{p}_ns"]) / 1e3, 2) for p in ("p50", "p99")}


def all_miss(capacity=16 << 20, turns=5):
    """Random writes of 16 KiB by 16 ranks that all find flash full of what may not leave it: Headstart's time over stock's, the
    medians of turns, and what is added to a single call."""
    pinned, missing = Workload(16 << 10, 31), Workload(16 << 10, 61)
    seconds = {"stock": [], "headstart": []}
    with harness.testbed("--server-cache", "0") as site:
        with open(site.environment["HEADSTART_SITE"], "a", encoding="utf-8") as file:
            file.write("\n" + PINNED)
        options = ("--keep-dirty", "--capacity", str(capacity))
        # A file for every run: what one leaves dirty on flash must not be written over without Headstart, and written over with
        # it makes its own place free.
        files = (os.path.join(site.slow, f"ior.{number}") for number in itertools.count())
        site.run(pinned.command(os.path.join(site.slow, "pinned"), "write", 1, 1), *options)
        # What the ranks' slabs held is free again now, and is filled by a run that does not count.
        site.run(missing.command(next(files), "write", 1, 1), *options)
        for turn in range(turns):
            seconds["stock"].append(harness.direct(site, missing, next(files), "write")["seconds"])
            printed, report = site.run(missing.command(next(files), "write", turn, 1), *options)
            seconds["headstart"].append(harness.phase(printed)["seconds"])
            if report["flash_share"] > 0.02:
                raise Failed(f"flash took {report['flash_share']:.0%} of the requests; it was to be full")
        site.headstart("drain")
        timing = harness.timing(site)
    stock, managed = (statistics.median(seconds[kind]) for kind in ("stock", "headstart"))
    return {"ratio": round(managed / stock, 4), **all_miss_latency(), "seconds": seconds, "timing": timing}


def map_bytes():
    """Bytes of one isolated 4 KiB extent, in the agent's memory and in its journal."""
    return harness.json_lines(harness.execute([harness.MAP_BYTES]))[-1]
