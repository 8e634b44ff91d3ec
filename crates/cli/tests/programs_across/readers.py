"""One writer and many readers of one file, on whatever nodes: readers.py (write|READER) FILE ACKNOWLEDGED READERS SEED

A block is one number, again and again: how often it was written. The writer notes in ACKNOWLEDGED, which lies outside
of the managed directory, what has returned; the last notes say who has begun and that it is done. A reader finds for
each number what was acknowledged before it read, or newer, and never an older one than the time before."""

import array
import mmap
import os
import random
import sys
import time

BLOCKS, NUMBERS, TURNS = 48, 1000, 25
LENGTH = 4 * NUMBERS
#: Where notes say that the writer is done, and that readers have begun.
DONE, BEGUN = BLOCKS, BLOCKS + 1


def main(role, path, noted, readers, seed):
    readers = int(readers)
    chance = random.Random(int(seed))
    print("seed", seed)
    with open(noted, "r+b") as file:
        notes = memoryview(mmap.mmap(file.fileno(), 4 * (BEGUN + readers))).cast("I")
    file = os.open(path, os.O_RDWR)
    if role == "write":
        began = time.monotonic()
        while not all(notes[BEGUN:]):
            assert time.monotonic() < began + 200, "all readers begin"
            time.sleep(0.01)
        for turn in range(1, TURNS + 1):
            for block in chance.sample(range(BLOCKS), BLOCKS):
                assert os.pwrite(file, array.array("I", [turn]).tobytes() * NUMBERS, block * LENGTH) == LENGTH
                notes[block] = turn
            if chance.random() < 0.2:
                os.fsync(file)
            time.sleep(0.02)
        notes[DONE] = 1
        return
    seen = [array.array("I", bytes(LENGTH)) for _ in range(BLOCKS)]
    while not notes[DONE]:
        block = chance.randrange(BLOCKS)
        least = notes[block]
        found = array.array("I", os.pread(file, LENGTH, block * LENGTH))
        most = notes[block] + 1
        assert len(found) == NUMBERS, (block, len(found))
        assert least <= min(found) and max(found) <= most, (block, least, min(found), max(found), most)
        assert all(before <= now for before, now in zip(seen[block], found)), (block, "older than before")
        seen[block] = found
        notes[BEGUN + int(role)] = 1
        time.sleep(0.001)
    for block in range(BLOCKS):
        assert set(array.array("I", os.pread(file, LENGTH, block * LENGTH))) == {TURNS}, block


main(*sys.argv[1:])
