//! HDF5: a parallel program (`sources/datasets.c`) on either MPI, and h5py, Debian's and the wheel of PyPI,
//! which is built against an old glibc.

use std::path::Path;

use crate::comparison::{Comparison, compiled, has, has_modules, managed};

const TOOLS: (&str, &str) = ("h5diff", "hdf5-tools");

fn datasets(compiler: &'static str, launch: &str) {
    let library = if compiler.ends_with("mpich") { "libhdf5-mpich-dev" } else { "libhdf5-openmpi-dev" };
    let launcher = launch.split(' ').next().unwrap();
    if !has(&[(compiler, library), (launcher, "mpich openmpi-bin"), TOOLS]) {
        return;
    }
    let comparison =
        Comparison::new(&[]).unwrap().with("DATASETS", compiled(compiler, &["datasets.c"], &["-Wall", "-Wextra"]));
    comparison.same_and_kept_dirty(&format!("{launch} $DATASETS $PWD/a.h5"));
    comparison.same(&format!(
        "h5dump -H a.h5 | sed 's/\\\"[^\\\"]*a.h5/a.h5/'; h5dump -d /chunked a.h5 | tail -n +2 | sha256sum; {launch} $DATASETS $PWD/b.h5; h5diff a.h5 b.h5; echo $?"
    ));
    comparison.same("cp b.h5 c.h5; h5repack -f GZIP=1 a.h5 d.h5 && h5diff b.h5 d.h5; echo $?; rm d.h5; h5diff a.h5 c.h5; echo $?; h5stat a.h5 | grep -c bytes");
    // What HDF5 wrote under Headstart is what it wrote without, as HDF5 sees it, too.
    for site in &comparison.sites {
        let (plain, slow) = (managed(site).join("a.h5"), comparison.plain.join("a.h5"));
        let output = site.command("h5diff").args([plain, slow]).output().unwrap();
        assert!(output.status.success(), "{}", site.say(&output));
    }
    comparison.flash_took_part();
}

#[test]
fn parallel_hdf5_under_open_mpi() {
    datasets(
        "h5pcc.openmpi",
        "mpirun.openmpi --oversubscribe -n 3 --mca io ompio --mca fbtl_posix_write_datasieving 0",
    );
}

#[test]
fn parallel_hdf5_under_romio_of_open_mpi() {
    datasets("h5pcc.openmpi", "mpirun.openmpi --oversubscribe -n 3 --mca io romio321");
}

#[test]
fn parallel_hdf5_under_mpich() {
    datasets("h5pcc.mpich", "mpirun.mpich -n 2");
}

fn h5py(python: &str) {
    let comparison = Comparison::new(&[]).unwrap();
    for form in ["create", "change", "read"] {
        comparison.same_and_kept_dirty(&format!("{python} $SOURCES/h5py_datasets.py {form} a.h5"));
    }
    comparison
        .same(&format!("{python} $SOURCES/h5py_datasets.py create b.h5; {python} $SOURCES/h5py_datasets.py read a.h5"));
    comparison.same("cp a.h5 c.h5");
    comparison.flash_took_part();
}

#[test]
fn h5py_of_debian() {
    if has_modules(&[("h5py", "python3-h5py")]) {
        h5py("/usr/bin/python3");
    }
}

#[test]
fn h5py_wheel_of_an_old_glibc() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/python/bin/python3");
    if !python.exists() {
        println!("SKIPPED: no build/python with h5py from PyPI: make setup");
        return;
    }
    h5py(python.to_str().unwrap());
}
