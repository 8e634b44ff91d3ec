//! fio, which verifies what it wrote. Its blocks tell their offset (`verify_pattern=%o`), so that the files
//! can be compared as well.

use crate::comparison::{Comparison, cases};

/// Blocks of an odd length in random order.
fn job(engine: &str, mode: &str, more: &str) -> String {
    let size = 402 * cases();
    format!(
        "fio --name={engine} --filename={engine}.file --ioengine={engine} --rw={mode} --size={size}k --bs=3000 --randseed=7 \
         --allrandrepeat=1 --verify=pattern --verify_pattern=%o --verify_fatal=1 --verify_state_save=0 --minimal --output=/dev/null {more}"
    )
}

fn comparison() -> Option<Comparison> {
    Comparison::new(&[("fio", "fio")])
}

/// Files written by an engine, verified by it, by another run of it and by psync, read and written at the
/// same time, with syncs.
fn verifies(engines: &[&str]) {
    let Some(comparison) = comparison() else { return };
    for engine in engines {
        let succeeds = |script: &str| {
            let printed = comparison.same_and_kept_dirty(&format!("{script}; echo $?"));
            assert!(printed.ends_with("0\n"), "{script}: {printed}");
        };
        succeeds(&job(engine, "randwrite", ""));
        succeeds(&job(engine, "randread", ""));
        succeeds(&job(engine, "randrw", "--fsync=9 --iodepth=8"));
        succeeds(&job(engine, "randwrite", "--verify_only").replace(&format!("ioengine={engine}"), "ioengine=psync"));
        succeeds(&job(engine, "write", "--end_fsync=1 --iodepth=4 --overwrite=1"));
        // Sums hold the time of writing; the file cannot be the same twice and goes.
        let sums = job(engine, "randrw", "--nrfiles=3 --numjobs=2 --verify=crc32c --output=/dev/null");
        succeeds(&format!(
            "{} && rm {engine}.sums.*",
            sums.replace(
                &format!("--filename={engine}.file"),
                &format!("--filename_format='{engine}.sums.$jobnum.$filenum'")
            )
        ));
        comparison.same("ls");
    }
    comparison.flash_took_part();
}

#[test]
fn calls_with_and_without_offset_and_vectored() {
    verifies(&["psync", "sync", "vsync"]);
}

#[test]
fn vectored_calls_with_offset_and_flags() {
    verifies(&["pvsync", "pvsync2"]);
}

#[test]
fn posix_aio() {
    verifies(&["posixaio"]);
}

#[test]
fn past_the_page_cache() {
    let Some(comparison) = comparison() else { return };
    for engine in ["psync", "pvsync2", "posixaio"] {
        let direct = |mode: &str, more: &str| job(engine, mode, &format!("--direct=1 --bs=4k {more}"));
        comparison.same_and_kept_dirty(&format!("{}; echo $?", direct("randrw", "")));
        comparison.same(&format!("{}; echo $?", job(engine, "randread", "--bs=4k")));
    }
    comparison.flash_took_part();
}

#[test]
fn mappings_and_calls_in_turn() {
    let Some(comparison) = comparison() else { return };
    let steps = [
        job("mmap", "randwrite", ""),
        job("mmap", "randread", "").replace("--ioengine=mmap", "--ioengine=psync"),
        job("mmap", "randrw", "").replace("--ioengine=mmap", "--ioengine=psync"),
        job("mmap", "randread", ""),
    ];
    for step in &steps {
        let printed = comparison.same_and_kept_dirty(&format!("{step}; echo $?"));
        assert_eq!(printed, "0\n", "{step}");
    }
    comparison.same("ls");
}
