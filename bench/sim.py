"""What the simulator says of the papers, and how fast it is; the last line is one JSON object.

`paper` are the rows of `headstart paper`: per row `paper`, `ours`, `class` and `pass`, by series and point (docs/MODELS.md explains
each miss). `closed_form` are the equations of CARL and S4D against simulated isolated requests: milliseconds, and `off`, the
equation's value over the simulated one, less 1. `sim_vs_testbed` and `advise` need the emulated servers. A part that fails is an error of that part: it says why in `errors`, and the others
are measured. `--only KEY` measures one part; `paper_full`, the papers' own scale, is measured only if asked for."""

import argparse
import json
import subprocess
import sys
import time

from cells import advising, papers, simulating, simulator
from harness import Failed, merge, say

#: Parts in the order they are measured.
PARTS = {
    "paper": papers.measure,
    "events": simulator.events,
    "scale": simulator.scale,
    "closed_form": simulator.closed_form,
    "sim_vs_testbed": simulating.measure,
    "advise": advising.measure,
}
#: Parts that take longer than all others.
LONG = {"paper_full": lambda: papers.measure(full=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[*PARTS, *LONG], help="measure this part; may be given more than once")
    options = parser.parse_args()
    start = time.monotonic()
    results = {"errors": {}, "part_seconds": {}}
    for name in options.only or PARTS:
        say(f"{name} ...")
        begin = time.monotonic()
        try:
            merge(results, (PARTS | LONG)[name]())
        except (Failed, OSError, subprocess.SubprocessError) as error:
            say(f"{name}: {error}")
            results["errors"][name] = str(error)
        results["part_seconds"][name] = round(time.monotonic() - begin)
    results["seconds"] = round(time.monotonic() - start)
    print(json.dumps(results))
    return 1 if results["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
