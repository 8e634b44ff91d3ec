"""4 KiB random reads through the engine on a fast file against the same file by io_uring directly (`crates/volume/examples/passthrough.rs`)."""

import json
import os
import tempfile

from harness import ROOT, execute

#: Of a file of so many MiB, so many seconds for each way, so often.
ROUNDS = ("1024", "1", "7")


def measure():
    with tempfile.TemporaryDirectory(prefix="headstart-engine-") as work:
        command = ["cargo", "run", "--release", "--quiet", "--package", "headstart-volume", "--example", "passthrough", work, *ROUNDS]
        said = execute(["env", "-C", ROOT, *command])
    return json.loads(said.strip().splitlines()[-1])
