"""The main job, for real: an unmodified MPI program on emulated file servers, without Headstart, with it in the clients (S4D, CARL) or
beneath the disk servers (iTransformer, LiU), and all on flash."""

import argparse
import os
import sys
import time

import harness
from harness import Failed, Workload, cached, direct, job, lifted, phase, say, volumes, wait

#: What flash would do for the stock run, as 'headstart advise' draws it.
REPORT = os.path.abspath(os.path.join("build", "demo-report.html"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stripes", type=int, default=183, help="stripes of 64 KiB a rank writes; an odd number")
    parser.add_argument("--transfer", type=int, default=16 << 10, help="bytes of a request")
    parser.add_argument("--capacity", default="20%", help="flash to use: a share of the file, or a size")
    parser.add_argument("--server-cache", default="0", help="write cache of each emulated server")
    return parser.parse_args()


#: Flash of each disk server, in the rows with volumes; less has no room for a log and heads.
SLICE_BYTES = 16_000_000


def trace_of(site):
    return os.path.join(site.work, "trace")


def planned(site, workload, path, capacity):
    """The row of CARL: by a plan from the trace of the stock run, its regions on flash before the program begins."""
    plan = os.path.join(site.work, "plan.toml")
    site.headstart("plan", trace_of(site), "--capacity", capacity, "--region", "1MiB", "-o", plan)
    direct(site, workload, path, "write")
    site.headstart("place", plan)
    options = ["--policy", "carl", "--plan", plan]
    row = [cached(site, workload, path, operation, capacity, 3, options=options) for operation in ("write", "read")]
    site.headstart("unplace", plan)
    return ("CARL, from a trace", *row)


def beneath(options, policy, workload):
    """The rows of a volume beneath each disk server: the program runs as it is, twice, the second time with nothing in servers' memory."""
    volume = ["--server-policy", policy, "--server-slice", str(SLICE_BYTES)]
    with harness.testbed("--server-cache", options.server_cache, *volume) as site:
        path = os.path.join(site.slow, "demo")
        write = direct(site, workload, path, "write")
        write["drained_seconds"] = write["seconds"] + wait("write-back", lambda: volumes(site, "dirty_bytes") == 0)
        phase(site.program(workload.command(path, "read", 0, 1)))
        lifted(site)
        site.lab("testbed", "cool")
        read = direct(site, workload, path, "read")
        return write, read, harness.timing(site)


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
    site.forget()
    say(f"CARL, from that record, under 'headstart run --policy carl --capacity {capacity}' ...")
    rows.append(planned(site, workload, slow, capacity))
    rows.append(bound)
    return rows


def late(timing):
    for name, found in timing.items():
        told = f"{name} servers: replies p99 {found['lateness_p99_ms']:.2f} ms late"
        print(f"{told}: VOID, the machine was busy with something else; run again" if found["void"] else f"{told}: in time")


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
        os.makedirs(os.path.dirname(REPORT), exist_ok=True)
        told = site.headstart("advise", trace_of(site), "-o", REPORT)
        advice = next((line for line in told.splitlines() if line.startswith("advice: ")), "advice: none")
        timing = harness.timing(site)
    for policy, name in (("itransformer", "iTransformer beneath"), ("liu", "LiU beneath, 2nd run")):
        say(f"{name}: a volume under each disk server, the program as it is, twice ...")
        write, read, volumes_timing = beneath(options, policy, workload)
        rows.insert(-1, (name, write, read))
        timing.update({f"{policy}, {key}": found for key, found in volumes_timing.items()})
    table(rows, workload)
    print(
        f"beneath: {SLICE_BYTES // 1_000_000} MB of flash in each disk server, and LiU's 256 MiB of memory; emptied before the second run. "
        "CARL finds no region hotter than others."
    )
    late(timing)
    print(f"every byte of every read was compared: none was wrong. {time.monotonic() - start:.0f} s")
    print(f"{advice}\nwhat flash would do for the stock run, from its trace: {REPORT}")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"demo: {error}")
