"""What the simulator says of the papers, and how fast it is; the last line is one JSON object.

`paper` are the rows of `headstart-lab paper`: per row `paper`, `ours`, `class` and `pass`, by series and point (docs/internals/models.md explains
each miss). `closed_form` are the equations of CARL and S4D against simulated isolated requests: milliseconds, and `off`, the
equation's value over the simulated one, less 1. `sim_vs_testbed` and `advise` need the emulated servers. A part that fails is an error of that part: it says why in `errors`, and the others
are measured. `--only KEY` measures one part; `paper_full`, the papers' own scale, and
`advise_slowed`, the writes of `advise` on servers slowed down, are measured only if asked for."""

import sys

import harness
from cells import advising, papers, simulating, simulator

#: Parts in the order they are measured.
PARTS = {
    "paper": papers.measure,
    "events": simulator.events,
    "scale": simulator.scale,
    "closed_form": simulator.closed_form,
    "sim_vs_testbed": simulating.measure,
    "advise": advising.measure,
}
#: Parts that take long.
LONG = {"paper_full": lambda: papers.measure(full=True), "advise_slowed": advising.measure_slowed}


if __name__ == "__main__":
    sys.exit(harness.measure_parts(__doc__, PARTS | LONG, others=LONG))
