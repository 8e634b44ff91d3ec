"""What the papers print and what the simulator finds: `headstart paper`, row by row."""

import json
import os
import tempfile
import time

import harness


def values(row, key):
    """One of the figures of a row's cells: by series and point."""
    return {series: {point: cell[key] for point, cell in cells.items()} for series, cells in row["series"].items()}


def measure(full=False):
    with tempfile.TemporaryDirectory(prefix="headstart-paper-") as directory:
        command = [harness.HEADSTART, "paper", "--json", "-o", os.path.join(directory, "drawings")]
        begin = time.monotonic()
        found = json.loads(harness.execute(command + (["--full"] if full else []), timeout=3600))
        seconds = time.monotonic() - begin
        drawings = len([name for name in os.listdir(os.path.join(directory, "drawings")) if name.endswith(".svg")])
    rows = {}
    for name, row in found["row"].items():
        rows[name] = {
            "paper": values(row, "paper"),
            "ours": values(row, "ours"),
            "class": row["class"],
            "pass": row["pass"],
            "role": row["role"],
            "claims": {claim["text"]: claim["pass"] for claim in row["claims"]},
        }
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
