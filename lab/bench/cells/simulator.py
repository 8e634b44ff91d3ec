"""How fast the simulator is, how that changes with the size of the cluster, and the papers' equations against isolated requests."""

import json
import os
import re

import harness

EXAMPLES = os.path.join(harness.ROOT, "target", "release", "examples")
#: The best of so many runs: a busy machine only makes a run longer.
ROUNDS = 3
LINE = re.compile(
    r"(?P<servers>\d+) servers, (?P<ranks>\d+) ranks, (?P<requests>\d+) requests: (?P<seconds>[\d.]+) s, (?P<events>\d+) events, "
    r".* (?P<peak>[\d.]+) MiB at most"
)


def run(servers, ranks, requests):
    """Events of one run, one thread."""
    command = [os.path.join(EXAMPLES, "events"), str(servers), str(ranks), str(requests)]
    printed = harness.execute(command, timeout=1800)
    match = LINE.search(printed)
    if match is None:
        raise harness.Failed(f"{' '.join(command)} printed {printed}")
    found = {key: float(value) for key, value in match.groupdict().items()}
    found["events_per_s"] = round(found["events"] / found["seconds"])
    return found


def events():
    """The fastest of several runs with ten servers."""
    runs = [run(10, 160, 2_000_000) for _ in range(ROUNDS)]
    return {"sim": {"events_per_s": max(found["events_per_s"] for found in runs), "runs": [found["events_per_s"] for found in runs]}}


def scale():
    """A hundred times the servers, and as many requests for each: time per event against ten servers."""
    small = max((run(10, 100, 1_000_000) for _ in range(ROUNDS)), key=lambda found: found["events_per_s"])
    large = run(1000, 10_000, 10_000_000)
    if large["requests"] < 10_000_000:
        raise harness.Failed(f"only {large['requests']:.0f} requests were simulated")
    return {
        "sim": {
            "scale": {
                "servers": 1000,
                "ranks": 10_000,
                "requests": int(large["requests"]),
                "seconds": large["seconds"],
                "peak_mb": round(large["peak"] * 1.048576, 1),
                "events_per_s": large["events_per_s"],
                "time_per_event_over_10_servers": round(small["events_per_s"] / large["events_per_s"], 3),
            }
        }
    }


def closed_form():
    return {"closed_form": json.loads(harness.execute([os.path.join(EXAMPLES, "closed_form")]))}
