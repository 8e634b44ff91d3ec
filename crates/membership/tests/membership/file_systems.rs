//! The probe, the register and the locks over parallel file systems with a mount a node.

use std::path::{Path, PathBuf};
use std::process::Command;

use headstart_membership::presence::{fresh_name, observe};
use headstart_membership::probe::{Finding, Problem, Tier};
use headstart_membership::{FileRegister, LockState, Observed, Presence, Register, Swap, Version};

use crate::probes::{Member, be_member, places};
use crate::roles::{command, role, told, until};

const MOOSEFS: &str = "file_systems::moosefs_which_keeps_bytes_until_they_are_synced_is_refused";
const GLUSTERFS: &str = "file_systems::glusterfs_is_refused_with_its_caches_and_shared_without";

/// Runs the test once more below the file system of a script of `lab/bench/file_systems`.
fn enter(script: &str, test: &str) {
    let work = tempfile::Builder::new().prefix("headstart-file-system-").tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/file_systems").join(script);
    let inside = command(test, "inside", &[]);
    let mut command = Command::new(script);
    command.arg(work.path()).arg(inside.get_program()).args(inside.get_args());
    command.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.code() == Some(77) {
        return println!("SKIPPED: {}", text(&output.stderr).trim());
    }
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success());
}

fn sh(what: &str) {
    let output = Command::new("sh").args(["-c", what]).output().unwrap();
    assert!(output.status.success(), "{what}: {output:?}");
}

/// A mount of its own for each of two nodes, made by `mount`, and what the probe finds between them.
fn probe(test: &str, work: &Path, name: &str, mount: impl Fn(&Path)) -> Vec<Finding> {
    let nodes = ["joiner", "member"].map(|node| work.join(format!("{name}-{node}")));
    nodes.iter().for_each(|node| mount(node));
    Member::start(test, &nodes[1]).probe(&nodes[0])
}

#[test]
fn moosefs_which_keeps_bytes_until_they_are_synced_is_refused() {
    match role().as_deref() {
        None => return enter("moosefs.sh", MOOSEFS),
        Some("member") => return be_member(),
        _ => {}
    }
    let work = told("SLOW").ancestors().nth(2).unwrap().to_owned();
    for (name, options) in [("cached", "nosuid"), ("direct", "nosuid,mfscachemode=DIRECT,mfsattrcacheto=0")] {
        let findings = probe(MOOSEFS, &work, name, |at| {
            sh(&format!("mkdir -p {0} && mfsmount {0} -H 10.9.0.1 -o {options}", at.display()));
        });
        let is_right = |finding: &Finding| finding.file_system == "moosefs" && finding.problem == Problem::StaleBytes;
        for tier in [Tier::Fast, Tier::Slow] {
            assert!(findings.iter().any(|finding| finding.tier == tier && is_right(finding)), "{name}: {findings:?}");
        }
        assert!(findings.iter().all(|finding| finding.to_string().contains("MooseFS")), "{name}: {findings:?}");
    }
}

#[test]
fn glusterfs_is_refused_with_its_caches_and_shared_without() {
    match role().as_deref() {
        None => return enter("glusterfs.sh", GLUSTERFS),
        Some("member") => return be_member(),
        _ => {}
    }
    let work = told("SLOW").parent().unwrap().to_owned();
    let none =
        "--direct-io-mode=enable --fopen-keep-cache=off --attribute-timeout=0 --entry-timeout=0 --negative-timeout=0";
    for (name, options) in [("cached", ""), ("direct", none)] {
        let findings = probe(GLUSTERFS, &work, name, |at| {
            for volume in ["slow", "fast"] {
                let (at, file) = (at.join(volume), work.join(format!("{volume}-client.vol")));
                sh(&format!("mkdir -p {0} && glusterfs -f {1} {options} -l {0}.log {0}", at.display(), file.display()));
            }
        });
        if name == "direct" {
            assert_eq!(findings, []);
            continue;
        }
        for problem in [Problem::StaleBytes, Problem::StaleSize, Problem::StaleNames] {
            for tier in [Tier::Fast, Tier::Slow] {
                let is_found = findings.iter().any(|finding| finding.tier == tier && finding.problem == problem);
                assert!(is_found, "{problem:?} of {tier:?}: {findings:?}");
            }
        }
        assert!(findings.iter().all(|finding| finding.to_string().contains("direct-io-mode")), "{findings:?}");
    }
    let nodes = ["joiner", "member"].map(|node| work.join(format!("direct-{node}")));
    swap_in_turns(&nodes);
    see_locks(&nodes);
}

/// The register over two mounts: each sees what the other swapped.
fn swap_in_turns(nodes: &[PathBuf; 2]) {
    let mut registers = nodes.each_ref().map(|node| FileRegister::open(&places(node).views()).unwrap());
    for round in 0..20 {
        let (one, other) = (round % 2, (round + 1) % 2);
        let known = registers[one].read().unwrap().version;
        assert_eq!(known, Version(round as u64));
        assert!(matches!(registers[one].swap(known, &[round as u8; 1000]).unwrap(), Swap::Done(_)));
        let Swap::Lost(found) = registers[other].swap(known, b"late").unwrap() else { panic!("it was swapped twice") };
        assert_eq!(&found.bytes[..], &[round as u8; 1000]);
    }
}

/// Locks over two mounts: a member is seen at the other one until its process is gone.
fn see_locks(nodes: &[PathBuf; 2]) {
    let name = fresh_name("joiner").unwrap();
    let presence = Presence::take(&places(&nodes[0]), &name).unwrap();
    let there = places(&nodes[1]);
    assert_eq!(observe(&there, &name), Observed { present: LockState::Held, movers: LockState::Held });
    drop(presence);
    until("the locks to be given up", || observe(&there, &name).movers == LockState::GivenUp);
    assert_eq!(observe(&there, &name).present, LockState::GivenUp);
}
