"""What `headstart calibrate` finds of emulated disks in real time, against their profiles' own figures."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

import harness
from harness import Failed

#: The disks of the papers: CARL's and S4D's, LiU's.
DISKS = ("seagate-250", "wd1602")
FLASH = "revodrive-x2"
#: Minutes for each disk.
MINUTES = 2.5
#: As LiU's larger file.
SPAN = "10GB"


@contextlib.contextmanager
def device(profile, work):
    """One emulated device, served as a sparse file."""
    path = os.path.join(work, profile)
    server = subprocess.Popen(
        [harness.LAB, "testbed", "disk", "--profile", profile, "--file", path],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    try:
        outside = os.stat(work).st_dev
        for _ in range(500):
            if os.path.exists(path) and os.stat(path).st_dev != outside:
                break
            if server.poll() is not None:
                raise Failed(f"the emulated {profile} did not start\n{server.stderr.read()}")
            time.sleep(0.02)
        else:
            raise Failed(f"the emulated {profile} was not there after 10 s")
        yield path
    finally:
        server.terminate()
        server.communicate(timeout=30)


def calibrated(disk, minutes):
    """The report of a calibration of this disk and the flash device."""
    # In memory, sparse: 10 GB that nobody writes take no room.
    with tempfile.TemporaryDirectory(prefix="headstart-", dir="/dev/shm") as work, \
            device(disk, work) as slow, device(FLASH, work) as fast:
        path = {name: os.path.join(work, name) for name in ("slow", "fast", "site.toml", "report.json")}
        os.mkdir(path["slow"])
        os.mkdir(path["fast"])
        # Before other programs, behind the emulated devices, so that a reply waits for no CPU.
        first = ["chrt", "-f", "40"] if shutil.which("chrt") and os.geteuid() == 0 else []
        harness.execute(
            [*first, harness.HEADSTART, "calibrate", "--slow", slow, "--fast", fast, "--size", SPAN, "--minutes", str(minutes),
             "--slow-directory", path["slow"], "--fast-directory", path["fast"],
             "-o", path["site.toml"], "--report", path["report.json"]],
            timeout=minutes * 120 + 60,
        )
        with open(path["report.json"], encoding="utf-8") as file:
            return json.load(file)


def figures(disk):
    """The disk's own: of its profile's mechanics, without a clock and without a calibration."""
    return json.loads(harness.execute([harness.LAB, "testbed", "figures", disk, "--size", SPAN]))


def errors(disk, minutes):
    """(found, own, relative error) of each figure of a disk."""
    found, own = calibrated(disk, minutes)["disk"], figures(disk)
    startup, transfer = found["read"]["startup"], found["read"]["transfer"]
    pairs = {
        "p80_ms": [(found["p80_s"] * 1e3, own["p80_ms"])],
        "rate": [(found["read"]["sequential_bytes_per_s"], own["rate_bytes_per_s"])],
        "knee": [(0.85 / 0.15 * transfer["startup_s"] / transfer["s_per_byte"], own["knee_bytes"])],
        "startup": [(startup["min_s"] * 1e3, own["startup_ms_min"]), (startup["max_s"] * 1e3, own["startup_ms_max"])],
    }
    return {
        key: {
            "error": round(max(abs(one / other - 1) for one, other in values), 4),
            "found": [round(one, 3) for one, _ in values],
            "own": [round(other, 3) for _, other in values],
        }
        for key, values in pairs.items()
    }


def measure(minutes=MINUTES, disks=DISKS):
    """The largest relative error over the disks of the four figures that models rest on: latency of four fifths of small reads, rate,
    knee, and both ends of the startup range."""
    load_before = os.getloadavg()[0]
    found = {}
    for disk in disks:
        harness.say(f"calibrate: {disk}, {minutes} minutes")
        found[disk] = errors(disk, minutes)
    result = {
        f"{key}_error": {"value": max(found[disk][key]["error"] for disk in disks), **{disk: found[disk][key] for disk in disks}}
        for key in ("p80_ms", "rate", "knee", "startup")
    }
    # Of the machine: others at work make replies late.
    result["load_average"] = {"before": load_before, "after": os.getloadavg()[0]}
    return {"calibrate": result}
