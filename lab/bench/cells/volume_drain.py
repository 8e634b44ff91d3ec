"""Draining: 16 KiB writes side by side by 48 threads, then written back, alone and beside random reads of 4 KiB, whose latency is compared
with the one they have when nothing is drained."""

import json
import subprocess
import time

from cells.volume_devices import STOCK, STREAMS, volume
from cells.volume_suite import scenario
from harness import HEADSTART, Failed, execute, say

#: Of each thread: 600 MB in all, less than what makes write-back urgent, and more than is drained beside the reads.
REQUESTS = 768
FLASH_BYTES = 4 << 30
SEQUENTIAL_BYTES = 256 << 20
#: Bounds of what may be added; the second is the default.
DELAYS_MS = (20, 50, 100)
#: Reads a second: a wd1602 is busy with them for half of the time.
READS_PER_S = 40
READ_SECONDS = 8


def fio(disk, *options):
    said = execute(["fio", "--name=job", f"--filename={disk}", "--direct=1", "--output-format=json", *options])
    return json.loads(said[said.index("{") :])["jobs"][0]


def sequential_mb_s():
    with volume(64 << 20, *STOCK) as served:
        write = fio(served.disk, "--rw=write", "--bs=1M", "--ioengine=libaio", "--iodepth=16", f"--size={SEQUENTIAL_BYTES}", "--offset=2M")["write"]
        return write["bw_bytes"] / 1e6


def reads_p99_ms(disk):
    read = fio(
        disk, "--rw=randread", "--bs=4k", "--ioengine=psync", "--offset=2G", "--size=8G", f"--rate_iops={READS_PER_S}",
        "--time_based", f"--runtime={READ_SECONDS}",
    )["read"]  # fmt: skip
    return read["clat_ns"]["percentile"]["99.000000"] / 1e6


def fill(served):
    execute([STREAMS, scenario("strided-write"), served.disk, str(REQUESTS)])


def dirty_bytes(served):
    status = json.loads(served.headstart("status", "--json"))
    return (status[0] if isinstance(status, list) else status)["dirty_bytes"]


def drain_mb_s():
    with volume(FLASH_BYTES) as served:
        fill(served)
        dirty = dirty_bytes(served)
        return dirty / 1e6 / served.drain()


def beside_reads(delay_ms):
    """What a drain adds to the reads beside it, and its rate meanwhile."""
    with volume(FLASH_BYTES, serving=("--delay-max-ms", str(delay_ms))) as served:
        idle = reads_p99_ms(served.disk)
        fill(served)
        before, begin = dirty_bytes(served), time.monotonic()
        drain = subprocess.Popen([HEADSTART, "volume", "flush"], env=served.environment, stderr=subprocess.DEVNULL)
        try:
            draining = reads_p99_ms(served.disk)
            rate = (before - dirty_bytes(served)) / 1e6 / (time.monotonic() - begin)
            if drain.poll() is not None:
                raise Failed("the drain ended before the reads beside it")
        finally:
            drain.kill()
            drain.wait()
    say(f"  bound {delay_ms} ms: p99 of reads {idle:.1f} to {draining:.1f} ms, draining at {rate:.1f} MB/s")
    return {"added_ms": round(draining - idle, 1), "idle_ms": round(idle, 1), "drain_mb_s": round(rate, 1)}


def measure():
    sequential, drained = sequential_mb_s(), drain_mb_s()
    say(f"  {drained:.1f} MB/s, the disk writes {sequential:.1f} MB/s in order")
    return {"drain_mb_s": {"ratio": round(drained / sequential, 3), "mb_s": round(drained, 1), "sequential_mb_s": round(sequential, 1)}}


def measure_beside():
    by_delay = {f"delay_max_{delay}_ms": beside_reads(delay) for delay in DELAYS_MS}
    added = [of["added_ms"] for of in by_delay.values()]
    return {
        "foreground_p99_added_ms": by_delay["delay_max_50_ms"]["added_ms"],
        "foreground": {**by_delay, "follows_the_setting": added == sorted(added)},
    }
