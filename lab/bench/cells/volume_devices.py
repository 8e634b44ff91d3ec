"""Volumes of an emulated disk and flash: what the real-time parts share. Their files lie in memory, so that only the
models take time."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time

from harness import HEADSTART, ROOT, Failed, execute

STREAMS = os.path.join(ROOT, "target", "release", "examples", "streams")
DISK_BYTES = 16 << 30
#: What passes everything through to the same disk, which is emulated under deadline with 128 requests.
STOCK = ("--mode", "write-through", "--policy", "none")


class Volume:
    """One that is being served."""

    def __init__(self, work, environment, disk):
        self.work, self.environment, self.disk = work, environment, disk

    def headstart(self, *arguments, timeout=600):
        return execute([HEADSTART, "volume", *arguments], self.environment, timeout)

    def drain(self):
        """Writes everything back; how long that took."""
        begin = time.monotonic()
        self.headstart("flush")
        return time.monotonic() - begin


def create(work, environment, disk_bytes, flash_bytes, *options):
    """A new volume whose files lie in `work`; what names its devices on every command line."""
    hdd, ssd = os.path.join(work, "hdd"), os.path.join(work, "ssd")
    for path, size in ((hdd, disk_bytes), (ssd, flash_bytes)):
        execute(["truncate", f"--size={size}", path])
    devices = ["--hdd", f"emulated:wd1602:{hdd}", "--ssd", f"emulated:pm9a3:{ssd}"]
    execute([HEADSTART, "volume", "create", *devices, *options], environment)
    return devices


@contextlib.contextmanager
def volume(flash_bytes, *options, serving=()):
    """A new volume, served as the file `disk` until the end of the block."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="headstart-volume-", dir=memory) as work:
        environment = dict(os.environ, HEADSTART_RUNTIME_BASE=os.path.join(work, "runtime"))
        disk = os.path.join(work, "disk")
        devices = create(work, environment, DISK_BYTES, flash_bytes, *options)
        command = [HEADSTART, "volume", "serve", *devices, "--mount-file", disk, "--keep-dirty", *serving]
        with open(os.path.join(work, "log"), "w+", encoding="utf-8") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                wait_for(disk, server, log)
                yield Volume(work, environment, disk)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(timeout=120)


def wait_for(disk, server, log):
    """Returns when the file is as long as the disk."""
    for _ in range(600):
        if os.path.exists(disk) and os.path.getsize(disk) == DISK_BYTES:
            return
        if server.poll() is not None:
            break
        time.sleep(0.05)
    log.seek(0)
    raise Failed(f"the volume is not served: {log.read()}")
