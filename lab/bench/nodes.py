"""What benchmarks of several nodes share: nodes out of namespaces (lab/nodes) on a testbed or on directories in memory, and jobs that
Open MPI starts on some of them."""

import contextlib
import json
import os
import subprocess

import harness
from harness import ROOT, Failed, execute, json_lines

PROGRAM = os.path.join(ROOT, "lab", "nodes")
#: Nodes of a cluster.
COUNT = 4
#: A status of `lab/nodes`: what failed is that the machine cannot have nodes.
LACKS_SOMETHING = 77
#: Headstart of another version lies elsewhere.
BASELINE = "BASELINE"


class Nodes:
    """Nodes 1 to `count`, which share the directories of a site."""

    def __init__(self, site, name, count, environment=()):
        self.site, self.name, self.count = site, name, count
        self.slow, self.fast, self.work = site.slow, site.fast, site.work
        self.environment = {**os.environ, "HEADSTART_SITE": site.environment["HEADSTART_SITE"], **dict(environment)}
        for variable in ("HEADSTART_RUNTIME_BASE", "LD_PRELOAD"):
            self.environment.pop(variable, None)

    def control(self, *words):
        """`lab/nodes WORDS`."""
        return execute([PROGRAM, "--name", self.name, *words])

    def within(self, node, command):
        """The command line of a command in a node."""
        return [PROGRAM, "--name", self.name, "exec", str(node), "--", *command]

    def execute(self, node, command, timeout=600):
        return execute(self.within(node, command), self.environment, timeout)

    def headstart(self, node, *arguments, timeout=600):
        return self.execute(node, [harness.HEADSTART, *arguments], timeout)

    def program(self, command, node=1):
        """A program without Headstart, started in a node; its last JSON line."""
        return json_lines(self.execute(node, command))[-1]

    def run(self, command, *options, node=1):
        """A program under `headstart run`; the JSON lines of all, and the report of the node where it began."""
        report = os.path.join(self.work, "report.json")
        printed = self.headstart(node, "run", "--report", report, *options, "--", *command)
        with open(report, encoding="utf-8") as file:
            return json_lines(printed), json.load(file)

    def all(self):
        return range(1, self.count + 1)

    def status(self, node):
        return json.loads(self.headstart(node, "status", "--json"))

    def drain(self):
        """Nothing is dirty on any node."""
        for node in self.all():
            with contextlib.suppress(Failed):
                self.headstart(node, "drain")

    def members(self):
        """How many nodes have a place among the members."""
        return len(json.loads(self.headstart(1, "cluster", "status", "--json"))["nodes"]["members"])

    def forget(self):
        """Ends the agents and starts from empty directories."""
        self.drain()
        for node in self.all():
            with contextlib.suppress(Failed):
                self.headstart(node, "stop")
        for directory in (self.slow, self.fast):
            for entry in os.listdir(directory):
                execute(["rm", "-rf", os.path.join(directory, entry)])

    def launch(self, ranks, on):
        """The launcher: as many ranks on each of the first nodes."""
        each = ranks // on
        hosts = ",".join(f"node{node}:{each}" for node in range(1, on + 1))
        return ["mpirun.openmpi", "--oversubscribe", "-H", hosts, "-n", str(ranks)]


@contextlib.contextmanager
def up(site, count=COUNT, environment=()):
    """Nodes on the directories of a site that is there."""
    name = f"bench-{os.getpid()}"
    command = [PROGRAM, "--name", name, "up", str(count), "--shared", site.work]
    if os.environ.get(BASELINE):
        command += ["--see", os.environ[BASELINE]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == LACKS_SOMETHING:
        raise Failed(f"no nodes on this machine: {done.stderr.strip()}")
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stderr}")
    nodes = Nodes(site, name, count, environment)
    try:
        yield nodes
    finally:
        nodes.control("down")


@contextlib.contextmanager
def on_testbed(*options, count=COUNT):
    """Nodes on emulated servers."""
    with harness.testbed(*options) as site, up(site, count) as nodes:
        yield nodes


@contextlib.contextmanager
def in_memory(site, count, environment=()):
    """Nodes on the directories of `cells.overhead.memory_site`."""
    with site as made, up(made, count, environment) as nodes:
        yield nodes
