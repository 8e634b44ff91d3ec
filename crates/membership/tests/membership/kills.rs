//! The register in files between processes that are killed and stopped at any moment.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use headstart_membership::{Error, FileRegister, Register, Swap, Version};
use headstart_units::chance::Random;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;

use crate::history::{Recorder, calls, ended, play, refute};
use crate::roles::{Process, command, role, seed, told, until};

const KILLS: &str = "kills::processes_killed_and_stopped_at_any_moment_lose_no_update_and_stop_nobody";

/// Faults of one run.
const FAULTS: u64 = 60;
/// Processes at a time.
const PROCESSES: usize = 4;

struct Player {
    process: Process,
    record: PathBuf,
}

fn player(directory: &Path, number: u64, seed: u64) -> Player {
    let record = directory.join(format!("calls.{number}"));
    let seed = (seed ^ number).to_string();
    let telling =
        [("DIRECTORY", directory.as_os_str()), ("RECORD", record.as_os_str()), ("PLAYER_SEED", seed.as_ref())];
    Player { process: Process::start(command(KILLS, "player", &telling)), record: record.clone() }
}

fn be_player() {
    let (directory, record) = (told("DIRECTORY"), told("RECORD"));
    let seed = told("PLAYER_SEED").to_str().unwrap().parse().unwrap();
    let mut register = FileRegister::open(&directory.join("views")).unwrap();
    let name = record.extension().unwrap().to_str().unwrap();
    play(&mut register, name, &mut Recorder::new(&record), seed, || directory.join("over").exists());
}

#[test]
fn processes_killed_and_stopped_at_any_moment_lose_no_update_and_stop_nobody() {
    if role().is_some() {
        return be_player();
    }
    let seed = seed();
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    let mut next = || {
        number += 1;
        player(directory.path(), number, seed)
    };
    let mut players: Vec<Player> = (0..PROCESSES).map(|_| next()).collect();
    let mut records: Vec<PathBuf> = players.iter().map(|player| player.record.clone()).collect();
    for _ in 0..FAULTS {
        // Within a call or between two, as chance has it.
        std::thread::sleep(std::time::Duration::from_micros(random.below(8000)));
        let at = random.below(players.len() as u64) as usize;
        if random.chance(50) {
            let killed = std::mem::replace(&mut players[at], next());
            killed.process.kill();
            records.push(players[at].record.clone());
        } else {
            // All others stop wherever they are; this one goes on all the same.
            let others = || players.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, player)| player);
            others().for_each(|player| player.process.signal(Signal::SIGSTOP));
            let before = ended(&players[at].record);
            until("a call of the one that goes on", || ended(&players[at].record) >= before + 5);
            others().for_each(|player| player.process.signal(Signal::SIGCONT));
        }
    }
    std::fs::write(directory.path().join("over"), "").unwrap();
    for Player { mut process, .. } in players {
        assert!(process.0.wait().unwrap().success());
    }
    let mut history: Vec<_> = records.iter().flat_map(|record| calls(record)).collect();
    let last = directory.path().join("calls.last");
    let is_over = || ended(&last) >= 20;
    let mut register = FileRegister::open(&directory.path().join("views")).unwrap();
    play(&mut register, "last", &mut Recorder::new(&last), seed, is_over);
    history.extend(calls(&last));
    if let Some(problem) = refute(&history, true) {
        let kept = directory.keep();
        panic!("SEED={seed}: {problem}; the calls are in {}", kept.display());
    }
    let newest = register.read().unwrap().version.0;
    println!("{} calls, {newest} views", history.len());
    assert!(newest > 100, "too few swaps to say anything");
}

#[test]
fn a_directory_that_may_only_be_read_gives_views_and_takes_none() {
    let directory = tempfile::tempdir().unwrap();
    let views = directory.path().join("views");
    let mut register = FileRegister::open(&views).unwrap();
    assert!(matches!(register.swap(Version(0), b"one").unwrap(), Swap::Done(_)));
    let flags = MsFlags::MS_BIND;
    if let Err(error) = mount(Some(&views), &views, None::<&str>, flags, None::<&str>) {
        return println!("SKIPPED: mounting needs root ({error})");
    }
    mount(None::<&str>, &views, None::<&str>, flags | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, None::<&str>).unwrap();
    let refused = register.swap(Version(1), b"two");
    let mut other = FileRegister::open(&views).unwrap();
    let read = other.read();
    umount2(&views, MntFlags::MNT_DETACH).unwrap();
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::File { .. }) && error.to_string().contains("views"), "{error}");
    assert_eq!(&read.unwrap().bytes[..], b"one");
    assert!(matches!(register.swap(Version(1), b"two").unwrap(), Swap::Done(_)), "it is writable again");
}

#[test]
fn a_full_file_system_takes_no_view_and_keeps_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if let Err(error) = mount(Some("tmpfs"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=256k")) {
        return println!("SKIPPED: mounting a tmpfs needs root ({error})");
    }
    let mut register = FileRegister::open(&small.join("views")).unwrap();
    let done = register.swap(Version(0), &[1; 100 << 10]);
    let refused = register.swap(Version(1), &[2; 200 << 10]);
    let (read, files) = (register.read(), std::fs::read_dir(small.join("views")).unwrap().count());
    let again = register.swap(Version(1), &[3; 50 << 10]);
    umount2(&small, MntFlags::MNT_DETACH).unwrap();
    assert!(matches!(done.unwrap(), Swap::Done(_)));
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::File { .. }) && error.to_string().contains("small/views/new."), "{error}");
    assert_eq!(read.unwrap().version, Version(1));
    assert_eq!(files, 2, "the proposal was removed");
    assert!(matches!(again.unwrap(), Swap::Done(_)));
}

#[test]
fn a_directory_of_another_user_is_an_error_that_names_it() {
    if !nix::unistd::getuid().is_root() {
        return println!("SKIPPED: it takes root to be somebody else");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let views = directory.path().join("views");
    // File permissions are a thread's: the test's others stay who they are.
    let refused = std::thread::spawn({
        let views = views.clone();
        move || {
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            FileRegister::open(&views).map(|_| ())
        }
    });
    let error = refused.join().unwrap().unwrap_err();
    assert!(error.to_string().contains(views.to_str().unwrap()), "{error}");
}
