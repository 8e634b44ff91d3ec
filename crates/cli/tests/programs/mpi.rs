//! MPI-IO: OMPIO and ROMIO of Open MPI, ROMIO of MPICH, in every form of call (`sources/modes.c`) and in the
//! access patterns of parallel benchmarks (`lab/bench/patterns`).
//!
//! Left out is what goes wrong without Headstart in Debian 12: Open MPI 4.1.4's OMPIO hangs now and then with
//! shared pointers and where files are resized, appended to and deleted on close (`sizes`), and writes wrong
//! bytes when it sieves collective writes; its ROMIO dies in nonblocking collective writes; either ROMIO
//! loses blocks that ranks write by a shared pointer at the same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::comparison::{Comparison, cases, compiled, has};
use crate::site::generator;

/// An MPI-IO to test.
struct Library {
    compiler: &'static str,
    launch: &'static str,
    needs: &'static [(&'static str, &'static str)],
    /// Forms of `modes` that go wrong without Headstart.
    skipped: &'static str,
}

const OPEN_MPI: &[(&str, &str)] = &[("mpicc.openmpi", "libopenmpi-dev"), ("mpirun.openmpi", "openmpi-bin")];

const OMPIO: Library = Library {
    compiler: "mpicc.openmpi",
    launch: "mpirun.openmpi --oversubscribe -n 3 --mca io ompio --mca fbtl_posix_write_datasieving 0",
    needs: OPEN_MPI,
    skipped: "at_atomic shared ishared ordered ordered_split sizes",
};

const ROMIO: Library = Library {
    compiler: "mpicc.openmpi",
    launch: "mpirun.openmpi --oversubscribe -n 3 --mca io romio321",
    needs: OPEN_MPI,
    skipped: "shared ishared iat_all iindividual_all",
};

/// More than two ranks do not get on: MPICH spins while it waits.
const MPICH: Library = Library {
    compiler: "mpicc.mpich",
    launch: "mpirun.mpich -n 2",
    needs: &[("mpicc.mpich", "libmpich-dev"), ("mpirun.mpich", "mpich")],
    skipped: "shared ishared",
};

/// `lab/bench/patterns` for one compiler.
fn patterns(compiler: &'static str) -> PathBuf {
    static PROGRAMS: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    let made = || {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/patterns");
        let sources = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut sources: Vec<PathBuf> =
            sources.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect();
        sources.sort();
        compiled(compiler, &sources, &generator().each_ref().map(String::as_str))
    };
    PROGRAMS[usize::from(compiler == MPICH.compiler)].get_or_init(made).clone()
}

/// Every form of call with every size of block.
fn in_every_form(library: &Library) {
    if !has(library.needs) {
        return;
    }
    let program = compiled(library.compiler, &["modes.c"], &[]);
    let Library { launch, skipped, .. } = library;
    let shapes = [(5000, 20), (16384, 12), (701, 60), (65536, 5), (1, 40)];
    for (block, blocks) in shapes.into_iter().take(1 + cases()) {
        let comparison = Comparison::new(&[]).unwrap().with("MODES", program.clone());
        let printed = comparison.same(&format!("{launch} $MODES $PWD {block} {blocks} {skipped}"));
        assert!(printed.contains("at: 0 wrong") && !printed.contains("1 wrong"), "{printed}");
        comparison.same_once_drained(&format!("{launch} $MODES $PWD {block} {blocks} {skipped}"));
        comparison.flash_took_part();
    }
}

/// The access patterns, each read back and verified by the program itself.
fn patterns_on(library: &Library) {
    if !has(library.needs) {
        return;
    }
    let program = patterns(library.compiler);
    let comparison = Comparison::new(&[]).unwrap().with("PATTERNS", program);
    let tile = "--nx 1 --ny 2 --sx 64 --sy 48 --element 48 --header 100";
    // ROMIO fills gaps beyond the end of the file with 0xff where no other rank has extended it yet, so that
    // it is given its size first.
    let hpio = "--region-count 64 --region-size 1536 --region-spacing 700 --prealloc";
    let mut shapes: Vec<String> = [
        "ior --transfer 12345 --block 246900 --order deal_global",
        "ior --transfer 4KiB --block 256KiB --file-per-process --sync",
        "ior --transfer 16KiB --block 128KiB --segments 2 --collective",
        "mpi-io-test --block 48KiB --iterations 8 --collective",
        "btio --class S --dumps 2",
        "iozone --tests 0,1,2,3 --record 4KiB --file-size 192KiB",
    ]
    .map(String::from)
    .to_vec();
    for mode in ["", "--individual", "--collective"] {
        shapes.push(format!("tile {tile} {mode}"));
        shapes.push(format!("hpio {hpio} {mode} --pattern nc-nc"));
    }
    for (number, shape) in shapes.iter().enumerate() {
        // Two runs on one file: what the first left dirty or clean on flash, the second reads and writes over.
        let launch = library.launch.replace("-n 3", "-n 4");
        let command =
            |generation| format!("{launch} $PATTERNS {shape} --verify --generation {generation} $PWD/f{number} >&2");
        if number % 2 == 0 {
            comparison.same_and_kept_dirty(&command(1));
        }
        comparison.same_and_kept_dirty(&command(3));
    }
    comparison.same("ls");
    comparison.flash_took_part();
}

#[test]
fn ompio_of_open_mpi_in_every_form_of_call() {
    in_every_form(&OMPIO);
}

#[test]
fn romio_of_open_mpi_in_every_form_of_call() {
    in_every_form(&ROMIO);
}

#[test]
fn romio_of_mpich_in_every_form_of_call() {
    in_every_form(&MPICH);
}

#[test]
fn patterns_under_ompio() {
    patterns_on(&OMPIO);
}

#[test]
fn patterns_under_romio_of_open_mpi() {
    patterns_on(&ROMIO);
}

#[test]
fn patterns_under_mpich() {
    patterns_on(&MPICH);
}
