"""Prints the extended trace of a Darshan log as darshan-dxt-parser --show-incomplete does, times to the nanosecond.

Darshan's library ends at what it cannot read as if the log ended there. So what is read of the log is held against the
checksums of its compressed parts before: exit status 4, and the reason on stderr, where one is cut or damaged."""

import bz2
import struct
import sys
import zlib

# Nothing is imported from the directory that this happens to run in.
sys.path[:] = [directory for directory in sys.path if directory]
try:
    import darshan.backend.cffi_backend as backend
except ImportError:
    sys.exit(3)

MAGIC = 6567223
# Where a log's header has the places of its parts: behind the flags, of which there are 32 or 64.
MAPS = (24, 32)
# What is decompressed at a time: each process of a job has written a stream of its own, most of them short.
PIECE_BYTES = 1 << 16


def parts(path, modules):
    """Place and length of the names and of each module in the log, and how it is compressed; none if its header is of a kind
    not known."""
    with open(path, "rb") as file:
        head = file.read(2048)
    order = next((order for order in "<>" if struct.unpack_from(order + "q", head, 8) == (MAGIC,)), None)
    if order is None:
        return None

    for maps in MAPS:
        places = [struct.unpack_from(order + "QQ", head, at) for at in range(maps, len(head) - 16, 16)]
        # In the order of the modules, of which versions have put others between.
        found, rest = {}, iter(places[1:])
        for name, module in sorted(modules.items(), key=lambda item: item[1]["idx"]):
            found[name] = next((place for place in rest if place[1] == module["len"]), None)
        if found and None not in found.values():
            return {"names of files": places[0], **found}, head[16]
    return None


def check(path, part, place, compression):
    """Ends with a reason unless all streams of a part are whole."""
    offset, length = place
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(length)
    there = len(data)
    if there == length:
        try:
            at = 0
            while at < length:
                stream = bz2.BZ2Decompressor() if compression == 1 else zlib.decompressobj()
                while at < length and not stream.eof:
                    piece = data[at:at + PIECE_BYTES]
                    stream.decompress(piece)
                    at += len(piece)
                if not stream.eof:
                    raise EOFError("it ends too early")
                at -= len(stream.unused_data)
            return
        except (zlib.error, OSError, EOFError) as error:
            reason = f"is damaged ({error})"
    else:
        reason = f"is cut: {there} of its {length} bytes are there"
    print(f"the log's part {part}, at byte {offset}, {reason}", file=sys.stderr)
    sys.exit(4)


def main(path):
    log = backend.log_open(path)
    job, modules = backend.log_get_job(log), backend.log_get_modules(log)
    traced = [name for name in ("DXT_POSIX", "DXT_MPIIO") if name in modules]
    found = parts(path, modules)
    # Not compressed at all: two.
    if found is not None and found[1] in (0, 1):
        for part in ["names of files", *traced]:
            check(path, part, found[0][part], found[1])
    names = backend.log_get_name_records(log)
    print(f"# darshan log version: {job['log_ver']}")
    print(f"# start_time: {job.get('start_time_sec', job.get('start_time'))}")
    if not traced:
        print("\n# no DXT module data available for this Darshan log.")
    for module in traced:
        if modules[module].get("partial_flag"):
            print(f"\n# *WARNING*: The {module} module contains incomplete data!")
        label = "X_" + module.removeprefix("DXT_")
        while (record := backend.log_get_dxt_record(log, module, dtype="dict")) is not None:
            name = names.get(record["id"], "(null)").replace("\n", "?")
            print(f"\n# DXT, file_id: {record['id']}, file_name: {name}")
            print(f"# DXT, rank: {record['rank']}, hostname: {record['hostname']}")
            print(f"# DXT, write_count: {record['write_count']}, read_count: {record['read_count']}")
            for operation in ("write", "read"):
                for number, part in enumerate(record[operation + "_segments"]):
                    print(label, record["rank"], operation, number, part["offset"], part["length"],
                          f"{part['start_time']:.9f}", f"{part['end_time']:.9f}")
    backend.log_close(log)


main(sys.argv[1])
