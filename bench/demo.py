"""The main job, for real: an unmodified MPI program on emulated file servers, without Headstart, with it, and all on flash."""

import argparse
import os
import sys
import time

import harness
from harness import Failed, Workload, cached, direct, job, say

#: What flash would do for the stock run, as 'headstart advise' draws it.
REPORT = os.path.abspath(os.path.join("build", "demo-report.html"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stripes", type=int, default=183, help="stripes of 64 KiB a rank writes; an odd number")
    parser.add_argument("--transfer", type=int, default=16 << 10, help="bytes of a request")
    parser.add_argument("--capacity", default="20%", help="flash to use: a share of the file, or a size")
    parser.add_argument("--server-cache", default="0", help="write cache of each emulated server")
    return parser.parse_args()


def trace_of(site):
    return os.path.join(site.work, "trace")


def measure(site, workload, capacity):
    """Every row of the table: write and read, each a program run of its own."""
    slow, fast = os.path.join(site.slow, "demo"), os.path.join(site.fast, "demo")
    rows = []
    say("stock: every request goes to the disks ...")
    rows.append(("stock, disks alone", direct(site, workload, slow, "write"), direct(site, workload, slow, "read")))
    say("all on flash: the bound ...")
    bound = ("everything on flash", direct(site, workload, fast, "write"), direct(site, workload, fast, "read"))
    say("stock once more, recorded by 'headstart trace' ...")
    site.trace(job([workload.command(slow, operation, 0, 1) for operation in ("write", "read")]), trace_of(site))
    site.forget()
    for number, name in ((1, "S4D, first run"), (2, "S4D, second run")):
        say(f"{name} under 'headstart run --capacity {capacity}' ...")
        write = cached(site, workload, slow, "write", capacity, generation=number)
        read = cached(site, workload, slow, "read", capacity, generation=number)
        rows.append((name, write, read))
    rows.append(bound)
    return rows


def table(rows, workload):
    stock_write, stock_read = rows[0][1], rows[0][2]
    megabytes = workload.bytes / 1e6
    print(f"{'':22}{'write MB/s':^30}{'read MB/s':^20}{'on flash':^18}{'flash':>9}")
    print(f"{'':22}{'to close':>9} {'ratio':>6}{'to disk':>9}{'ratio':>6}{'':4}{'':>6}{'ratio':>6}{'':4}{'writes':>8}{'reads':>8}{'used MB':>11}")
    for name, write, read in rows:
        on_flash = [f"{100 * run['flash_share']:.0f} %" if "flash_share" in run else "" for run in (write, read)]
        used = f"{read['flash_bytes'] / 1e6:.0f}" if "flash_bytes" in read else ""
        print(
            f"{name:<22}{megabytes / write['seconds']:9.1f} {stock_write['seconds'] / write['seconds']:6.2f}"
            f"{megabytes / write['drained_seconds']:9.1f}{stock_write['drained_seconds'] / write['drained_seconds']:6.2f}    "
            f"{megabytes / read['seconds']:6.1f}{stock_read['seconds'] / read['seconds']:6.2f}    "
            f"{on_flash[0]:>8}{on_flash[1]:>8}{used:>11}"
        )


def main():
    options = arguments()
    workload = Workload(options.transfer, options.stripes)
    start = time.monotonic()
    with harness.testbed("--server-cache", options.server_cache) as site:
        print(
            f"{workload.ranks} ranks of an unmodified MPI program, random requests of {options.transfer >> 10} KiB, one file of "
            f"{workload.bytes / 1e6:.0f} MB;\n8 disk servers (seagate-250, write cache {options.server_cache} each), 4 flash servers "
            f"(revodrive-x2), gigabit Ethernet, modelled in real time."
        )
        rows = measure(site, workload, options.capacity)
        table(rows, workload)
        os.makedirs(os.path.dirname(REPORT), exist_ok=True)
        told = site.headstart("advise", trace_of(site), "-o", REPORT)
        advice = next((line for line in told.splitlines() if line.startswith("advice: ")), "advice: none")
        for name, found in harness.timing(site).items():
            late = f"{name} servers: replies p99 {found['lateness_p99_ms']:.2f} ms late"
            print(f"{late}: VOID, the machine was busy with something else; run again" if found["void"] else f"{late}: in time")
    print(f"every byte of every read was compared: none was wrong. {time.monotonic() - start:.0f} s")
    print(f"{advice}\nwhat flash would do for the stock run, from its trace: {REPORT}")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"demo: {error}")
