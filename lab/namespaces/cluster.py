"""A cluster: its members, where what is known of it lies, and what is done to them.

All of it is in a directory of the machine's memory, /dev/shm/headstart-nodes-UID/NAME, which the nodes see as well:

    cluster.json     what `up` was told, the pairs that are cut, the process that keeps the switch
    rsh              runs a command on another node, as ssh would: for launchers of MPI
    shared           the directory that all nodes share, unless another one was named
    MEMBER/process   the first process of a node, as the machine knows it
    MEMBER/socket    at which that process takes commands
    MEMBER/log       what it and commands without a caller have said
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import failures
import network
import processes
import storage

HERE = pathlib.Path(__file__).resolve().parent
#: Nodes see it whatever is their own.
ROOT = HERE.parent.parent
STORAGE = "storage"
STORAGE_NUMBER = 100
NODES_MAX = 16
#: Clocks that count from the boot differ so much from node to node.
BOOTS_APART_S = 100_000


def base():
    """Where clusters are."""
    return pathlib.Path(f"/dev/shm/headstart-nodes-{os.getuid()}")


class Member:
    """A node, or the one on which the storage's servers run."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name = STORAGE if number == STORAGE_NUMBER else f"node{number}"
        self.directory = cluster.directory / self.name
        self.log = self.directory / "log"

    def process(self):
        """Its first process; nothing where it is down."""
        try:
            process = json.loads((self.directory / "process").read_text())
        except OSError:
            return None
        return process if processes.lives(process) else None

    def alive(self):
        """Its first process's number on this machine."""
        process = self.process()
        if process is None:
            inside = socket.gethostname().startswith("node") and "; from within a node only 'exec' and 'rsh' work"
            raise failures.Failed(f"{self.name} is down: '{self.cluster.call()} start {self.name}'{inside or ''}")
        return process[0]

    def start(self):
        """Brings the node up: with a new boot id, nothing in its memory, and the address it always had."""
        if self.process() is not None:
            raise failures.Failed(f"{self.name} is up")
        self.directory.mkdir(exist_ok=True)
        (self.directory / "socket").unlink(missing_ok=True)
        given = {
            "name": self.name,
            "hosts": network.hosts((member.name, member.number) for member in self.cluster.members()),
            "socket": str(self.directory / "socket"),
            "kept": self.cluster.kept(),
        }
        command = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
        if os.path.exists("/proc/self/ns/time"):
            apart = str(self.number * BOOTS_APART_S)
            command += ["--time", "--monotonic", apart, "--boottime", apart]
        command += [sys.executable, "-I", str(HERE / "inside.py"), json.dumps(given)]
        with self.log.open("ab") as log:
            first = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
            )
        number = first.stdout.readline().strip()
        first.stdout.close()
        if not number:
            raise failures.Failed(f"{self.name} does not come up: {self.log.read_text()[-2000:]}")
        process = processes.known(int(number))
        (self.directory / "process").write_text(json.dumps(process))
        network.plug(self.cluster.switch(), self.name, self.number, process[0])
        for pair in self.cluster.cuts():
            if self.number in pair:
                network.cut(process[0], sum(pair) - self.number)
        self.cluster.storage.attach(self)

    def kill(self):
        """As when its power fails: the others hear nothing more of it, and its memory is gone."""
        process = self.process()
        network.unplug(self.cluster.switch(), self.name)
        if process is not None:
            processes.end(process)
        (self.directory / "process").unlink(missing_ok=True)

    def signal_all(self, number):
        """SIGSTOP or SIGCONT for every process of the node at once, the first one included."""
        pid = self.alive()
        name = signal.Signals(number).name.removeprefix("SIG")
        enter = ["nsenter", f"--pid=/proc/{pid}/ns/pid", "sh", "-c", f"kill -{name} -1 || :"]
        subprocess.run(enter, check=True)
        processes.send(self.process(), number)

    def execute(self, command, environment, directory, streams=(0, 1, 2), detached=False):
        """Runs a command in the node; its exit status."""
        request = {
            "command": command, "environment": environment, "directory": directory, "detached": detached,
        }
        text = json.dumps(request).encode()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.directory / "socket"))
            socket.send_fds(connection, [len(text).to_bytes(8, "big")], streams)
            connection.sendall(text)
            answer = connection.recv(1)
        except OSError as error:
            raise failures.Unreachable(f"{self.name} takes no command ({error.strerror})") from error
        if not answer:
            raise failures.Unreachable(f"{self.name} is gone, and with it {command[0]}")
        return answer[0]

    def do(self, *command):
        """A command of the cluster's own in the node, which must succeed; what it says goes to the log."""
        with open(os.devnull, "rb") as nothing, self.log.open("ab") as log:
            streams = (nothing.fileno(), log.fileno(), log.fileno())
            status = self.execute([str(word) for word in command], dict(os.environ), "/", streams)
        if status != 0:
            said = self.log.read_text(errors="replace")[-2000:]
            raise failures.Failed(f"{self.name}: {command[0]} ended with status {status}: {said}")


class Cluster:
    """See the module."""

    def __init__(self, name):
        self.name, self.directory = name, base() / name
        self.file = self.directory / "cluster.json"
        try:
            self.settings = json.loads(self.file.read_text())
        except OSError:
            self.settings = None
        if self.settings is not None:
            self.storage = storage.of(self.settings["storage"], self)

    @staticmethod
    def of(name):
        """The one of this name that is up."""
        cluster = Cluster(name)
        if cluster.settings is None:
            others = sorted(path.name for path in base().iterdir()) if base().exists() else []
            up = f"; up are, by --name: {', '.join(others)}" if others else ""
            raise failures.Failed(f"no cluster '{name}' is up: '{cluster.call()} up 3'{up}")
        return cluster

    def call(self):
        """How this cluster is named on a command line."""
        return "lab/nodes" + ("" if self.name == "default" else f" --name {self.name}")

    def save(self):
        """Writes what is known down."""
        self.file.write_text(json.dumps(self.settings))

    def up(self, settings):
        """Makes the cluster, whole or not at all."""
        if self.settings is not None:
            raise failures.Failed(f"a cluster '{self.name}' is up: '{self.call()} down' first")
        try:
            self.directory.mkdir(parents=True)
        except FileExistsError as error:
            raise failures.Failed(f"{self.directory} is left of a cluster that never came up: remove it") from error
        self.settings = {**settings, "cuts": [], "switch": [0, None]}
        try:
            self.save()
            self.shared().mkdir(parents=True, exist_ok=True)
            with (self.directory / "log").open("wb") as log:
                self.settings["switch"] = processes.known(network.start_switch(log))
            self.storage = storage.of(self.settings["storage"], self)
            self.storage.prepare()
            self.save()
            agent = self.directory / "rsh"
            agent.write_text(f'#!/bin/sh\nexec {ROOT}/lab/nodes --name {self.name} rsh "$@"\n')
            agent.chmod(0o755)
            for member in self.members():
                member.start()
        except BaseException:
            self.down()
            raise

    def down(self):
        """Ends all of it, whatever state it is in."""
        for member in self.members():
            member.kill()
        processes.end(self.settings["switch"])
        shutil.rmtree(self.directory)

    def members(self):
        """The storage first, as nodes need it."""
        numbers = [STORAGE_NUMBER] if self.settings["storage"] != "directory" else []
        return [Member(self, number) for number in numbers + list(range(1, self.settings["nodes"] + 1))]

    def member(self, word):
        """The member that a person or a launcher calls so: `2`, `node2` or `storage`."""
        for member in self.members():
            if word in (member.name, str(member.number)):
                return member
        names = ", ".join(member.name for member in self.members())
        if word == STORAGE:
            raise failures.Failed("no network leads to a directory of this machine: 'up --storage moosefs'")
        raise failures.Unreachable(f"there is no node '{word}' in this cluster, which has {names}")

    def switch(self):
        """The process that keeps the switch."""
        return self.settings["switch"][0]

    def shared(self):
        """The directory that all nodes share."""
        return pathlib.Path(self.settings["shared"] or self.directory / "shared")

    def kept(self):
        """What nodes see although it may lie where they have memory of their own; nothing of it within another."""
        wanted = sorted({str(path) for path in [self.directory, self.shared(), ROOT, *self.settings["see"]]})
        return [path for path in wanted if not any(path.startswith(other + "/") for other in wanted)]

    def cuts(self):
        """Pairs of numbers."""
        return self.settings["cuts"]

    def cut(self, one, other):
        """Neither hears the other from now on, also after one of them was started anew."""
        pair = sorted((one.number, other.number))
        if one.number == other.number:
            raise failures.Failed(f"{one.name} cannot be cut from itself")
        for member, far in ((one, other), (other, one)):
            if process := member.process():
                network.cut(process[0], far.number)
        if pair not in self.cuts():
            self.cuts().append(pair)
            self.save()

    def heal(self, *members):
        """Undoes the cut of a pair, or all."""
        healed = sorted(member.number for member in members)
        for pair in [pair for pair in self.cuts() if not members or pair == healed]:
            for number, far in itertools.permutations(pair):
                if process := Member(self, number).process():
                    network.heal(process[0], far)
            self.cuts().remove(pair)
        self.save()

    def environment(self):
        """The caller's, and what launchers of MPI need to reach the other nodes."""
        found = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
        agent = str(self.directory / "rsh")
        launchers = {
            "OMPI_MCA_plm_rsh_agent": agent, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_plm_ssh_agent": agent, "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": agent,
        }
        shared = self.shared()
        return {**launchers, **found, "SHARED": str(shared), "SLOW": str(shared / "slow"), "FAST": str(shared / "fast")}


@contextlib.contextmanager
def as_exit_status():
    """Failures as text and exit status."""
    try:
        yield
    except failures.Failed as error:
        print(f"nodes: {error}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)
