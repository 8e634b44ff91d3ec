"""What a member of a cluster of 1,000 takes for each of 1,000,000 files that it knows, and for saying again what it waits for
(`lab/sim/examples/member_bytes.rs`): the machines of `headstart-cluster` alone."""

import json
import os
import subprocess

from harness import ROOT

EXAMPLE = os.path.join(ROOT, "target", "release", "examples", "member_bytes")


def measure():
    ended = subprocess.run([EXAMPLE], check=True, capture_output=True, text=True)
    return json.loads(ended.stdout.splitlines()[-1])
