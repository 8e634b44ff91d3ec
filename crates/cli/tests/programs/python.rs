//! Python: numpy, mpi4py, processes forked and spawned, descriptors inherited.

use crate::comparison::{Comparison, has, has_modules};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn numpy_arrays_in_files() {
    if !has_modules(&[("numpy", "python3-numpy")]) {
        return;
    }
    let comparison = Comparison::new(&[]).unwrap();
    // Bytes that lie dirty on flash before numpy opens its streams and mappings.
    comparison.same_and_kept_dirty("seq 1 60000 | dd of=numbers bs=4096 iflag=fullblock status=none; dd if=numbers of=raw bs=8000 count=30 status=none");
    for form in ["files", "mappings", "archives"] {
        comparison.same_and_kept_dirty(&format!("{PYTHON} $SOURCES/arrays.py {form}"));
    }
    comparison.same(&format!("{PYTHON} $SOURCES/arrays.py mappings; {PYTHON} $SOURCES/arrays.py files"));
}

#[test]
fn mpi4py_files() {
    let needed = [("mpi4py", "python3-mpi4py"), ("numpy", "python3-numpy")];
    if !has(&[("mpirun.openmpi", "openmpi-bin")]) || !has_modules(&needed) {
        return;
    }
    let comparison = Comparison::new(&[]).unwrap();
    let launch = "mpirun.openmpi --oversubscribe -n 3 --mca fbtl_posix_write_datasieving 0 --mca io";
    for io in ["ompio", "romio321"] {
        comparison.same_and_kept_dirty(&format!("{launch} {io} {PYTHON} $SOURCES/mpi_file.py a.{io}"));
        comparison.same(&format!("{launch} {io} {PYTHON} $SOURCES/mpi_file.py a.{io}"));
    }
    comparison.flash_took_part();
}

#[test]
fn files_are_shared_by_forked_spawned_and_started_processes() {
    let comparison = Comparison::new(&[]).unwrap();
    for form in ["fork", "spawn", "forkserver", "inherit", "threads", "plain"] {
        let printed = comparison.same_and_kept_dirty(&format!("{PYTHON} $SOURCES/processes.py {form}; echo $?"));
        assert!(printed.ends_with("\n0\n"), "{printed}");
        comparison.same(&format!("{PYTHON} $SOURCES/processes.py {form}"));
    }
    comparison.flash_took_part();
}
