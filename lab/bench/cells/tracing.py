"""What recording costs: on directories in memory, where nothing but its own work counts."""

import os

from cells.overhead import UNWANTED, latency, memory_site
from harness import Failed

#: Medians of so many rounds in turn.
ROUNDS = 9
COUNT = 200000


def bytes_of(directory):
    return sum(os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory))


def measure(rounds=ROUNDS):
    """Nanoseconds that recording adds to a 4 KiB pread and pwrite on tmpfs, over the same program with nothing preloaded, and
    bytes of the trace for each request."""
    with memory_site(UNWANTED) as site:
        path, directory = os.path.join(site.slow, "file"), os.path.join(site.work, "trace")
        common = ["--size", "4096", "--count", str(COUNT), "--span", "16M"]
        site.program(latency(path, *common, "--fill"))
        added, sizes = {}, {}
        for operation in ("pread", "pwrite"):
            command = latency(path, *common, "--op", operation)
            samples = {"plain": [], "traced": []}
            for _ in range(rounds):
                samples["plain"].append(site.program(command)["batch_p50_ns"])
                samples["traced"].append(site.trace(command, directory)["batch_p50_ns"])
            # A line, that is a request, for each call of both passes, in whole batches.
            requests = site.headstart("convert", directory).count("\n")
            if requests < 2 * COUNT - 64:
                raise Failed(f"only {requests} requests are in the trace")
            plain, with_trace = (sorted(values)[rounds // 2] for values in (samples["plain"], samples["traced"]))
            added[operation] = {"value": round(with_trace - plain, 1), "plain_ns": plain, "traced_ns": with_trace}
            sizes[operation] = round(bytes_of(directory) / requests, 2)
    return {
        "trace": {
            "added_ns": {"value": max(found["value"] for found in added.values()), **added},
            "bytes_per_request": {"value": max(sizes.values()), **sizes},
        }
    }
