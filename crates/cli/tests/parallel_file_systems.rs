//! Programs on MooseFS and GlusterFS, disks and flash being two storage classes or two volumes of it: MPI
//! programs, and agents that are killed under programs.
//!
//! The clients of MooseFS do not show one process's writes to another before they are synced or closed, so
//! that a check between processes that share bytes at once, as on GlusterFS in `reference_model.rs`, fails
//! there without Headstart too: here each process has a file of its own. Files without a name are left out,
//! as the next agent could not always reach them.

#[path = "support/file_system.rs"]
mod file_system;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use file_system::{Inside, enter, inside};
use nix::sys::signal::Signal;
use site::{HEADSTART, ROLE, TestSite, content, kill, managed, role, wait_for};

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

const KILLED_ON_MOOSEFS: &str = "nothing_acknowledged_is_lost_when_agents_are_killed_under_programs_on_moosefs";
const KILLED_ON_GLUSTERFS: &str = "nothing_acknowledged_is_lost_when_agents_are_killed_under_programs_on_glusterfs";
const RANKS: u64 = 3;
const KILLS: u64 = 6;
/// Of the file of each rank.
const BYTES: usize = 400_000;

/// A file beside the managed directory, which Headstart does not see.
fn plain(name: &str) -> PathBuf {
    managed().with_file_name(format!("plain.{name}"))
}

/// Writes, reads, syncs and closes a file of its own, compares it with an array of bytes, and says how far it
/// is, until it is told to stop.
fn rank(number: u64, mut random: u64) {
    random += number;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % limit
    };
    let path = managed().join(format!("file.{number}"));
    let open = || fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let mut file = open();
    file.set_len(BYTES as u64).unwrap();
    let mut model = vec![0; BYTES];
    for done in 1u64.. {
        let (offset, length) = (below(BYTES - 20_000), 1 + below(20_000));
        let range = offset..offset + length;
        match below(20) {
            0..11 => {
                model[range].copy_from_slice(&content(done, offset as u64, length));
                file.write_all_at(&model[offset..][..length], offset as u64).unwrap();
            }
            11..18 => {
                let mut found = vec![0; length];
                file.read_exact_at(&mut found, offset as u64).unwrap();
                assert!(
                    found == model[range],
                    "rank {number}: {length} bytes at {offset} differ after {done} operations"
                );
            }
            18 => file.sync_data().unwrap(),
            _ => {
                drop(file);
                file = open();
            }
        }
        fs::write(plain(&format!("new.{number}")), done.to_string()).unwrap();
        fs::rename(plain(&format!("new.{number}")), plain(&format!("done.{number}"))).unwrap();
        if plain("stop").exists() {
            break;
        }
    }
    fs::write(plain(&format!("model.{number}")), model).unwrap();
}

/// Starts the ranks, as a program under Headstart, and waits for them.
fn ranks_of(test: &str, seed: &str) {
    let start = |number: u64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, format!("{number} {seed}"));
        command.spawn().unwrap()
    };
    let ranks: Vec<Child> = (0..RANKS).map(start).collect();
    let ended: Vec<bool> = ranks.into_iter().map(|mut rank| rank.wait().unwrap().success()).collect();
    assert!(ended.iter().all(|success| *success), "a rank failed");
}

fn agents_are_killed(script: &str, test: &str) {
    match (inside(), role()) {
        (Inside::Not, _) => enter(script, test),
        (Inside::Elsewhere, Some(role)) => match role.split_once(' ') {
            Some((number, seed)) => rank(number.parse().unwrap(), seed.parse().unwrap()),
            None => ranks_of(test, &role),
        },
        (Inside::Elsewhere, None) => unreachable!("every role has a name"),
        (Inside::Here(slow, fast), _) => {
            let (slow, fast) = (slow.join("managed"), fast.join("flash"));
            fs::create_dir(&slow).unwrap();
            fs::create_dir(&fast).unwrap();
            kill_agents(&TestSite::on(slow, fast, "512KiB"), test);
        }
    }
}

fn kill_agents(site: &TestSite, test: &str) {
    let seed = std::env::var("SEED").unwrap_or_else(|_| std::process::id().to_string());
    println!("SEED={seed}");
    let run = site.play(&[], test, &seed).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let plain = |name: &str, number: u64| site.slow.with_file_name(format!("plain.{name}.{number}"));
    let done = |number| fs::read_to_string(plain("done", number)).map_or(0, |text| text.parse::<u64>().unwrap_or(0));
    let (mut killed, mut agent) = (0, 0);
    while killed < KILLS {
        let before: Vec<u64> = (0..RANKS).map(done).collect();
        wait_for("every rank goes on", || (0..RANKS).all(|number| done(number) >= before[number as usize] + 15));
        let last = agent;
        wait_for("another agent serves", || {
            agent = site.agent().unwrap_or(last);
            agent != last
        });
        kill(agent, Signal::SIGKILL);
        killed += 1;
    }
    let before: Vec<u64> = (0..RANKS).map(done).collect();
    wait_for("every rank goes on", || (0..RANKS).all(|number| done(number) > before[number as usize] + 15));
    fs::write(site.slow.with_file_name("plain.stop"), b"").unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "SEED={seed}: {}", site.say(&output));
    assert!(site.figure("/requests/absorbed_requests_total") > 0, "{:#}", site.status());
    for number in 0..RANKS {
        let found = fs::read(site.slow.join(format!("file.{number}"))).unwrap();
        assert!(found == fs::read(plain("model", number)).unwrap(), "SEED={seed}: the file of rank {number} differs");
    }
    let operations: u64 = (0..RANKS).map(done).sum();
    println!("{operations} operations, {killed} agents killed");
}

#[test]
fn nothing_acknowledged_is_lost_when_agents_are_killed_under_programs_on_moosefs() {
    agents_are_killed("moosefs.sh", KILLED_ON_MOOSEFS);
}

#[test]
fn nothing_acknowledged_is_lost_when_agents_are_killed_under_programs_on_glusterfs() {
    agents_are_killed("glusterfs.sh", KILLED_ON_GLUSTERFS);
}
