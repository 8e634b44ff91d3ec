//! MPI programs on MooseFS, disks and flash being two storage classes of it. Its clients do not show one process's writes to
//! another before they are synced or closed, so that a check between processes that share bytes at once, as on GlusterFS in
//! `reference_model.rs`, fails there without Headstart too.

#[path = "support/file_system.rs"]
mod file_system;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use file_system::{Inside, enter, inside};
use site::{HEADSTART, TestSite};

const MOOSEFS: &str = "mpi_programs_on_moosefs_with_two_storage_classes_leave_the_same_bytes";

fn patterns() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/patterns")
}

/// Four ranks of a pattern, in a namespace that has the loopback interface alone.
fn ranks(command: &mut Command, words: &str, file: &Path) {
    command.args(["mpirun.openmpi", "--oversubscribe", "-n", "4"]).arg(patterns()).args(words.split(' '));
    command.arg("--verify").arg(file);
    command.env("OMPI_MCA_oob_tcp_if_include", "lo").env("OMPI_MCA_btl", "self,vader");
}

fn same_bytes(site: &TestSite, words: &str, stock: &Path) {
    let managed = site.slow.join("file");
    let succeed = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {}", site.say(&output));
    };
    let mut plain = site.command("env");
    ranks(&mut plain, words, stock);
    succeed(plain);
    for operation in ["write-read", "read"] {
        let mut command = site.command(HEADSTART);
        command.args(["run", "--"]);
        ranks(&mut command, &format!("{words} --op {operation}"), &managed);
        succeed(command);
    }
    assert!(fs::read(stock).unwrap() == fs::read(&managed).unwrap(), "{words}: the files differ");
}

#[test]
fn mpi_programs_on_moosefs_with_two_storage_classes_leave_the_same_bytes() {
    if !patterns().exists() || Command::new("mpirun.openmpi").arg("--version").output().is_err() {
        return println!("SKIPPED: build/patterns and Open MPI are needed; make setup build installs them");
    }
    match inside() {
        Inside::Not => enter("moosefs.sh", MOOSEFS),
        Inside::Elsewhere => {}
        Inside::Here(slow, fast) => {
            let (managed, flash) = (slow.join("managed"), fast.join("flash"));
            fs::create_dir(&managed).unwrap();
            fs::create_dir(&flash).unwrap();
            let site = TestSite::on(managed, flash, "2MiB");
            for words in [
                "ior --transfer 16KiB --block 1MiB --order perm_own_block",
                "ior --transfer 5000 --block 1000000 --order deal_global",
                "hpio --region-count 200 --region-spacing 1KiB --individual",
            ] {
                same_bytes(&site, words, &slow.join("stock"));
            }
            assert!(site.figure("/agent/absorbed_requests_total") > 100, "{}", site.status());
        }
    }
}
