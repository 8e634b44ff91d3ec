"""What the demo and the benchmarks share: a testbed of their own, runs of the workload program, times to the last close and
to the last dirty byte on disk."""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADSTART = os.path.join(ROOT, "target", "release", "headstart")
#: The simulator, the papers and the testbed.
LAB = os.path.join(ROOT, "target", "release", "headstart-lab")
PATTERNS = os.path.join(ROOT, "build", "patterns")
LATENCY = os.path.join(ROOT, "build", "latency")
#: Processes that write or read one file at the same time.
RANKS_PROGRAM = os.path.join(ROOT, "build", "ranks")
#: Stops a process of its own in the middle of a request.
STOPPED = os.path.join(ROOT, "build", "stopped")
#: Takes the calls of the hot path and passes them on.
NULL = os.path.join(ROOT, "build", "null.so")
SCENARIOS = os.path.join(ROOT, "lab", "scenarios")
#: Measures the overlay's own memory and journal.
MAP_BYTES = os.path.join(ROOT, "target", "release", "examples", "map_bytes")
RANKS = 16
STRIPE = 64 << 10
#: No wait for servers is longer.
SERVERS_SECONDS = 120


class Failed(Exception):
    """A step failed; the text says which and what it printed."""


def say(text):
    """Progress, for people who watch."""
    print(text, file=sys.stderr, flush=True)


def merge(into, more):
    """Dictionaries within dictionaries: two parts may fill the same key."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def execute(command, environment=None, timeout=600):
    """Runs a command to its end and returns what it printed on standard output."""
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\nended with status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def simulate(scenario, *options):
    """The report of a scenario; its file, or its place among all scenarios."""
    return json.loads(execute([LAB, "sim", os.path.join(SCENARIOS, scenario), *options, "--json"]))


def mpirun(ranks=RANKS):
    """The launcher: Open MPI yields when ranks wait, so that 16 of them run on two cores."""
    return ["mpirun.openmpi", "--oversubscribe", "-n", str(ranks)]


class Site:
    """A pair of directories, its site file, and what a user does with them. `backing` is where emulated servers keep their bytes."""

    def __init__(self, work, slow, fast, backing=None):
        self.work, self.slow, self.fast, self.backing = work, slow, fast, backing
        self.environment = dict(os.environ)
        self.environment.update(
            HEADSTART_SITE=os.path.join(work, "site.toml"),
            HEADSTART_RUNTIME_DIR=os.path.join(work, "run"),
            HEADSTART_RUNTIME_BASE=tempfile.mkdtemp(prefix="headstart-bench-", dir="/dev/shm"),
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        )
        os.makedirs(os.path.join(work, "run"), exist_ok=True)

    def headstart(self, *arguments):
        return execute([HEADSTART, *arguments], self.environment)

    def lab(self, *arguments):
        return execute([LAB, *arguments], self.environment)

    def program(self, command):
        """Runs a program of the workload without Headstart; its JSON line."""
        return self.programs(command)[-1]

    def programs(self, command):
        """Runs a job without Headstart; the JSON lines of its programs."""
        return json_lines(execute(command, self.environment))

    def trace(self, command, directory):
        """Runs a program under `headstart trace`, which records in an empty directory; its JSON line."""
        execute(["rm", "-rf", directory])
        return json_lines(self.headstart("trace", "-o", directory, "--", *command))[-1]

    def run(self, command, *options):
        """Runs a program under `headstart run`; its JSON line and the run's report."""
        lines, report = self.run_programs(command, *options)
        return lines[-1], report

    def run_programs(self, command, *options):
        """Runs a job under `headstart run`; the JSON lines of its programs and the run's report."""
        report = os.path.join(self.work, "report.json")
        printed = self.headstart("run", "--report", report, *options, "--", *command)
        with open(report, encoding="utf-8") as file:
            return json_lines(printed), json.load(file)

    def status(self):
        return json.loads(self.headstart("status", "--json"))

    def forget(self):
        """Ends the agent and starts from empty directories."""
        self.headstart("drain")
        self.headstart("stop")
        for directory in (self.slow, self.fast):
            for entry in os.listdir(directory):
                path = os.path.join(directory, entry)
                execute(["rm", "-rf", path])

    def close(self):
        execute(["rm", "-rf", self.environment["HEADSTART_RUNTIME_BASE"]])


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def job(commands):
    """One command that runs all of them, one after another, until one fails: a batch script."""
    return ["sh", "-c", " && ".join(shlex.join(command) for command in commands)]


@contextlib.contextmanager
def testbed(*options):
    """Two mounted directories of emulated servers, gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="headstart-") as work,
        tempfile.TemporaryDirectory(prefix="headstart-backing-", dir="/dev/shm") as backing,
    ):
        slow, fast = os.path.join(work, "slow"), os.path.join(work, "fast")
        site = Site(work, slow, fast, backing)
        site.lab("testbed", "up", "--slow", slow, "--fast", fast, "--backing", backing, *options)
        try:
            yield site
        finally:
            try:
                site.lab("testbed", "down", "--force")
            finally:
                site.close()


def sync_seconds(path):
    """Time until the servers' caches have nothing of the file left to write."""
    start = time.monotonic()
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return time.monotonic() - start


def volumes(site, key):
    """A number of the disk servers' volumes, together."""
    stats = json.loads(site.lab("testbed", "stats", "--json"))
    return sum(server["volume"][key] for server in stats["mounts"][0]["servers"])


def wait(what, is_so, poll_seconds=0.05):
    """Until it is so; for how long."""
    start = time.monotonic()
    while not is_so():
        if time.monotonic() > start + SERVERS_SECONDS:
            raise Failed(f"{what} took more than {SERVERS_SECONDS} s")
        time.sleep(poll_seconds)
    return time.monotonic() - start


def lifted(site):
    """How many segments the disk servers' volumes have lifted, once no more come."""
    now = -1

    def is_the_same():
        nonlocal now
        now, before = volumes(site, "lifted_segments"), now
        return now == before

    wait("lifting segments", is_the_same, poll_seconds=1)
    return now


def timing(site):
    """Lateness of the testbed's replies, and why a run does not count if it does not."""
    stats = json.loads(site.lab("testbed", "stats", "--json", "--reset"))
    mounts = stats["mounts"]
    return {
        mount["name"]: {
            "lateness_p99_ms": mount["lateness"]["p99_ns"] / 1e6,
            "lateness_mean_ms": mount["lateness"]["mean_ns"] / 1e6,
            "service_mean_ms": mount["service"]["mean_ns"] / 1e6,
            "void": mount["void"],
        }
        for mount in mounts
        if mount["read_count"] + mount["write_count"] > 0
    }


class Workload:
    """Random requests of one size, each rank in its own block of an odd number of stripes, so that ranks do not convoy."""

    def __init__(self, transfer, stripes, ranks=RANKS):
        self.transfer, self.ranks = transfer, ranks
        self.block = stripes * STRIPE
        self.bytes = self.block * ranks

    def command(self, path, operation, generation, seed):
        return [
            *mpirun(self.ranks), PATTERNS, "ior", "--transfer", str(self.transfer), "--block", str(self.block),
            "--order", "perm_own_block", "--op", operation, "--generation", str(generation), "--seed", str(seed),
            "--prealloc", "--verify", "--json", path,
        ]


def phase(result):
    """The only phase of a run: seconds from before the open to after the last close."""
    (only,) = result["phases"]
    if only["errors"]:
        raise Failed(f"{only['errors']} bytes are wrong")
    return only


def phases(result):
    """Seconds of every phase by its operation."""
    wrong = sum(phase["errors"] for phase in result["phases"])
    if wrong:
        raise Failed(f"{wrong} bytes are wrong")
    return {phase["op"]: phase["seconds"] for phase in result["phases"]}


def direct(site, workload, path, operation, generation=0, seed=1):
    """A run without Headstart: seconds to the last close, and until the servers hold nothing back."""
    seconds = phase(site.program(workload.command(path, operation, generation, seed)))["seconds"]
    return {"seconds": seconds, "drained_seconds": seconds + (sync_seconds(path) if operation == "write" else 0.0)}


def cached(site, workload, path, operation, capacity, generation=0, seed=1, options=()):
    """A run under Headstart: the same two times, and what of it flash served."""
    result, report = site.run(workload.command(path, operation, generation, seed), "--capacity", capacity, *options)
    seconds = phase(result)["seconds"]
    drained = seconds + report["drain_s"] + (sync_seconds(path) if operation == "write" else 0.0)
    if report["dirty_bytes"]:
        raise Failed(f"{report['dirty_bytes']} bytes were not written back")
    return {
        "seconds": seconds,
        "drained_seconds": drained,
        "flash_share": report["flash_share"],
        "flash_bytes": report["mapped_bytes"],
        "report": report,
    }


@contextlib.contextmanager
def version(directory):
    """Binaries of another version for what runs within."""
    global HEADSTART
    ours, HEADSTART = HEADSTART, os.path.join(directory, "headstart")
    try:
        yield
    finally:
        HEADSTART = ours


def in_turns(part):
    """A part's results; beside them under `before`, where $BASELINE names a directory with `headstart` and
    `libheadstart.so` of another version, those of that version, measured just before."""
    if not (baseline := os.environ.get("BASELINE")):
        return part()
    with version(baseline):
        before = part()
    return {**part(), "before": before}


def measure_parts(doc, parts, others=(), conclude=lambda results: None, measure=lambda part: part()):
    """A benchmark's main program: measures the parts named by `--only`, or all but `others`, and prints one JSON object as its last
    line. A part that fails is an error of that part; `measure` calls one. Returns the exit status."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--only", action="append", choices=list(parts), help="measure this part; may be given more than once")
    options = parser.parse_args()
    start = time.monotonic()
    results = {"errors": {}, "part_seconds": {}}
    for name in options.only or [name for name in parts if name not in others]:
        say(f"{name} ...")
        begin = time.monotonic()
        try:
            merge(results, measure(parts[name]))
        except (Failed, ImportError, OSError, subprocess.SubprocessError) as error:
            say(f"{name}: {error}")
            results["errors"][name] = str(error)
        results["part_seconds"][name] = round(time.monotonic() - begin)
    conclude(results)
    results["seconds"] = round(time.monotonic() - start)
    print(json.dumps(results))
    return 1 if results["errors"] else 0
