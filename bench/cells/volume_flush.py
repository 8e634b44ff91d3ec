"""Random writes of 4 KiB, each followed by FLUSH, over NBD: a volume of an emulated disk and flash against the disk alone, which the same
server passes through (write-through), in rounds that take turns."""

import json
import os
import tempfile

from cells.volume_nbd import served, uri
from harness import HEADSTART, execute, say

DISK_BYTES = 8 << 30
FLASH_BYTES = 512 << 20
ROUNDS = 3
ROUND_SECONDS = 5


def writes(socket, seed):
    """Flushed writes a second."""
    said = execute([
        "fio", "--name=writes", "--ioengine=nbd", f"--uri={uri(socket)}", "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=1",
        "--fsync=1", f"--size={DISK_BYTES}", "--time_based", f"--runtime={ROUND_SECONDS}", f"--randseed={seed}",
        "--output-format=json",
    ])  # fmt: skip
    return json.loads(said[said.index("{") :])["jobs"][0]["write"]["iops"]


def measure():
    rates = {"volume": [], "disk": []}
    with tempfile.TemporaryDirectory(prefix="headstart-flush-") as work:
        environment = dict(os.environ, HEADSTART_RUNTIME_BASE=os.path.join(work, "runtime"))
        socket, servers = os.path.join(work, "socket"), {}
        for name, options in (("volume", []), ("disk", ["--mode", "write-through", "--policy", "none"])):
            hdd, ssd = (os.path.join(work, f"{name}.{device}") for device in ("hdd", "ssd"))
            execute(["truncate", f"--size={DISK_BYTES}", hdd])
            execute(["truncate", f"--size={FLASH_BYTES}", ssd])
            devices = ["--hdd", f"emulated:wd1602:{hdd}", "--ssd", f"emulated:pm9a3:{ssd}"]
            execute([HEADSTART, "volume", "create", *devices, *options], environment)
            # What is left on flash waits for the next round: bringing it to the disk takes longer than a round.
            servers[name] = [HEADSTART, "volume", "serve", *devices, "--nbd", socket, "--keep-dirty"]
        for turn in range(ROUNDS):
            for name, command in servers.items():
                with served(command, socket, environment):
                    rates[name].append(writes(socket, turn + 1))
            say(f"  {rates['volume'][-1]:.0f}/s, the disk alone {rates['disk'][-1]:.0f}/s")
    ratios = sorted(of / to for of, to in zip(rates["volume"], rates["disk"]))
    return {
        "fsync_write": {
            "ratio": round(ratios[len(ratios) // 2], 2),
            "ratios": [round(ratio, 2) for ratio in ratios],
            "volume_per_s": round(sorted(rates["volume"])[len(ratios) // 2], 1),
            "disk_per_s": round(sorted(rates["disk"])[len(ratios) // 2], 1),
        }
    }
