"""numpy and files: `files` (tofile, fromfile, save, load), `mappings` (memmap), `archives` (savez). Prints sums."""

import hashlib
import mmap
import os
import sys

import numpy


def digest(data):
    return hashlib.sha256(bytes(data)).hexdigest()[:16]


def files():
    # Read as it was left: the file may lie on flash, dirty.
    print("raw", digest(numpy.fromfile("raw", dtype="u1")), digest(open("raw", "rb").read()))
    values = numpy.arange(70000, dtype="u4") * 2654435761
    values.tofile("tofile")
    with open("tofile", "r+b", buffering=0) as file:
        file.seek(1000)
        values[:500].tofile(file)
        file.write(b"after")
        file.seek(400)
        print("at", digest(numpy.fromfile(file, dtype="u2", count=333)), file.tell())
    print("back", digest(numpy.fromfile("tofile", dtype="u1", offset=123)))
    numpy.save("saved.npy", values.reshape(700, 100))
    print("saved", digest(numpy.load("saved.npy").tobytes()))
    # The file is changed by descriptor while no stream has it open, then read by a stream.
    descriptor = os.open("saved.npy", os.O_RDWR)
    for k in range(20):
        os.pwrite(descriptor, bytes([k]) * 777, 1000 + k * 9000)
    print("changed", digest(numpy.load("saved.npy").tobytes()), digest(os.pread(descriptor, 300000, 0)))
    os.close(descriptor)
    numpy.savetxt("text", values[:2000].reshape(100, 20), fmt="%d")
    print("text", numpy.loadtxt("text").sum(), numpy.genfromtxt("text")[5, 5])


def mappings():
    mapped = numpy.memmap("mapped", dtype="f8", mode="w+", shape=(500, 90))
    mapped[:] = numpy.arange(45000).reshape(500, 90)
    mapped[::7] += 0.5
    mapped.flush()
    descriptor = os.open("mapped", os.O_RDWR)
    print("by descriptor", digest(os.pread(descriptor, 400000, 0)))
    os.pwrite(descriptor, b"\1" * 5000, 12345)
    print("seen by the mapping", digest(mapped.tobytes()))
    mapped[3] = 7.0
    print("seen by the descriptor", digest(os.pread(descriptor, 30000, 0)))
    del mapped
    print("read only", digest(numpy.memmap("mapped", dtype="u1", mode="r").tobytes()))
    print("raw", digest(numpy.memmap("raw", dtype="u1", mode="r").tobytes()))
    private = numpy.memmap("raw", dtype="u1", mode="c")
    private[:100] = 0
    print("copy on write", digest(private[:5000].tobytes()), digest(os.pread(os.open("raw", os.O_RDONLY), 5000, 0)))
    saved = numpy.lib.format.open_memmap("mapped.npy", mode="w+", dtype="i4", shape=(300, 300))
    saved[:, 17] = numpy.arange(300)
    saved.flush()
    print("npy", digest(numpy.load("mapped.npy", mmap_mode="r").tobytes()))
    os.truncate("mapped", 200000)
    with mmap.mmap(descriptor, 200000) as whole:
        whole[199990:] = b"0123456789"
        whole.flush()
        print("find", whole.find(b"0123456789"))
    os.close(descriptor)


def archives():
    values = numpy.arange(30000, dtype="f4")
    numpy.savez("archive.npz", a=values, b=values[::-1])
    numpy.savez_compressed("packed.npz", a=values.astype("i4"))
    with numpy.load("archive.npz") as archive, numpy.load("packed.npz") as packed:
        print(sorted(archive), digest(archive["b"].tobytes()), digest(packed["a"].tobytes()))
    # The time of an archive's members is when they were made.
    os.unlink("archive.npz")
    os.unlink("packed.npz")


{"files": files, "mappings": mappings, "archives": archives}[sys.argv[1]]()
