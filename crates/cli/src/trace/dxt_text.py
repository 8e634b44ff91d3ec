"""Prints the extended trace of a Darshan log as darshan-dxt-parser --show-incomplete does, with times to the nanosecond."""

import sys

# Nothing is imported from the directory that this happens to run in.
sys.path[:] = [directory for directory in sys.path if directory]
try:
    import darshan.backend.cffi_backend as backend
except ImportError:
    sys.exit(3)


def main(path):
    log = backend.log_open(path)
    job, modules = backend.log_get_job(log), backend.log_get_modules(log)
    names = backend.log_get_name_records(log)
    print(f"# darshan log version: {job['log_ver']}")
    print(f"# start_time: {job.get('start_time_sec', job.get('start_time'))}")
    traced = [name for name in ("DXT_POSIX", "DXT_MPIIO") if name in modules]
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
