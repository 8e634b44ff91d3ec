"""What the papers print and what the simulator finds: `headstart-lab paper`, row by row."""

import json
import os
import tempfile
import time

import harness


def values(row, key):
    """One of the figures of a row's cells: by series and point."""
    return {series: {point: cell[key] for point, cell in cells.items()} for series, cells in row["series"].items()}


def simulated(drawings, *options):
    """What `headstart-lab paper` prints, with these rows or all; it draws into a directory."""
    return json.loads(harness.execute([harness.LAB, "paper", "--json", "-o", drawings, *options], timeout=3600))


def report(row):
    """Printed beside found."""
    return {
        "paper": values(row, "paper"),
        "ours": values(row, "ours"),
        "class": row["class"],
        "pass": row["pass"],
        "role": row["role"],
        "claims": {claim["text"]: claim["pass"] for claim in row["claims"]},
    }


def measure(full=False):
    with tempfile.TemporaryDirectory(prefix="headstart-paper-") as directory:
        begin = time.monotonic()
        found = simulated(directory, *(["--full"] if full else []))
        seconds = time.monotonic() - begin
        drawings = len([name for name in os.listdir(directory) if name.endswith(".svg")])
    rows = {name: report(row) for name, row in found["row"].items()}
    calibration = {
        knob["row"]: {"knob": knob["name"], "value": knob["value"], "unit": knob["unit"], "range": knob["range"]}
        for knob in found["calibration"]
    }
    return {
        "paper": {
            "rows": found["rows"],
            "passed": found["passed"],
            "cells": found["cells"],
            "cells_passed": found["cells_passed"],
            "full": found["full"],
            "seconds": round(seconds, 1),
            "drawings": drawings,
            "calibration": calibration,
            **rows,
        }
    }
