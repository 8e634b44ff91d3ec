#!/usr/bin/env python3
"""The first process of a node: gives the node what is its own, then runs commands for whoever asks.

It owns the node's mounts, and the socket at which commands are asked for. `lab/nodes` starts it in fresh namespaces
and gives it a network. A request is the caller's three standard streams and, as JSON, the command with its
environment and directory; the answer is the exit status. So the bytes of a command pass through nobody, and a caller
in another node may ask too, whose process namespace does not let it enter this one. All of it ends with this process,
as the node's memory does."""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import uuid

#: What no two machines share. A directory that links into another of these has it already.
OWN_DIRECTORIES = ["/tmp", "/var/tmp", "/dev/shm", "/run"]
#: Files of the node's own, in /run/node.
HOSTS, MACHINE_ID, BOOT_ID = "/etc/hosts", "/etc/machine-id", "/proc/sys/kernel/random/boot_id"

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 2, 4, 8, 4096, 16384


def mount(source, target, kind=None, flags=0, options=None):
    """mount(2), which unlike mount(8) takes a descriptor's path as it stands."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [word and os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), options and os.fsencode(options)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), target)


def own_memory(kept):
    """Empty directories in memory; what lies below them and is `kept` is seen through them as before."""
    opened = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in kept]
    for directory in OWN_DIRECTORIES:
        if os.path.realpath(directory) != directory or not os.path.isdir(directory):
            continue
        mount("node", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755" if directory == "/run" else "mode=1777")
        for path, descriptor in opened:
            if path.startswith(directory + "/"):
                os.makedirs(path, exist_ok=True)
                mount(f"/proc/self/fd/{descriptor}", path, flags=MS_BIND | MS_REC)
    for _, descriptor in opened:
        os.close(descriptor)


def own_files(hosts):
    """Names of nodes, machine id and boot id. The processes must be this node's before."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.mkdir("/run/node")
    name = socket.gethostname()
    contents = {HOSTS: hosts, MACHINE_ID: uuid.uuid5(uuid.NAMESPACE_DNS, name).hex + "\n", BOOT_ID: f"{uuid.uuid4()}\n"}
    for path, content in contents.items():
        if os.path.exists(path):
            own = os.path.join("/run/node", os.path.basename(path))
            with open(own, "w", encoding="ascii") as file:
                file.write(content)
            mount(own, path, flags=MS_BIND)


def run(request, streams):
    """In the command's process: becomes it, as the leader of a session."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # Python ignores these, and a program inherits that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(request["directory"])
    except OSError:
        os.chdir("/")
    command = request["command"]
    try:
        os.execvpe(command[0], command, request["environment"])
    except OSError as error:
        print(f"nodes: {socket.gethostname()}: {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def serve(connection):
    """In a process of its own: one command. Where the caller goes away, the command gets SIGTERM."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, streams, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(int.from_bytes(header, "big")))
    child = os.fork()
    if child == 0:
        run(request, streams)
    for descriptor in streams:
        os.close(descriptor)
    if request["detached"]:
        connection.sendall(bytes([0]))
        return
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended in ready:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(bytes([status if status >= 0 else 128 - status]))
    else:
        try:
            os.killpg(child, signal.SIGTERM)
        except ProcessLookupError:
            os.kill(child, signal.SIGTERM)


def main():
    """Argument: name, hosts, socket and kept directories, as JSON. Prints its number on the machine when it serves."""
    given = json.loads(sys.argv[1])
    # While /proc is still the machine's.
    number = os.readlink("/proc/self")
    socket.sethostname(given["name"])
    own_memory(given["kept"])
    own_files(given["hosts"])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(given["socket"])
    listener.listen(64)
    print(number, flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Nobody waits for those who lost their parents.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve(connection)
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    main()
