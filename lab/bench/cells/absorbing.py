"""What requests cost that flash serves: on directories in memory, where a plain file is as fast as flash, so that
what is added is Headstart's own work. Everything is wanted on flash, and stays there dirty.

After each run another program reads what was written, and the agent's count of commits must be that of the writes."""

import os
import statistics

import harness
from cells.overhead import PINNED, WANTED, memory_site
from harness import RANKS, Failed

SIZE = 4096
#: Requests of one thread, and of each rank of several: 160 MiB and 625 MiB.
COUNT, COUNT_EACH = 40000, 10000
#: Rounds in turn, of which the median counts.
ROUNDS = 3
#: Twice what a round leaves on flash.
CAPACITY = "2GiB"


def ranks(path, operation, number, count, *options):
    return [harness.RANKS_PROGRAM, "--file", path, "--op", operation, "--ranks", str(number), "--size", str(SIZE),
            "--count", str(count), *options]


def commits(site):
    """Commits that the agent counts; none while there is no agent."""
    return site.status().get("agent", {}).get("absorbed_requests_total", 0)


def absorbed(site, path, number, count, *options):
    """Writes of a new file under Headstart, all of which flash takes, and which another program finds."""
    before = commits(site)
    found, report = site.run(ranks(path, "write", number, count, *options), "--keep-dirty")
    if report["requests"]["absorbed_requests_total"] < number * count:
        raise Failed("flash did not take all the writes")
    if commits(site) - before < number * count:
        raise Failed(f"{commits(site) - before} commits of {number * count} writes are counted")
    site.run(ranks(path, "check", number, count), "--keep-dirty")
    return found


def rounds_of(number, count, *options):
    """The same writes to a plain file beside the managed directory and under Headstart, in turn, each in a new one."""
    found = {"plain": [], "managed": []}
    with memory_site(WANTED, CAPACITY, PINNED) as site:
        for turn in range(ROUNDS):
            plain, managed = os.path.join(site.work, "plain"), os.path.join(site.slow, f"file.{turn}")
            found["plain"].append(site.program(ranks(plain, "write", number, count, *options)))
            found["managed"].append(absorbed(site, managed, number, count, *options))
            # What is on the disks afterwards is what was written, without Headstart; and room for the next round.
            site.headstart("drain")
            site.program(ranks(managed, "check", number, count))
            os.remove(plain)
            site.headstart("run", "--keep-dirty", "--", "rm", managed)
    return found


def added(*options):
    """Nanoseconds that a write of one thread takes longer than one to a plain file, by the medians of both."""
    found = rounds_of(1, COUNT, *options)
    plain, managed = (statistics.median(run["p50_ns"] for run in found[kind]) for kind in ("plain", "managed"))
    return {
        "value": managed - plain, "plain_p50_ns": plain, "p50_ns": managed,
        "p99_ns": statistics.median(run["p99_ns"] for run in found["managed"]),
        "each_p50_ns": [run["p50_ns"] for run in found["managed"]],
    }


def write_added():
    """Writes scattered within a file that has its full size, and writes each of which makes the file longer."""
    return {"within": added("--prealloc"), "growing": added("--order", "ascending")}


def per_s():
    """Writes a second, from the first one's begin to the last one's end, of one rank and of several in one file."""
    result = {}
    for number, count in ((1, COUNT), (RANKS, COUNT_EACH)):
        found = rounds_of(number, count, "--prealloc")
        each = [run["per_s"] for run in found["managed"]]
        result[str(number)] = {
            "value": statistics.median(each), "each": each,
            "plain_per_s": statistics.median(run["per_s"] for run in found["plain"]),
            "p99_us": round(statistics.median(run["p99_ns"] for run in found["managed"]) / 1e3, 2),
        }
    return result


def flash_read():
    """Nanoseconds that a read of bytes on flash takes longer than a read of a plain file, without a pause: alone and of
    16 ranks at the same time."""
    with memory_site(WANTED, CAPACITY, PINNED) as site:
        managed, plain, each = os.path.join(site.slow, "file"), os.path.join(site.work, "plain"), COUNT // RANKS
        site.program(ranks(plain, "write", 1, COUNT))
        absorbed(site, managed, 1, COUNT, "--prealloc")
        absorbed(site, managed + ".ranks", RANKS, each, "--prealloc")
        site.program(ranks(plain + ".ranks", "write", RANKS, each))
        found = {}
        for key, name, number, count in (("alone", "", 1, COUNT), ("of_16_ranks", ".ranks", RANKS, each)):
            runs = {"plain": [], "managed": []}
            for _ in range(ROUNDS):
                runs["plain"].append(site.program(ranks(plain + name, "read", number, count)))
                read, report = site.run(ranks(managed + name, "read", number, count), "--keep-dirty")
                if report["requests"]["flash_read_requests_total"] < number * count:
                    raise Failed("the reads did not go to flash")
                runs["managed"].append(read)
            medians = {f"{kind}_{key}": statistics.median(run[key] for run in runs[kind])
                       for kind in runs for key in ("p50_ns", "per_s")}
            found[key] = {"value": medians["managed_p50_ns"] - medians["plain_p50_ns"], **medians}
    return {**found.pop("alone"), **found}
