"""Policies above and below each other, simulated: eight benchmarks of 16 ranks on eight disk servers and four of flash, CARL, S4D, both or
nothing in the clients, a volume beneath each disk server or not; and `auto` against each other setting of a volume, on the suite of one server.

`compose` is of second runs, before which servers forget what is in their memory; `compose.first` of first ones. Plans are made of a traced first run."""

import os
import re
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor

from cells.volume_suite import SUITE, key_of, simulated
from harness import SCENARIOS, say, simulate

WORKLOADS = (
    "ior-write", "ior-read", "ior-random-write", "ior-random-read", "zipf-read", "test-write", "tile-write", "tile-read",
)
CLIENTS = ("carl", "s4d", "carl,s4d")
#: What the simulator calls them: CARL with an agent, as programs have it.
SIMULATED = {"carl": "agent-carl"}
SERVERS = ("itransformer", "liu", "liu,itransformer")
#: Runs of a workload, each of another seed; more where they differ by a fifth and more.
SEEDS_ELSE = 5
SEEDS = {"tile-read": 24}
SETTINGS = ("stock", "none", "itransformer", "liu", "liu,itransformer")


#: Seconds between the end of a run and the next: heads are lifted, writes go to the disks.
PAUSE_S = 20


def twice(name):
    """The text of a scenario whose job runs twice."""
    with open(os.path.join(SCENARIOS, "compose", f"{name}.toml"), encoding="utf-8") as file:
        setting, job = file.read().split("[[job]]", 1)
    named = re.compile(r'^name = ".*"$', re.MULTILINE)
    first = named.sub('name = "first"\nfiles = "data"', job, count=1)
    again = f'name = "second"\nfiles = "data"\nafter = "first"\nstart_s = {PAUSE_S}\ncold = true\ntraced = false'
    return f"{setting}[[job]]{first}\n[[job]]{named.sub(again, job, count=1)}"


def rates(name, client, server, seed):
    """MB/s of a first run and of a second one, until all is on the disks."""
    options = ("--policy", SIMULATED.get(client, client), "--server-policy", server, "--seed", str(seed))
    first = simulate(os.path.join("compose", f"{name}.toml"), *options)["drained_mb_per_s"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
        scenario.write(twice(name))
        scenario.flush()
        report = simulate(scenario.name, *options)
    second = report["jobs"][1]
    writes = any(phase["writes"] for phase in second["phases"])
    seconds = report["drained_s"] - second["start_s"] if writes else second["seconds"]
    return first, sum(phase["read_bytes"] + phase["write_bytes"] for phase in second["phases"]) / seconds / 1e6


def mean_rates(name, client, server):
    """Over seeds: in which order ranks come decides up to a third of what a drive's own read-ahead gives."""
    seeds = range(1, SEEDS.get(name, SEEDS_ELSE) + 1)
    return [statistics.geometric_mean(of) for of in zip(*(rates(name, client, server, seed) for seed in seeds))]


def pairs(name):
    """Each pair over the better of its two alone, in first and in second runs."""
    settings = [(client, server) for client in ("stock", *CLIENTS) for server in ("stock", *SERVERS)]
    with ThreadPoolExecutor(2) as simulations:
        of = dict(zip(settings, simulations.map(lambda setting: mean_rates(name, *setting), settings)))

    def beside(both, one, other):
        return [round(pair / max(alone), 4) for pair, *alone in zip(of[both], of[one], of[other])]

    found = {
        "liu,itransformer": beside(("stock", "liu,itransformer"), ("stock", "liu"), ("stock", "itransformer")),
        "carl,s4d": beside(("carl,s4d", "stock"), ("carl", "stock"), ("s4d", "stock")),
    }
    for client in CLIENTS:
        for server in SERVERS:
            found[f"{client} over {server}"] = beside((client, server), (client, "stock"), ("stock", server))
    return found


def with_least(table):
    """The table, and its worst pair."""
    least, workload, pair = min((ratio, name, pair) for name, of in table.items() for pair, ratio in of.items())
    return {"min": {"value": least, "workload": workload, "pair": pair}, **table}


def measure():
    both = {key_of(name): pairs(name) for name in WORKLOADS}
    first, second = (
        with_least({name: {pair: ratios[run] for pair, ratios in of.items()} for name, of in both.items()}) for run in (0, 1)
    )
    for run, table in (("first", first), ("second", second)):
        say("  worst pair in {} runs: {pair} on {workload}, {value}".format(run, **table["min"]))
    auto = {}
    for name in SUITE:
        settings = {setting: simulated(name, setting)["drained_mb_per_s"] for setting in SETTINGS}
        best = max(settings, key=settings.get)
        auto[key_of(name)] = {"ratio": round(simulated(name, "auto")["drained_mb_per_s"] / settings[best], 4), "best": best}
    return {
        "compose": {**second, "first": first},
        "auto": {"min": min(of["ratio"] for of in auto.values()), **auto},
    }
