"""ior on the testbed in real time, as LiU's paper has it: 14 ranks read blocks of their own, 64 KiB at a time, from six servers with a wd1602
each, with LiU and an Onyx beneath each or without; six sizes of blocks, every segment lifted beforehand, servers' memory empty."""

import os

from harness import PATTERNS, lifted, mpirun, phase, say, testbed, timing

RANKS = 14
#: Around the paper's 2.2 GB. With blocks of 40 MiB the disk's own read-ahead serves stock twice as well.
BLOCKS_MIB = range(148, 154)
SERVERS = ("--hdd-servers", "6", "--hdd-profile", "wd1602", "--ssd-servers", "1", "--ssd-profile", "null", "--server-cache", "0")
LIU = ("--server-policy", "liu", "--server-flash", "onyx", "--server-slice", "256MB")


def command(path, block_mib, operation, transfer):
    sizes = ["--transfer", transfer, "--block", f"{block_mib}MiB"]
    return [*mpirun(RANKS), PATTERNS, "ior", *sizes, "--op", operation, "--json", path]


def write(site, block_mib):
    """A new file, in few requests; its path."""
    path = os.path.join(site.slow, "data")
    site.program(command(path, block_mib, "write", f"{block_mib}MiB"))
    return path


def cold(site, path, block_mib):
    """A run that finds nothing in servers' memory."""
    site.headstart("testbed", "cool")
    timing(site)
    seconds = phase(site.program(command(path, block_mib, "read", "64KiB")))["seconds"]
    return round(RANKS * block_mib * 1.048576 / seconds, 1)


def stock_run(block_mib):
    with testbed(*SERVERS) as site:
        path = write(site, block_mib)
        return {"mb_s": cold(site, path, block_mib), "timing": timing(site)}


def liu_run(block_mib):
    """After one in long requests, which lifts as well and sooner."""
    with testbed(*SERVERS, *LIU) as site:
        path = write(site, block_mib)
        site.program(command(path, block_mib, "read", f"{block_mib}MiB"))
        segments = lifted(site)
        return {"mb_s": cold(site, path, block_mib), "lifted": segments, "timing": timing(site)}


def size(block_mib):
    stock, liu = stock_run(block_mib), liu_run(block_mib)
    ratio = round(liu["mb_s"] / stock["mb_s"], 4)
    say(f"  {block_mib} MiB a rank: {stock['mb_s']} to {liu['mb_s']} MB/s, {ratio}")
    return {"ratio": ratio, "stock": stock, "liu": liu}


def measure():
    each = {f"{block_mib}MiB": size(block_mib) for block_mib in BLOCKS_MIB}
    ratios = [of["ratio"] for of in each.values()]
    return {"liu_testbed": {"ior_read": {"ratio": round(sum(ratios) / len(ratios), 4), "minimum": min(ratios), "each": each}}}
