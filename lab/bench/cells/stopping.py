"""A rank that is stopped in the middle of a request, as Ctrl-Z, a debugger or a batch system stop one, while 16 others
write what it reads or writes: how long they take.

Directories in memory. The rank stays held before its kernel call, by a debugger's means, or stopped by SIGSTOP after
it; then the others write the whole file, the rank goes on, and both must end well."""

import contextlib
import json
import os
import subprocess

import harness
from cells.absorbing import ranks
from cells.overhead import PINNED, WANTED, memory_site
from harness import RANKS, Failed

#: `HELD_UP_NS` of the agent: nobody waits longer for one request of another.
HELD_UP_MS = 500
#: So few that a wait of each counts in the p99.
COUNT = 64
FILE_BYTES = RANKS * COUNT * 4096
#: An absorbed write is cut where a slab ends.
PIECE = 64 << 10
#: What the rank does, where its bytes are by then, whether its policy wants flash, and how long its request is.
STATES = {
    "cheap_read": ("read", "slow", False, FILE_BYTES),
    "cheap_write": ("write", "slow", False, FILE_BYTES),
    "absorbed_write": ("write", "flash", True, PIECE),
    "flash_read": ("read", "flash", True, PIECE),
    "direct_write": ("write", "slow", False, FILE_BYTES),
    "sync": ("sync", "slow", True, PIECE),
    "open": ("open", "slow", True, PIECE),
}
#: States in which bytes of the file are on flash before.
ON_FLASH = ("flash_read", "direct_write", "sync", "open")


@contextlib.contextmanager
def stopped(site, path, state, when):
    """A rank in that state, which goes on afterwards and must end well."""
    call, place, wants, size = STATES[state]
    run = [harness.HEADSTART, "run", "--keep-dirty", "--policy", "s4d" if wants else "off", "--"]
    rank = [harness.STOPPED, "--file", path, "--call", call, "--at", place, "--when", when, "--size", str(size)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*run, *rank], env=site.environment, text=True, **pipes) as process:
        try:
            if not process.stdout.readline():
                raise Failed(f"{state}: the rank was not stopped; status {process.wait()}")
            yield
            process.stdin.close()
            if process.wait(timeout=60) != 0:
                raise Failed(f"{state}: the rank ended with status {process.returncode}")
        finally:
            process.kill()


def others(site, path, state, when, generation):
    """Milliseconds of the others' writes."""
    write = ranks(path, "write", RANKS, COUNT, "--generation", str(generation))
    run = [harness.HEADSTART, "run", "--keep-dirty", "--", *write]
    with stopped(site, path, state, when):
        found = json.loads(harness.execute(run, site.environment, timeout=60))
    return {f"{key}_ms": round(found[f"{key}_ns"] / 1e6, 3) for key in ("p99", "max")}


def of_state(state):
    found = {}
    for generation, when in enumerate(("before", "after"), 2):
        with memory_site(WANTED, "1GiB", PINNED) as site:
            path = os.path.join(site.slow, "file")
            site.program(ranks(path, "write", RANKS, COUNT))
            if state in ON_FLASH:
                site.run(ranks(path, "write", RANKS, COUNT), "--keep-dirty")
            found[when] = others(site, path, state, when, generation)
    return found


def measure():
    """The value is the worst state's p99, in milliseconds; the bound is two waits."""
    states = {state: of_state(state) for state in STATES}
    each = [run for found in states.values() for run in found.values()]
    return {
        "value": max(run["p99_ms"] for run in each), "unit": "ms", "bound": 2 * HELD_UP_MS,
        "max_ms": max(run["max_ms"] for run in each), **states,
    }
