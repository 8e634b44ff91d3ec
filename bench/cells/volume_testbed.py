"""LiU's benchmarks on the testbed in real time: 14 ranks on six servers with a wd1602 each, with LiU and an Onyx beneath each or without; every
segment lifted beforehand, servers' memory empty before each. ior reads blocks of their own, 64 KiB at a time, of files of six sizes;
tile and mpi-io-test read, and ior writes, as in `scenarios/liu`.

One file serves them all, which is cut from size to size: its bytes lie where those of a file of that size would."""

import os

from harness import PATTERNS, lifted, mpirun, phase, say, testbed, timing

RANKS = 14
#: Around the paper's 2.2 GB, the longest first. With blocks of 40 MiB the disk's own read-ahead serves stock twice as well.
BLOCKS_MIB = range(153, 147, -1)
SERVERS = ("--hdd-servers", "6", "--hdd-profile", "wd1602", "--ssd-servers", "1", "--ssd-profile", "null")
LIU = ("--server-policy", "liu", "--server-flash", "onyx", "--server-slice", "256MB")


def ior(operation, block, transfer="64KiB"):
    return ["ior", "--transfer", transfer, "--block", block, "--op", operation]


def in_long_requests(operation):
    block = f"{BLOCKS_MIB[0]}MiB"
    return ior(operation, block, transfer=block)


def benchmarks():
    """By name: bytes that the file is cut to, if it is; bytes that are moved; the program."""
    files = {f"{block_mib}MiB": RANKS * block_mib << 20 for block_mib in BLOCKS_MIB}
    yield from ((block, size, size, ior("read", block)) for block, size in files.items())
    # 14 tiles side by side, 16 elements of 64 bytes shared with the next; half of the simulated rows.
    tile = ["--nx", "14", "--ny", "1", "--sx", "2912", "--sy", "512", "--element", "64", "--overlap-x", "16", "--overlap-y", "16"]
    yield "tile_read", None, RANKS * 2912 * 512 * 64, ["tile", *tile, "--op", "read"]
    yield "test_read", None, RANKS * 600 << 16, ["mpi-io-test", "--block", "64KiB", "--iterations", "600", "--op", "read"]
    # Last, since heads end where they are written.
    block, size = list(files.items())[-1]
    yield "ior_write", None, size, ior("write", block)


def run(*policy):
    """All benchmarks. With LiU after a run in long requests, which lifts as well and sooner."""
    found = {}
    with testbed(*SERVERS, *policy) as site:
        path = os.path.join(site.slow, "data")

        def program(command):
            return phase(site.program([*mpirun(RANKS), PATTERNS, *command, "--json", path]))["seconds"]

        program(in_long_requests("write"))
        if policy:
            program(in_long_requests("read"))
            say(f"  {lifted(site)} segments are lifted")
        for name, file_bytes, moved_bytes, command in benchmarks():
            if file_bytes is not None:
                os.truncate(path, file_bytes)
            site.headstart("testbed", "cool")
            timing(site)
            found[name] = {"mb_s": round(moved_bytes / 1e6 / program(command), 1), "timing": timing(site)}
    return found


def measure():
    stock, liu = run(), run(*LIU)
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
