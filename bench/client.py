"""What the client side gains and costs; the last line is one JSON object.

`ratio` is stock time over Headstart's to the last close, `drained_ratio` to the last byte on the disks, both in one run on the same
emulated servers. `--only KEY` measures one part; every part is a module of `cells`."""

import argparse
import json
import sys
import time

from cells import curves, ior_mix, ior_random, overhead, strided
from harness import Failed, say

#: Parts in the order they are measured, and the keys they give.
PARTS = {
    "untouched_call_added_ns": lambda: {"untouched_call_added_ns": overhead.untouched_call()},
    "open_close_added_ns": lambda: {"open_close_added_ns": overhead.open_close()},
    "agent_round_trip_us": lambda: {"agent_round_trip_us": overhead.agent_round_trip()},
    "agent_decisions_per_s": lambda: {"agent_decisions_per_s": overhead.agent_decisions()},
    "map_bytes": overhead.map_bytes,
    "all_miss": lambda: {"all_miss": overhead.all_miss()},
    "ior_random": ior_random.measure,
    "ior_mix": ior_mix.measure,
    "strided": strided.measure,
    "curves": curves.measure,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be given more than once")
    options = parser.parse_args()
    start = time.monotonic()
    results = {}
    for name in options.only or PARTS:
        say(f"{name} ...")
        begin = time.monotonic()
        results.update(PARTS[name]())
        results.setdefault("part_seconds", {})[name] = round(time.monotonic() - begin)
    results["seconds"] = round(time.monotonic() - start)
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"bench-client: {error}")
