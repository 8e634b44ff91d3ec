//! Programs past the library: libaio and io_uring speak to the kernel themselves, static programs load no library.
//!
//! Static programs read and write the slow directory alone. That is right for files that only they use, and
//! for everything after a drain; nothing is promised otherwise. `run` may also refuse such a program, with a
//! line that says so.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::comparison::{Comparison, compiled, managed};
use crate::site::TestSite;

/// As stock, or clearly refused; says which.
fn right_or_refused(comparison: &Comparison, site: &TestSite, script: &str) -> bool {
    let output = comparison.run(site, script, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    let refused = !output.status.success() && said.contains("headstart: ");
    assert!(refused || output.status.success(), "{script}: {}\n{}", output.status, site.say(&output));
    !refused
}

fn sum(comparison: &Comparison, site: &TestSite, name: &str) -> String {
    let Output { stdout, .. } = comparison.run(site, &format!("dd if={name} bs=4k status=none | sha256sum"), &[]);
    String::from_utf8(stdout).unwrap()
}

#[test]
fn libaio_and_io_uring_are_right_on_files_of_their_own() {
    let Some(comparison) = Comparison::new(&[("fio", "fio")]) else { return };
    for engine in ["libaio", "io_uring"] {
        let job = |mode: &str| {
            format!(
                "fio --name={engine} --filename={engine}.file --ioengine={engine} --rw={mode} --size=400k --bsrange=4k-20k --iodepth=8 \
                 --direct=1 --randseed=7 --allrandrepeat=1 --verify=pattern --verify_pattern=%o --verify_fatal=1 --verify_state_save=0 --minimal \
                 --output=/dev/null"
            )
        };
        let plain = &comparison.plain;
        for mode in ["randwrite", "randrw"] {
            let stock = comparison.sites[0].command("bash").args(["-c", &job(mode)]).current_dir(plain).output();
            if !stock.unwrap().status.success() {
                // This kernel refuses the engine to everybody.
                continue;
            }
            for site in &comparison.sites {
                if right_or_refused(&comparison, site, &job(mode)) {
                    let read = |directory: &Path| fs::read(directory.join(format!("{engine}.file"))).unwrap();
                    assert!(read(&managed(site)) == read(plain), "{engine}, {mode}");
                }
            }
        }
    }
}

#[test]
fn static_programs_are_right_after_a_drain_and_on_files_of_their_own() {
    let Some(comparison) = Comparison::new(&[("cc", "build-essential")]) else { return };
    let mut programs = vec![compiled("cc", &["copy.c"], &["-static"])];
    let go = std::process::Command::new("go").arg("version").output();
    if go.is_ok() {
        programs.push(go_program(&comparison.sites[0]));
    }
    for site in &comparison.sites {
        for (number, program) in programs.iter().enumerate() {
            let program = program.display();
            // `run` drains at its end, so the program finds every byte on the slow directory.
            let written = comparison.run(site, "seq 50000 | dd of=a bs=5000 status=none", &[]);
            assert!(written.status.success());
            let expected = sum(&comparison, site, "a");
            if right_or_refused(&comparison, site, &format!("{program} a b{number}")) {
                assert_eq!(sum(&comparison, site, &format!("b{number}")), expected, "{program}");
            }
        }
        assert!(site.figure("/agent/absorbed_requests_total") > 0);
    }
}

/// The same program in Go, which makes its system calls itself even where it is linked dynamically.
fn go_program(site: &TestSite) -> std::path::PathBuf {
    let directory = site.path("go");
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sources/copy.go");
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("copy");
    let mut command = site.command("go");
    command.args(["build", "-o"]).arg(&program).arg(sources).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
    command.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache")).env("GO111MODULE", "off");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    program
}
