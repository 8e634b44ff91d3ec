//! A tmpfs that is full, where agent and programs meet.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;

use super::opened;
use super::site::{self, TestSite, content, managed, role};

/// What the shared file takes whoever takes part, the journal, and a little more.
const ROOM: &str = "size=2500k";
const FILES: u64 = 600;
const THREADS: u64 = 60;

/// A small tmpfs, until it is dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn small(site: &TestSite, options: &str) -> Option<Mounted> {
    let base = site.runtime_base();
    fs::create_dir(&base).unwrap();
    match mount(Some("tmpfs"), &base, Some("tmpfs"), MsFlags::empty(), Some(options)) {
        Ok(()) => Some(Mounted(base)),
        Err(error) => {
            println!("SKIPPED: mounting a tmpfs needs root ({error})");
            None
        }
    }
}

fn base() -> PathBuf {
    PathBuf::from(std::env::var_os("HEADSTART_RUNTIME_BASE").unwrap())
}

/// Takes every byte that is left where agent and programs meet.
fn fill(base: &Path) {
    let mut filler = File::create(base.join("filler")).unwrap();
    let error = loop {
        if let Err(error) = filler.write_all(&[1; 4096]) {
            break error;
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
}

fn path(number: u64) -> PathBuf {
    managed().join(number.to_string())
}

/// Whether it is written; what is refused for want of room leaves the file empty.
fn write(number: u64) -> bool {
    let file = match fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path(number)) {
        Ok(file) => file,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
            return false;
        }
    };
    file.write_all_at(&content(number, 0, 3000), 0).unwrap();
    let mut found = vec![0; 3000];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == content(number, 0, 3000), "file {number}");
    std::mem::forget(file);
    true
}

/// Opens files while there is room and when there is none; threads come to take part as well. What was opened
/// before goes on.
fn crowd() {
    let first = opened(&path(FILES));
    assert!((0..3).all(write), "there is room");
    fill(&base());
    let written = (3..FILES).filter(|number| write(*number)).count();
    println!("{written} more files have room");
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let file = first.try_clone().unwrap();
            std::thread::spawn(move || match file.write_all_at(&content(number, 0, 500), number * 500) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                    false
                }
            })
        })
        .collect();
    let refused = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|written| !written).count();
    println!("{refused} threads were refused");
    (0..THREADS).for_each(|number| first.write_all_at(&content(number, 0, 500), number * 500).unwrap());
    (0..3).for_each(|number| {
        let file = File::options().write(true).open(path(number)).unwrap();
        file.write_all_at(&content(number + 1, 0, 3000), 0).unwrap();
    });
}

#[test]
fn a_full_runtime_directory_refuses_files_by_name_and_ends_nobody() {
    let test = "memory::a_full_runtime_directory_refuses_files_by_name_and_ends_nobody";
    match role().as_deref() {
        Some("later") => return assert!((3..FILES).all(write)),
        Some(_) => return crowd(),
        None => {}
    }
    let site = TestSite::with_capacity("64MiB");
    let Some(mounted) = small(&site, ROOM) else { return };
    site.succeed(&["run", "--", "true"]);
    let pid = site.agent();
    let output = site.play(&[], test, "all").output().unwrap();
    assert!(output.status.success(), "{}{}", output.status, site.say(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    for word in ["no room in", mounted.0.to_str().unwrap(), "HEADSTART_RUNTIME_BASE", "cannot be opened"] {
        assert!(said.contains(word), "no '{word}' in {}", site.say(&output));
    }
    assert!(pid.is_some() && site.agent() == pid, "the agent lives on: {}", site.say(&output));
    for number in 0..FILES {
        let found = fs::read(site.slow.join(number.to_string())).unwrap();
        let expected = content(if number < 3 { number + 1 } else { number }, 0, 3000);
        assert!(found == expected || (number >= 3 && found.is_empty()), "file {number}");
    }
    let shared = fs::read(site.slow.join(FILES.to_string())).unwrap();
    for number in 0..THREADS {
        assert!(shared[number as usize * 500..][..500] == content(number, 0, 500), "thread {number}");
    }
    // With room again everything works, under the same agent.
    fs::remove_file(mounted.0.join("filler")).unwrap();
    mount(None::<&str>, &mounted.0, None::<&str>, MsFlags::MS_REMOUNT, Some("size=64m")).unwrap();
    site.played(&[], test, "later");
    assert_eq!(site.agent(), pid);
    for number in 3..FILES {
        assert!(fs::read(site.slow.join(number.to_string())).unwrap() == content(number, 0, 3000), "file {number}");
    }
    assert_eq!(site.figure("/dirty_bytes"), 0);
    site.succeed(&["stop"]);
}

/// Writes, takes all room, kills the agent `pid`, and goes on.
fn outlive(pid: i32) {
    let file = opened(&path(0));
    let write = |generation| (0..20).for_each(|k| file.write_all_at(&content(generation, k, 3000), k * 3000).unwrap());
    write(1);
    fill(&base());
    site::kill(pid, Signal::SIGKILL);
    site::wait_for("the agent is gone", || site::has_ended(pid));
    let mut found = vec![0; 3000];
    file.read_exact_at(&mut found, 19 * 3000).unwrap();
    assert!(found == content(1, 19, 3000), "the next agent knows what was absorbed");
    write(2);
}

#[test]
fn an_agent_that_is_killed_where_the_runtime_directory_is_full_is_followed_by_another_one() {
    let test = "memory::an_agent_that_is_killed_where_the_runtime_directory_is_full_is_followed_by_another_one";
    if let Some(pid) = role() {
        return outlive(pid.parse().unwrap());
    }
    let site = TestSite::with_capacity("64MiB");
    let Some(_mounted) = small(&site, ROOM) else { return };
    site.succeed(&["run", "--", "true"]);
    let pid = site.agent().unwrap();
    site.played(&[], test, &pid.to_string());
    assert!(site.agent().is_some_and(|next| next != pid));
    let expected: Vec<u8> = (0..20).flat_map(|k| content(2, k, 3000)).collect();
    assert!(fs::read(site.slow.join("0")).unwrap() == expected);
    site.succeed(&["stop"]);
}

#[test]
fn an_agent_that_finds_no_room_says_so_and_the_program_runs_without_flash() {
    let site = TestSite::with_capacity("64MiB");
    let Some(mounted) = small(&site, "size=200k") else { return };
    let script = "echo bytes > $HEADSTART_SITE.out";
    let output = site.headstart(&["run", "--", "sh", "-c", script]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", site.say(&output));
    for word in ["no room in", mounted.0.to_str().unwrap(), "HEADSTART_RUNTIME_BASE", "runs without flash"] {
        assert!(said.contains(word), "no '{word}' in {}", site.say(&output));
    }
}
