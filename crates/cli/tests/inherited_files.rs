//! Files without a name whose bytes are on flash, in the hands of forked children and executed programs that
//! have not used them yet when the last process is gone that had: nothing is lost of what was acknowledged.
//! What nobody can have inherited costs no write to the disk.
//!
//! A test plays its own program: it starts itself again under `headstart run`, as a role. All writes are absorbed.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use site::{TestSite, content, managed, role};

const LENGTH: usize = 9000;

fn bytes() -> Vec<u8> {
    content(1, 0, LENGTH)
}

/// A file of the managed directory with bytes on flash; its offset is zero. `named`: it still has its name.
fn written(named: bool) -> File {
    let path = managed().join("t");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(&bytes(), 0).unwrap();
    if !named {
        fs::remove_file(&path).unwrap();
    }
    file
}

/// The agent answers after it has heard of everything that happened before.
fn ask_agent() {
    drop(File::create(managed().join("other")).unwrap());
}

/// A forked child that ends with what `body` says.
fn fork(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `body`, which takes no lock that another thread of this program holds for long, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without running what is the parent's.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    assert!(child > 0);
    child
}

/// How a child ended.
fn status_of(child: i32) -> i32 {
    let mut status = -1;
    // SAFETY: the pointer is to a variable that lives across the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Two ends of a pipe: who reads waits until all who can write are gone, or a byte comes.
fn gate() -> (File, File) {
    let (from, to) = nix::unistd::pipe().unwrap();
    (File::from(from), File::from(to))
}

fn wait_at(gate: &mut File) {
    gate.read_exact(&mut [0]).unwrap();
}

fn open(gate: &mut File) {
    gate.write_all(b"x").unwrap();
}

fn holds(file: &File, expected: &[u8]) -> bool {
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 0).is_ok() && found == expected
}

/// Plays `program` under Headstart; what it printed, and the site.
fn played(test: &str, program: impl FnOnce()) -> Option<(TestSite, Vec<u8>)> {
    if role().is_some() {
        program();
        return None;
    }
    let site = TestSite::with_capacity("8MiB");
    let output = site.play(&[], test, "program").output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, site.say(&output));
    assert!(site.figure("/agent/absorbed_requests_total") > 0, "nothing was absorbed: {:#}", site.status());
    assert_eq!(site.figure("/dirty_bytes"), 0);
    Some((site, output.stdout))
}

#[test]
fn a_child_reads_what_its_parent_wrote_before_the_parent_closed_the_file() {
    let test = "a_child_reads_what_its_parent_wrote_before_the_parent_closed_the_file";
    played(test, || {
        for removed_late in [false, true] {
            let file = written(removed_late);
            let (mut closed, mut close) = gate();
            let child = fork(|| {
                wait_at(&mut closed);
                holds(&file, &bytes())
            });
            drop(file);
            if removed_late {
                fs::remove_file(managed().join("t")).unwrap();
            }
            open(&mut close);
            assert_eq!(status_of(child), 0, "removed after the close: {removed_late}");
        }
    });
}

#[test]
fn a_child_reads_what_its_parent_wrote_before_the_parent_ended_or_was_killed() {
    let test = "a_child_reads_what_its_parent_wrote_before_the_parent_ended_or_was_killed";
    played(test, || {
        for killed in [false, true] {
            let (mut gone, mut go) = gate();
            let (mut told, mut tell) = gate();
            let parent = fork(|| {
                let file = written(false);
                fork(|| {
                    wait_at(&mut gone);
                    tell.write_all(if holds(&file, &bytes()) { b"y" } else { b"n" }).is_ok()
                });
                // SAFETY: plain integers.
                !killed || unsafe { libc::raise(libc::SIGKILL) } == 0
            });
            let status = status_of(parent);
            assert_eq!(status, if killed { libc::SIGKILL } else { 0 });
            ask_agent();
            open(&mut go);
            let mut answer = [0];
            told.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"y", "killed: {killed}");
        }
    });
}

#[test]
fn a_close_that_the_kernel_refuses_takes_no_byte() {
    played("a_close_that_the_kernel_refuses_takes_no_byte", || {
        let file = written(false);
        let fd = file.as_raw_fd();
        // SAFETY: plain integers; the descriptor stays open, as each of the calls is refused.
        unsafe {
            assert_eq!(libc::dup2(-1, fd), -1);
            assert_eq!(libc::dup3(1, fd, 1), -1);
            assert_eq!(libc::close_range(fd as u32, fd as u32, 1 << 20), -1);
        }
        ask_agent();
        assert!(holds(&file, &bytes()));
    });
}

#[test]
fn what_one_child_writes_another_reads_when_it_is_gone() {
    let test = "what_one_child_writes_another_reads_when_it_is_gone";
    played(test, || {
        let file = written(false);
        let (mut written, mut write) = gate();
        let (mut closed, mut close) = gate();
        let more = content(2, 0, 3000);
        let first = fork(|| {
            wait_at(&mut closed);
            file.write_all_at(&more, 4000).is_ok()
        });
        let second = fork(|| {
            wait_at(&mut written);
            holds(&file, &[&bytes()[..4000], &more, &bytes()[7000..]].concat())
        });
        drop(file);
        open(&mut close);
        assert_eq!(status_of(first), 0);
        ask_agent();
        open(&mut write);
        assert_eq!(status_of(second), 0);
    });
}

#[test]
fn a_program_reads_on_standard_input_what_was_written_before_it_was_executed() {
    let test = "a_program_reads_on_standard_input_what_was_written_before_it_was_executed";
    let found = played(test, || {
        let file = written(false);
        ask_agent();
        // SAFETY: plain integers.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 0) }, 0);
        let other = managed().join("other");
        // The agent has heard of the end of the program before when `other` has been opened.
        let error = Command::new("sh").arg("-c").arg("cat \"$0\" < /dev/null; exec cat").arg(other).exec();
        panic!("{error}");
    });
    if let Some((_, printed)) = found {
        assert!(printed.ends_with(&bytes()), "{}", String::from_utf8_lossy(&printed));
    }
}

/// A program with the file as standard input, which waits before it reads that until its starter has closed
/// the file; what it printed.
fn started(start: impl FnOnce(File, &Path) -> std::process::Child) {
    let directory = managed().with_file_name("plain");
    let fifo = directory.join("fifo");
    let _ = fs::remove_file(&fifo);
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut child = start(written(false), &fifo);
    drop(OpenOptions::new().write(true).open(&fifo).unwrap());
    let mut found = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut found).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(found == bytes(), "{} bytes", found.len());
}

#[test]
fn a_program_that_is_spawned_reads_what_was_written_before_its_starter_closed_the_file() {
    let test = "a_program_that_is_spawned_reads_what_was_written_before_its_starter_closed_the_file";
    played(test, || {
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", "read line < \"$0\"; exec cat"]).stdout(Stdio::piped());
            command
        };
        // posix_spawn, and fork with exec.
        started(|file, fifo| command().arg(fifo).stdin(file).spawn().unwrap());
        // SAFETY: nothing happens between the two.
        started(|file, fifo| unsafe { command().arg(fifo).stdin(file).pre_exec(|| Ok(())).spawn() }.unwrap());
        // vfork, by whoever uses that.
        let script = "import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL); os.pwrite(fd, b'spawned ' * 1000, 0); os.unlink(sys.argv[1])
r, w = os.pipe()
p = subprocess.Popen(['sh', '-c', 'read line <&%d; exec cat' % r], stdin=fd, stdout=subprocess.PIPE, pass_fds=[r])
os.close(fd); os.write(w, b'go\\n')
assert p.stdout.read() == b'spawned ' * 1000";
        if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
            return println!("SKIPPED: there is no python3");
        }
        let output = Command::new("python3").arg("-c").arg(script).arg(managed().join("v")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn a_file_without_a_name_that_nobody_inherits_costs_no_write_to_the_disk() {
    let test = "a_file_without_a_name_that_nobody_inherits_costs_no_write_to_the_disk";
    let found = played(test, || {
        // A child that is gone before, and one that comes later, have nothing to do with it.
        assert_eq!(status_of(fork(|| true)), 0);
        for _ in 0..20 {
            drop(written(false));
        }
        drop(written(true));
        fs::remove_file(managed().join("t")).unwrap();
        let last = written(false);
        drop(last);
        assert_eq!(status_of(fork(|| true)), 0);
    });
    if let Some((site, _)) = found {
        assert_eq!(site.figure("/agent/written_back_bytes_total"), 0, "{:#}", site.status());
    }
}
