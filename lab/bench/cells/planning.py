"""How fast plans and advice are made: requests of a recorded trace over the time of the whole command."""

import json
import os
import statistics
import time

import harness
from cells.overhead import UNWANTED, latency, memory_site

PROCESSES = 16
COUNT = 100000
ROUNDS = 3


def requests_per_s():
    """Of `headstart plan`, which goes twice over the trace."""
    return rate("plan", "--region", "64KiB", "--capacity", "20%")


def advised_requests_per_s():
    """Of `headstart advise` with its page: every policy and capacity from one pass."""
    return rate("advise", "-o", "/dev/null")


def rate(command, *options):
    with memory_site(UNWANTED) as site:
        path, trace = os.path.join(site.slow, "file"), os.path.join(site.work, "trace")
        site.program(latency(path, "--size", "4096", "--count", "64", "--span", "16M", "--fill"))
        one = " ".join(latency(path, "--size", "512", "--count", str(COUNT), "--span", "16M"))
        shell = f"for i in $(seq {PROCESSES}); do {one} > /dev/null & done; wait"
        site.headstart("trace", "-o", trace, "--", "sh", "-c", shell)
        seconds = []
        for _ in range(ROUNDS):
            begin = time.monotonic()
            printed = site.headstart(command, trace, *options, "--json")
            seconds.append(time.monotonic() - begin)
        requests = json.loads(printed)["requests"]
        if requests < PROCESSES * COUNT:
            raise harness.Failed(f"only {requests} requests are in the trace")
        return {"value": round(requests / statistics.median(seconds)), "requests": requests, "seconds": seconds}
