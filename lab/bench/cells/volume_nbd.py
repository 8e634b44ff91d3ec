"""4 KiB random reads over NBD: a volume in front of a fast file against nbdkit's own `file` plugin on the same file.

That plugin has no O_DIRECT. With `cache=none fadvise=random` it reads from the device, too: no readahead, every page is dropped from the
page cache once it was sent, and fio reads no block twice in a round; what is left of the cache is dropped before each round. The rounds
take turns."""

import contextlib
import json
import os
import subprocess
import tempfile
import time

from harness import HEADSTART, Failed, execute, say

#: Large enough that no round reads a block twice.
FILE_BYTES = 2 << 30
FLASH_BYTES = 256 << 20
ROUNDS = 3
ROUND_SECONDS = 8
DEPTH = 32
#: Of nbdkit: twice the depth.
THREADS = 64


def drop_from_cache(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def served(command, socket, environment):
    """A server until the end of the block; it listens when this returns."""
    if os.path.exists(socket):
        os.unlink(socket)
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # nbdinfo fails until the socket is there.
        for _ in range(600):
            asked = subprocess.run(["nbdinfo", "--size", uri(socket)], capture_output=True, check=False)
            if asked.returncode == 0:
                break
            if server.poll() is not None:
                raise Failed(f"{' '.join(command)}\n{server.stderr.read()}")
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(timeout=120)


def uri(socket):
    return f"nbd+unix:///?socket={socket}"


def random_reads(socket, seed, depth):
    """fio's figures of reads: requests a second and mean latency in microseconds."""
    said = execute([
        "fio", "--name=reads", "--ioengine=nbd", f"--uri={uri(socket)}", "--thread", "--rw=randread", "--bs=4k", f"--iodepth={depth}",
        f"--size={FILE_BYTES}", "--time_based", f"--runtime={ROUND_SECONDS}", f"--randseed={seed}", "--output-format=json",
    ])  # fmt: skip
    read = json.loads(said[said.index("{") :])["jobs"][0]["read"]
    return read["iops"], read["clat_ns"]["mean"] / 1e3


def measure():
    with tempfile.TemporaryDirectory(prefix="headstart-nbd-") as work:
        hdd, ssd, socket = (os.path.join(work, name) for name in ("hdd", "ssd", "socket"))
        execute(["dd", "if=/dev/zero", f"of={hdd}", "bs=1M", f"count={FILE_BYTES >> 20}", "conv=fsync", "status=none"])
        execute(["truncate", f"--size={FLASH_BYTES}", ssd])
        environment = dict(os.environ, HEADSTART_RUNTIME_BASE=os.path.join(work, "runtime"))
        devices = ["--hdd", hdd, "--ssd", ssd]
        execute([HEADSTART, "volume", "create", *devices], environment)
        servers = {
            "volume": [HEADSTART, "volume", "serve", *devices, "--nbd", socket],
            "file": [
                "nbdkit", "--foreground", "--threads", str(THREADS), "--unix", socket, "file", hdd, "cache=none", "fadvise=random",
            ],
        }  # fmt: skip
        figures = {name: {depth: [] for depth in (DEPTH, 1)} for name in servers}
        for turn in range(ROUNDS):
            for name, command in servers.items():
                for depth in (DEPTH, 1):
                    drop_from_cache(hdd)
                    with served(command, socket, environment):
                        figures[name][depth].append(random_reads(socket, turn + 1, depth))
                say(f"  {name}: {figures[name][DEPTH][-1][0]:.0f}/s at depth {DEPTH}, {figures[name][1][-1][0]:.0f}/s alone")
    ratios = [of[0] / to[0] for of, to in zip(figures["volume"][DEPTH], figures["file"][DEPTH])]

    def middle(values):
        return sorted(values)[len(values) // 2]

    return {
        "nbd_iops": {
            "ratio": round(middle(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "volume_iops": round(middle([iops for iops, _ in figures["volume"][DEPTH]])),
            "file_iops": round(middle([iops for iops, _ in figures["file"][DEPTH]])),
            "added_latency_us": round(
                middle([latency for _, latency in figures["volume"][1]]) - middle([latency for _, latency in figures["file"][1]]), 1
            ),
        }
    }
