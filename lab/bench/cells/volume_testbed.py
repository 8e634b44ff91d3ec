"""LiU's benchmarks on the testbed in real time: 14 ranks on six servers with a wd1602 each, with LiU and an Onyx beneath each or without; every
segment lifted beforehand, servers' memory empty before each. ior reads blocks of their own, 64 KiB at a time, of files of six sizes;
tile and mpi-io-test read, and ior writes, as in `lab/scenarios/liu`.

Each size has servers of its own: where a file was read before, stock's ranks run apart and its disks read ahead for them (47 MB/s the first time,
80 later)."""

import os
from concurrent.futures import ThreadPoolExecutor

from harness import PATTERNS, lifted, mpirun, phase, say, testbed, timing

RANKS = 14
#: Around the paper's 2.2 GB. With blocks of 40 MiB the disk's own read-ahead serves stock twice as well.
BLOCKS_MIB = range(148, 154)
SERVERS = ("--hdd-servers", "6", "--hdd-profile", "wd1602", "--ssd-servers", "1", "--ssd-profile", "null", "--server-cache", "0")
LIU = ("--server-policy", "liu", "--server-flash", "onyx", "--server-slice", "256MB")


def ior(operation, block, transfer="64KiB"):
    return ["ior", "--transfer", transfer, "--block", block, "--op", operation]


def others(block_mib):
    """Those that follow on the same file: name, bytes that are moved, the program."""
    # 14 tiles side by side, 16 elements of 64 bytes shared with the next; half of the simulated rows.
    tile = ["--nx", "14", "--ny", "1", "--sx", "2912", "--sy", "512", "--element", "64", "--overlap-x", "16", "--overlap-y", "16"]
    yield "tile_read", RANKS * 2912 * 512 * 64, ["tile", *tile, "--op", "read"]
    yield "test_read", RANKS * 600 << 16, ["mpi-io-test", "--block", "64KiB", "--iterations", "600", "--op", "read"]
    # Last, since heads end where they are written.
    yield "ior_write", RANKS * block_mib << 20, ior("write", f"{block_mib}MiB")


def run(block_mib, *policy):
    """ior's reading of a file of one size on new servers, after it the others where it is the last size. With LiU after a run in long requests,
    which lifts as well and sooner."""
    found, block = {}, f"{block_mib}MiB"
    with testbed(*SERVERS, *policy) as site:
        path = os.path.join(site.slow, "data")

        def program(command):
            return phase(site.program([*mpirun(RANKS), PATTERNS, *command, "--json", path]))["seconds"]

        program(ior("write", block, transfer=block))
        if policy:
            program(ior("read", block, transfer=block))
            say(f"  {lifted(site)} segments are lifted")
        benchmarks = [(block, RANKS * block_mib << 20, ior("read", block))]
        if block_mib == BLOCKS_MIB[-1]:
            benchmarks += others(block_mib)
        for name, moved_bytes, command in benchmarks:
            site.lab("testbed", "cool")
            timing(site)
            found[name] = {"mb_s": round(moved_bytes / 1e6 / program(command), 1), "timing": timing(site)}
    return found


def all_sizes(policy, at_once):
    with ThreadPoolExecutor(at_once) as runs:
        return {name: of for found in runs.map(lambda block_mib: run(block_mib, *policy), BLOCKS_MIB) for name, of in found.items()}


def measure():
    # Stock's disks position nearly all the time: of two sites at once processors notice little, and `timing` tells if they did.
    stock, liu = all_sizes((), 2), all_sizes(LIU, 1)
    found = {}
    for name, of in liu.items():
        ratio = round(of["mb_s"] / stock[name]["mb_s"], 4)
        say(f"  {name}: {stock[name]['mb_s']} to {of['mb_s']} MB/s, {ratio}")
        found[name] = {"ratio": ratio, "stock": stock[name], "liu": of}
    each = {name: found.pop(name) for name in list(found) if name.endswith("MiB")}
    ratios = [of["ratio"] for of in each.values()]
    return {
        "liu": {"ior_read": {"ratio": round(sum(ratios) / len(ratios), 4), "minimum": min(ratios), "each": each}},
        "liu_testbed": found,
    }
