"""What CARL gains: traced, planned, placed and run again on emulated servers; the last line is one JSON object.

`ratio` is stock time over Headstart's to the last close, `drained_ratio` to the last byte on the disks, of a run whose requests are
not those of the traced one. `predicted_error` is the plan's run time over the measured one, less 1. A part that fails is an error
of that part: it says why in `errors`, and the others are measured. `--only KEY` measures one part; every part is of a module of
`cells`."""

import importlib
import sys

import harness
from cells import planning, regions, shifting, tracing

#: Parts in the order they are measured.
PARTS = {
    "zipf_read": regions.zipf_reads,
    "zipf_write": regions.zipf_writes,
    "uniform": regions.uniform_reads,
    "ranks": regions.more_ranks,
    "auto": shifting.measure,
    "calibrate": lambda: importlib.import_module("cells.calibrate").measure(),
    "trace": tracing.measure,
    "plan": lambda: {"plan": {"requests_per_s": planning.requests_per_s()}},
}


def predicted_errors(results, path=()):
    """Every predicted error, by the path of its cell."""
    for key, value in results.items():
        if key == "predicted_error":
            yield ".".join(path), value
        elif isinstance(value, dict):
            yield from predicted_errors(value, (*path, key))


def conclude(results):
    """What is said of all parts together."""
    sixteen = results.get("zipf", {}).get("16KiB", {}).get("read")
    if "ranks" in results and sixteen:
        results["ranks"]["16"] = sixteen
    errors = dict(predicted_errors({key: value for key, value in results.items() if key != "ranks"}))
    errors.update(predicted_errors({"ranks": {k: v for k, v in results.get("ranks", {}).items() if k != "16"}}))
    if errors:
        worst = max(errors, key=lambda cell: abs(errors[cell]))
        value = {"value": abs(errors[worst]), "at": worst, "cells": errors}
        results.setdefault("plan", {})["predicted_error"] = value


if __name__ == "__main__":
    sys.exit(harness.measure_parts(__doc__, PARTS, conclude=conclude))
