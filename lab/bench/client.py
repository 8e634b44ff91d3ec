"""What the client side gains and costs; the last line is one JSON object.

`ratio` is stock time over Headstart's to the last close, `drained_ratio` to the last byte on the disks, both in one run on the same
emulated servers. `--only KEY` measures one part; every part is a module of `cells`.

BASELINE=DIRECTORY with `headstart` and `libheadstart.so` of another version measures each part with that one first; its
results are under `before`. The testbed and `map_bytes` are this version's in both."""

import sys

from cells import absorbing, curves, ior_hard, ior_mix, ior_random, overhead, stopping, strided
from harness import in_turns, measure_parts

#: Parts in the order they are measured, and the keys they give.
PARTS = {
    "untouched_call_added_ns": lambda: {"untouched_call_added_ns": overhead.untouched_call()},
    "open_close_added_ns": lambda: {"open_close_added_ns": overhead.open_close()},
    "agent_round_trip_us": lambda: {"agent_round_trip_us": overhead.agent_round_trip()},
    "agent_decisions_per_s": lambda: {"agent_decisions_per_s": overhead.agent_decisions()},
    "absorbed_write_added_ns": lambda: {"absorbed_write_added_ns": absorbing.write_added()},
    "absorbed_writes_per_s": lambda: {"absorbed_writes_per_s": absorbing.per_s()},
    "flash_read_added_ns": lambda: {"flash_read_added_ns": absorbing.flash_read()},
    "stopped_rank_p99": lambda: {"stopped_rank_p99": stopping.measure()},
    "map_bytes": overhead.map_bytes,
    "all_miss": lambda: {"all_miss": overhead.all_miss()},
    "ior_random": ior_random.measure,
    "ior_mix": ior_mix.measure,
    "ior_mix_slowed": ior_mix.measure_slowed,
    "hard_over_easy": ior_hard.measure,
    "strided": strided.measure,
    "curves": curves.measure,
}


if __name__ == "__main__":
    sys.exit(measure_parts(__doc__, PARTS, measure=in_turns))
