"""A rank that writes, reads and syncs at random, and tells what it did: rank.py DIRECTORY LOG NUMBER SEED NODE

DIRECTORY.open says how many files all nodes use; one that comes after them is one node's, in turn, and lies on its
flash.

A file has registers of BYTES, each of which holds one number again and again. A line of the log is written before a
call (`W` or `R` file first count [number] time, `S` file time) and one after it (`E` time, and of a read the numbers it
found, register by register). Numbers are no other rank's. It ends once there is a file LOG.end, or with status 3 where
its node was given up by the others."""

import array
import errno
import os
import random
import sys
import time

NODES, REGISTERS, BYTES, AT_ONCE = 3, 48, 1000, 6
#: So many files of its own a node uses at a time, and so many of all nodes'.
OWN, COMMON = 3, 8


def call(log, begun, act):
    """One call between its two lines."""
    os.write(log, f"{begun} {time.time_ns()}\n".encode())
    found = act()
    os.write(log, f"E {time.time_ns()} {found}\n".encode())


def read(file, first, count):
    found = os.pread(file, count * BYTES, first * BYTES)
    assert len(found) == count * BYTES, (first, count, len(found))
    each = [array.array("I", found[at : at + BYTES]) for at in range(0, len(found), BYTES)]
    return ",".join("|".join(str(number) for number in sorted(set(numbers))) for numbers in each)


def write(file, first, count, number):
    piece = array.array("I", [number]).tobytes() * (count * BYTES // 4)
    written = os.pwrite(file, piece, first * BYTES)
    assert written == len(piece), (first, count, written)
    return ""


def chosen(chance, directory, node):
    """A file's name."""
    with open(f"{directory}.open", "rb", buffering=0) as file:
        opened = int(file.read())
    if chance.random() < 0.5:
        return chance.choice([name for name in range(opened, opened + OWN * NODES) if name % NODES == node - 1])
    return chance.randrange(max(0, opened - COMMON), opened)


def main(directory, path, number, seed, node):
    chance = random.Random(int(seed))
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"P {os.getpid()}\n".encode())
    files, written = {}, 0
    while not os.path.exists(f"{path}.end"):
        name = chosen(chance, directory, int(node))
        if name not in files:
            files[name] = os.open(f"{directory}/{name}", os.O_RDWR)
        file, first, count = files[name], chance.randrange(REGISTERS), 1 + chance.randrange(AT_ONCE)
        count, what = min(count, REGISTERS - first), chance.random()
        if what < 0.4:
            written += 1
            one = int(number) << 20 | written
            call(log, f"W {name} {first} {count} {one}", lambda: write(file, first, count, one))
        elif what < 0.9:
            call(log, f"R {name} {first} {count}", lambda: read(file, first, count))
        elif what < 0.97:
            call(log, f"S {name}", lambda: os.fsync(file) or "")
        else:
            os.close(files.pop(name))
        time.sleep(0.002)


try:
    main(*sys.argv[1:])
except OSError as error:
    print(error, file=sys.stderr)
    sys.exit(3 if error.errno == errno.EIO else 1)
