"""Jobs of bench-client by the same 16 ranks, all on one node and four on each of four nodes.

A cell is what Headstart gains, stock's time over its own, on one node and on four; `value` is the lesser of the writes' and the reads'
gain on four nodes over that on one."""

import os

import harness
import nodes as clusters
from cells import ior_mix, strided
from harness import RANKS, STRIPE, Failed, say

#: Nodes that the ranks are on.
SIDES = (1, clusters.COUNT)
TRANSFER = 32 << 10
#: Zipf's law: requests a rank draws from its own block of so many stripes.
REQUESTS, STRIPES = 300, 255


class Job:
    """Programs of a batch script, made by `commands` of a launcher and a generation, and how much flash there is for it."""

    def __init__(self, commands, capacity, server_cache):
        self.commands, self.capacity, self.server_cache = commands, capacity, server_cache

    def command(self, nodes, on, generation):
        return harness.job(self.commands(lambda ranks=RANKS: nodes.launch(ranks, on), nodes.slow, generation))


def mix(launch, directory, generation):
    """The first half of the ten instances, of which two are random."""
    return [ior_mix.command(directory, number, TRANSFER, "write-read", generation, launch) for number in range(5)]


def zipf(launch, directory, generation):
    return [[
        *launch(), harness.PATTERNS, "ior", "--transfer", str(TRANSFER), "--block", str(STRIPES * STRIPE), "--order",
        "zipf_own_block", "--requests", str(REQUESTS), *common(generation), os.path.join(directory, "zipf"),
    ]]


def hpio(launch, directory, generation):
    return [[*strided.hpio(1 << 10, launch), *common(generation), os.path.join(directory, "hpio")]]


def tile(launch, directory, generation):
    across, down, rows = strided.TILES["8"]
    return [[*strided.tile(across, down, rows, launch), *common(generation), os.path.join(directory, "tile")]]


def common(generation):
    return ["--op", "write-read", "--prealloc", "--verify", "--generation", str(generation), "--json"]


#: Each with the flash and the cache of servers that bench-client gives it.
JOBS = {
    "ior_mix": Job(mix, str(ior_mix.BYTES // 2 // 5), "8MiB"),
    "zipf": Job(zipf, str(STRIPES * STRIPE * RANKS // 5), "0"),
    "hpio": Job(hpio, strided.CAPACITY, "0"),
    "tile": Job(tile, strided.CAPACITY, "0"),
}
#: Turns, whose times are added up.
TURNS = 2


def seconds(lines):
    """Of all programs of a job, by operation."""
    found = [harness.phases(line) for line in lines]
    return {operation: sum(phases[operation] for phases in found) for operation in ("write", "read")}


def turn(nodes, job, on, generation):
    """Stock and Headstart with the ranks on so many nodes."""
    stock = seconds(harness.json_lines(nodes.execute(1, job.command(nodes, on, generation))))
    nodes.forget()
    printed, _ = nodes.run(job.command(nodes, on, generation), "--capacity", job.capacity)
    if nodes.members() != on:
        raise Failed(f"{nodes.members()} of {on} nodes took part")
    nodes.forget()
    return stock, seconds(printed)


def measure(name):
    job = JOBS[name]
    taken = {on: [] for on in SIDES}
    with clusters.on_testbed("--server-cache", job.server_cache) as nodes:
        for generation in range(TURNS):
            for on in SIDES:
                say(f"  turn {generation + 1}, ranks on {on} of {nodes.count} nodes ...")
                taken[on].append(turn(nodes, job, on, generation))
        timing = harness.timing(nodes.site)
    cells = {on: {} for on in SIDES}
    for on, runs in taken.items():
        for operation in ("write", "read"):
            stock, ours = (sum(run[side][operation] for run in runs) for side in (0, 1))
            cells[on][operation] = {"ratio": round(stock / ours, 3), "stock_s": round(stock, 2), "headstart_s": round(ours, 2)}
    few, many = SIDES
    over = {operation: round(cells[many][operation]["ratio"] / cells[few][operation]["ratio"], 3) for operation in cells[few]}
    return {
        "value": min(over.values()), "over_one_node": over, "one_node": cells[few], "four_nodes": cells[many],
        "server_cache": job.server_cache, "timing": timing,
    }
