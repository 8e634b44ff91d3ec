"""The network of a cluster: a switch in a network namespace of its own, which the machine's network does not know of,
and a cable to every node.

A pair is cut by giving each of the two a wrong hardware address for the other, for good: what they send goes to the
switch and to nobody. So packets vanish as they do on a broken network, nothing is refused, and all others go on.
Debian's kernel could drop them by rule as well, but that needs modules that small machines lack."""

import os
import subprocess

import failures

#: Nobody's hardware address.
NOWHERE = "02:00:00:00:00:ff"


def address(number):
    """Of a node; the storage has number 100. Every cluster has the same ones, as no two of them see each other."""
    return f"10.77.0.{number}"


def hardware(number):
    """It stays over a node's death, as a network card does."""
    return f"02:00:00:00:00:{number:02x}"


def configure(pid, *lines, check=True):
    """`ip` in the network namespace of a process."""
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"]
    done = subprocess.run(command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True)
    if check and done.returncode != 0:
        raise failures.Failed(f"{'; '.join(lines)}: {done.stderr.strip()}")
    return done.returncode == 0


def start_switch(log):
    """The process that keeps the switch."""
    script = "ip link add switch type bridge && ip link set switch up && echo ready && exec sleep infinity"
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True,
    )
    if process.stdout.readline() != "ready\n":
        raise failures.Missing("this kernel lends no bridge ('ip link add switch type bridge')")
    return process.pid


def plug(switch, name, number, pid):
    """A cable from the switch to a node."""
    configure(
        switch,
        f"link add name {name} type veth peer name eth0 address {hardware(number)} netns {pid}",
        f"link set {name} master switch up",
    )
    configure(pid, "link set lo up", f"address add {address(number)}/24 dev eth0", "link set eth0 up")


def unplug(switch, name):
    """At once: nobody hears a last word of the node, as when its power fails."""
    configure(switch, f"link delete {name}", check=False)


def cut(pid, number):
    """What this node sends to that one is lost."""
    configure(pid, f"neighbour replace {address(number)} lladdr {NOWHERE} nud permanent dev eth0")


def heal(pid, number):
    """Undoes a cut; nothing where there was none."""
    configure(pid, f"neighbour delete {address(number)} dev eth0", check=False)


def hosts(names):
    """What /etc/hosts has to say."""
    lines = ["127.0.0.1 localhost", "::1 localhost"] + [f"{address(number)} {name}" for name, number in names]
    return os.linesep.join(lines) + os.linesep
