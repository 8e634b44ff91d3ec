"""A producer and a consumer on two nodes, who hand files over by their names: handover.py (produce|consume) DIRECTORY

The producer writes a file under another name and renames it; the consumer finds all its bytes, changes the first and
renames it in its turn; the producer finds that, and then removes it. Every third file is synced before, and every fifth
goes with its directory."""

import os
import sys
import time

FILES, PIECE, MARK = 40, 3000, b"taken" * 20


def content(number):
    length = 100 + number * 7919 % 150_000
    line = b"%d of the producer's; " % number
    return (line * (length // len(line) + 1))[:length]


def await_name(path):
    began = time.monotonic()
    while not os.path.exists(path):
        assert time.monotonic() < began + 200, path
        time.sleep(0.002)


def produce(number, names):
    bytes_, (made, given, taken) = content(number), names
    os.makedirs(os.path.dirname(made), exist_ok=True)
    file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    for offset in range(0, len(bytes_), PIECE):
        os.pwrite(file, bytes_[offset : offset + PIECE], offset)
    if number % 3 == 0:
        os.fsync(file)
    os.close(file)
    if number % 5 == 0:
        os.rename(os.path.dirname(made), os.path.dirname(given))
    else:
        os.rename(made, given)
    if number % 4 != 0:
        return
    await_name(taken)
    with open(taken, "rb", buffering=0) as found:
        assert found.read() == MARK + bytes_[len(MARK) :], number
    os.unlink(taken)


def consume(number, names):
    bytes_, (_, given, taken) = content(number), names
    await_name(given)
    file = os.open(given, os.O_RDWR)
    found = os.read(file, len(bytes_) + 1)
    assert found == bytes_, (number, len(found), len(bytes_))
    os.pwrite(file, MARK, 0)
    os.close(file)
    os.rename(given, taken)


role, directory = sys.argv[1:]
for number in range(FILES):
    # Where the directory is what is renamed, the file's own name stays.
    inner = "/file" if number % 5 == 0 else ""
    names = [f"{directory}/{kind}.{number}{inner}" for kind in ("made", "given")] + [f"{directory}/taken.{number}"]
    {"produce": produce, "consume": consume}[role](number, names)
print(FILES, "files")
