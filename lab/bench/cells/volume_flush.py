"""Random writes of 4 KiB, each followed by FLUSH, over NBD: a volume of an emulated disk and flash against the disk alone, which the same
server passes through (write-through), in rounds that take turns.

What a flushed write costs is measured while the log has room: each round has a new volume. A log that is full takes no more than is
written back, which on this disk is random writes in order; that is measured apart."""

import json
import os
import tempfile

from cells.volume_devices import STOCK, create
from cells.volume_nbd import served, uri
from harness import HEADSTART, execute, say

DISK_BYTES = 8 << 30
#: Room for a round in less than half of the log, twice over: a write takes 8 KiB of it.
FLASH_BYTES = 2 << 30
ROUNDS = 3
ROUND_SECONDS = 5
#: Full after a second or two.
SUSTAINED_FLASH_BYTES = 64 << 20
FILLING_SECONDS = 10
SUSTAINED_SECONDS = 30


def writes(socket, seed, seconds=ROUND_SECONDS, ramp_seconds=0):
    """Flushed writes a second."""
    said = execute([
        "fio", "--name=writes", "--ioengine=nbd", f"--uri={uri(socket)}", "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=1",
        "--fsync=1", f"--size={DISK_BYTES}", "--time_based", f"--runtime={seconds}", f"--ramp_time={ramp_seconds}", f"--randseed={seed}",
        "--output-format=json",
    ])  # fmt: skip
    return json.loads(said[said.index("{") :])["jobs"][0]["write"]["iops"]


def rate(flash_bytes, options, seed, **timing):
    """Of a new volume."""
    with tempfile.TemporaryDirectory(prefix="headstart-flush-") as work:
        environment = dict(os.environ, HEADSTART_RUNTIME_BASE=os.path.join(work, "runtime"))
        socket = os.path.join(work, "socket")
        devices = create(work, environment, DISK_BYTES, flash_bytes, *options)
        # Bringing what is left to the disk would take longer than the round.
        with served([HEADSTART, "volume", "serve", *devices, "--nbd", socket, "--keep-dirty"], socket, environment):
            return writes(socket, seed, **timing)


def measure():
    rates = []
    for turn in range(ROUNDS):
        rates.append([rate(FLASH_BYTES, options, turn + 1) for options in ((), STOCK)])
        say(f"  {rates[-1][0]:.0f}/s, the disk alone {rates[-1][1]:.0f}/s")
    ratios = sorted(of / to for of, to in rates)
    volume, disk = (sorted(column)[ROUNDS // 2] for column in zip(*rates))
    return {
        "fsync_write": {
            "ratio": round(ratios[ROUNDS // 2], 2),
            "ratios": [round(ratio, 2) for ratio in ratios],
            "volume_per_s": round(volume, 1),
            "disk_per_s": round(disk, 1),
        }
    }


def measure_sustained():
    timing = {"seconds": SUSTAINED_SECONDS, "ramp_seconds": FILLING_SECONDS}
    volume, disk = rate(SUSTAINED_FLASH_BYTES, (), 1, **timing), rate(SUSTAINED_FLASH_BYTES, STOCK, 1)
    say(f"  {volume:.0f}/s, the disk alone {disk:.0f}/s")
    return {"fsync_write_sustained": {"ratio": round(volume / disk, 2), "volume_per_s": round(volume, 1), "disk_per_s": round(disk, 1)}}
