"""Processes by number and start, so that nobody else who has the number later is meant."""

import os
import select
import signal
import time


def started(pid):
    """When the process with this number started, in ticks; nothing where there is none, or where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(") ")[2].split()
    except OSError:
        return None
    return int(fields[19]) if fields[0] not in "ZX" else None


def known(pid):
    """The process, to be found again."""
    return [pid, started(pid)]


def lives(process):
    """Whether it does."""
    return process is not None and process[1] is not None and started(process[0]) == process[1]


def send(process, number):
    """Sends a signal; whether there was somebody to get it."""
    if not lives(process):
        return False
    try:
        descriptor = os.pidfd_open(process[0])
    except ProcessLookupError:
        return False
    try:
        # The number may have come to mean another one meanwhile; what the descriptor means stays.
        if not lives(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True


def end(process, seconds=30):
    """Kills it and waits until it is gone: the first of a process namespace goes when all others are gone."""
    if not send(process, signal.SIGKILL):
        return
    deadline = time.monotonic() + seconds
    while lives(process) and time.monotonic() < deadline:
        select.select([], [], [], 0.005)
