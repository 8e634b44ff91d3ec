"""Processes on several nodes that make one file longer and shorter: sizes.py FILE LOG NOTES RANK RANKS

First all append records to LOG at the same time. Then each in turn cuts FILE, writes beyond its end or appends to it;
all others find that size and those bytes before the next one's turn. NOTES lies outside of the managed directory."""

import mmap
import os
import sys
import time

RECORDS, RECORD, STEPS = 120, 100, 48


def record(rank, number):
    return b"%d %d " % (rank, number) + b"." * (RECORD - 1 - len(b"%d %d " % (rank, number))) + b"\n"


def append(path, rank):
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    for number in range(RECORDS):
        assert os.write(file, record(rank, number)) == RECORD
    os.fsync(file)
    os.close(file)


def look_at_log(path, ranks):
    with open(path, "rb", buffering=0) as file:
        lines = file.read().splitlines(keepends=True)
    assert len(lines) == ranks * RECORDS, len(lines)
    for rank in range(ranks):
        own = [line for line in lines if line.startswith(b"%d " % rank)]
        assert own == [record(rank, number) for number in range(RECORDS)], rank


def changed(before, step):
    """What the file holds after a step."""
    piece = bytes([step % 251 + 1]) * (500 + 37 * step)
    if step % 3 == 0:
        return before[: len(before) // 2]
    gap = bytes(1000 if step % 3 == 1 else 0)
    return before + gap + piece


def change(file, path, before, step):
    after = changed(before, step)
    if step % 3 == 0:
        os.ftruncate(file, len(after))
    elif step % 3 == 1:
        os.pwrite(file, after[len(before) + 1000 :], len(before) + 1000)
    else:
        appending = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(appending, after[len(before) :])
        os.close(appending)


def await_all(notes, ranks, least):
    began = time.monotonic()
    while min(notes[:ranks]) < least:
        assert time.monotonic() < began + 200, (list(notes[:ranks]), least)
        time.sleep(0.0005)


def main(path, log, noted, rank, ranks):
    rank, ranks = int(rank), int(ranks)
    with open(noted, "r+b") as file:
        notes = memoryview(mmap.mmap(file.fileno(), 4096)).cast("I")
    append(log, rank)
    notes[rank] = 1
    await_all(notes, ranks, 1)
    look_at_log(log, ranks)
    file, expected = os.open(path, os.O_RDWR), b""
    for step in range(STEPS):
        # Everybody has seen the step before.
        notes[rank] = 2 + 2 * step
        await_all(notes, ranks, 2 + 2 * step)
        if step % ranks == rank:
            change(file, path, expected, step)
            notes[ranks] = step + 1
        while notes[ranks] <= step:
            time.sleep(0.0005)
        expected = changed(expected, step)
        assert os.fstat(file).st_size == len(expected), (rank, step, os.fstat(file).st_size, len(expected))
        assert os.stat(path).st_size == len(expected), (rank, step)
        assert os.pread(file, len(expected) + 1, 0) == expected, (rank, step)
        notes[rank] = 3 + 2 * step


main(*sys.argv[1:])
