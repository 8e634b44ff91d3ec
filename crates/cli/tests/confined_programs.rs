//! Programs that give up, while they run, what it took to open their files: another user, another root,
//! rules, filters. And files that are protected from being written while bytes of them wait on flash.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use nix::libc;
use site::{TestSite, managed, role, said, text, wait_for};

/// The beginning of every script: `use` reads and writes through a descriptor that was opened before,
/// `everybody` does so in this thread, in a new one, and in a child.
const USE: &str = "import os, sys, ctypes, threading, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
slow, away = sys.argv[1:3]
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
names = iter('abcdefgh')
fds = [os.open(slow + '/' + name, os.O_RDWR | os.O_CREAT) for name in ('f', 'g')]
for fd in fds: assert os.pwrite(fd, b'.' * 65536, 0) == 65536
def use():
    mark = next(names).encode() * 4096; at = 4096 * (ord(mark[:1]) - 96)
    for fd in fds:
        assert os.pread(fd, 4096, 0) == b'.' * 4096
        assert os.pwrite(fd, mark, at) == 4096 and os.pread(fd, 4096, at) == mark
        os.fsync(fd)
failed = []
def in_thread():
    try: use()
    except BaseException as error: failed.append(error)
def everybody():
    use()
    thread = threading.Thread(target=in_thread); thread.start(); thread.join(); assert not failed, failed
    child = os.fork()
    if child == 0:
        try: use()
        except BaseException as error: print(repr(error), file=sys.stderr, flush=True); os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
";

/// What the files hold then: of the child the parent's memory knows nothing, but its mark is the third.
fn used() -> Vec<u8> {
    let mut bytes = vec![b'.'; 65536];
    for (at, mark) in (1..4).zip(b'a'..) {
        bytes[at * 4096..(at + 1) * 4096].fill(mark);
    }
    bytes
}

fn is_root() -> bool {
    let is_root = nix::unistd::getuid().is_root();
    if !is_root {
        println!("SKIPPED: needs root");
    }
    is_root
}

/// Runs a script under Headstart; what came of it, and the bytes of `f` and `g` at the end.
fn run_script(site: &TestSite, script: &str) -> Output {
    let away = site.path("plain");
    let script = format!("{USE}{script}");
    let arguments = ["run", "--", "/usr/bin/python3", "-c", &script, text(&site.slow), text(&away)];
    let output = site.headstart(&arguments);
    assert!(output.status.success(), "{}\n{}", output.status, site.say(&output));
    output
}

/// The same for one that lets everybody use the files after `confine`, with flash.
fn goes_on_after(confine: &str) {
    let site = TestSite::with_capacity("64MiB");
    run_script(&site, &format!("{confine}\neverybody()"));
    for name in ["f", "g"] {
        assert!(fs::read(site.slow.join(name)).unwrap() == used(), "{name}");
    }
    assert_eq!(site.figure("/agent/absorbed_requests_total"), 8, "{:#}", site.status());
}

#[test]
fn a_program_that_became_another_user_goes_on_with_its_files_and_so_do_its_threads_and_children() {
    if is_root() {
        goes_on_after("os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)");
        goes_on_after("check(libc.syscall(117, 65534, 65534, 65534))");
    }
}

#[test]
fn a_program_behind_another_root_goes_on_with_its_files_and_so_do_its_threads_and_children() {
    if is_root() {
        goes_on_after("os.chroot(away); os.chdir('/'); os.setresuid(65534, 65534, 65534)");
    }
}

#[test]
fn a_program_under_landlock_goes_on_with_its_files_and_so_do_its_threads_and_children() {
    const RESTRICT: &str = "
rules = ctypes.create_string_buffer(struct.pack('Q', (1 << 13) - 1))
ruleset = libc.syscall(444, rules, 8, 0)
if ruleset >= 0:
    check(libc.prctl(38, 1, 0, 0, 0)); check(libc.syscall(446, ruleset, 0))
    try: os.open(slow + '/f', os.O_RDONLY)
    except PermissionError: pass
    else: assert False, 'nothing is restricted'
else: print('SKIPPED: no Landlock')";
    goes_on_after(RESTRICT);
}

/// A filter that ends the process for the calls in `killed`.
const FILTER: &str = "
def install(killed):
    steps = [(0x20, 0, 0, 0)] + [step for number in killed for step in ((0x15, 0, 1, number), (6, 0, 0, 0x80000000))]
    steps.append((6, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code)))
    check(libc.prctl(38, 1, 0, 0, 0)); check(libc.prctl(22, 2, program, 0, 0))
";

#[test]
fn a_program_whose_filter_forbids_calls_of_the_library_leaves_flash_before_and_is_not_ended() {
    let site = TestSite::with_capacity("64MiB");
    // sendto, recvfrom, connect, readlinkat, statx.
    let output = run_script(&site, &format!("{FILTER}install([44, 45, 42, 267, 332])\nuse()"));
    let seen = fs::read(site.slow.join("f")).unwrap();
    assert!(seen[..4096] == used()[..4096] && seen[4096..8192] == used()[4096..8192], "{}", said(&output));
    assert!(said(&output).contains("filtered"), "{}", said(&output));
    assert_eq!(site.figure("/agent/absorbed_requests_total"), 2, "what came before");
}

#[test]
fn a_filter_that_lets_the_librarys_calls_through_changes_nothing() {
    let site = TestSite::with_capacity("64MiB");
    // ptrace, reboot.
    let output = run_script(&site, &format!("{FILTER}install([101, 169])\neverybody()"));
    assert!(fs::read(site.slow.join("g")).unwrap() == used());
    assert!(!said(&output).contains("filtered"), "{}", said(&output));
    assert_eq!(site.figure("/agent/absorbed_requests_total"), 8);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a call of the program's, which goes through the library")]
fn a_program_in_the_strict_mode_of_seccomp_reads_and_writes_its_files() {
    let test = "a_program_in_the_strict_mode_of_seccomp_reads_and_writes_its_files";
    if role().is_some() {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(managed().join("a")).unwrap();
        // SAFETY: the child makes system calls alone.
        if let nix::unistd::ForkResult::Parent { child } = unsafe { nix::unistd::fork() }.unwrap() {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            return assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
        let written = file.write_all_at(b"absorbed", 0).is_ok();
        // SAFETY: no memory is involved; from here on the child reads, writes and ends.
        unsafe {
            let is_strict = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) == 0;
            let done = written && is_strict && file.write_all(b"directly").is_ok();
            libc::syscall(libc::SYS_exit, i32::from(!done));
        }
        unreachable!("it has ended");
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&[], test, "program");
    assert_eq!(fs::read(site.slow.join("a")).unwrap(), b"directly");
    assert_eq!(site.figure("/agent/absorbed_requests_total"), 1);
}

/// A site on the disk's file system, if that has the flags of `chattr`.
fn on_disk() -> Option<(tempfile::TempDir, TestSite)> {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let (slow, fast) = (directory.path().join("slow"), directory.path().join("fast"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    let probe = slow.join("probe");
    File::create(&probe).unwrap();
    let flag = |flag| Command::new("chattr").arg(flag).arg(&probe).output().is_ok_and(|output| output.status.success());
    if !flag("+i") {
        println!("SKIPPED: no chattr, or a file system without its flags");
        return None;
    }
    assert!(flag("-i"));
    fs::remove_file(&probe).unwrap();
    Some((directory, TestSite::on(slow, fast, "64MiB")))
}

#[test]
fn a_file_is_written_back_with_its_time_before_it_becomes_immutable_and_nothing_is_absorbed_afterwards() {
    let Some((_directory, site)) = on_disk() else { return };
    let script = "
late = os.open(slow + '/h', os.O_RDWR | os.O_CREAT); os.pwrite(late, b'early', 0)
for fd, flag in zip(fds, ('+i', '+a')):
    path = os.readlink('/proc/self/fd/%d' % fd); os.close(fd); before = os.stat(path).st_mtime_ns
    subprocess.run(['chattr', flag, path], check=True)
    assert os.stat(path).st_mtime_ns == before
subprocess.run(['chattr', '+i', slow + '/h'], check=True)
try: os.pwrite(late, b'late!', 0)
except PermissionError: pass
end = os.open(slow + '/g', os.O_WRONLY | os.O_APPEND); assert os.write(end, b'more') == 4";
    let output = site.headstart(&[
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        &format!("{USE}{script}"),
        text(&site.slow),
        text(&site.path("plain")),
    ]);
    let checked = site.headstart(&["check"]);
    for name in ["f", "g", "h"] {
        let _ = Command::new("chattr").arg("-ia").arg(site.slow.join(name)).status();
    }
    assert!(output.status.success(), "{}\n{}", output.status, site.say(&output));
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(fs::read(site.slow.join("f")).unwrap() == [b'.'; 65536]);
    assert!(fs::read(site.slow.join("g")).unwrap() == [&[b'.'; 65536][..], b"more"].concat());
}

#[test]
fn times_before_1970_and_to_come_are_right_while_files_are_open_and_afterwards() {
    let site = TestSite::with_capacity("64MiB");
    let (early, to_come) = (-315_619_200i64, 1_956_528_000);
    for (name, time) in [("old", early), ("read", early), ("future", to_come)] {
        fs::write(site.slow.join(name), b"0").unwrap();
        let path = site.slow.join(name);
        assert!(Command::new("touch").args(["-d", &format!("@{time}")]).arg(path).status().unwrap().success());
    }
    let script = "
import time
early = -315619200
def seconds(path): return os.stat(slow + '/' + path).st_mtime
now = time.time()
for name in 'old', 'future':
    fd = os.open(slow + '/' + name, os.O_RDWR); os.pwrite(fd, b'1', 0)
    assert now - 1 <= seconds(name) <= time.time() + 1, (name, seconds(name))
    os.close(fd)
    assert now - 1 <= seconds(name) <= time.time() + 1, (name, seconds(name))
fd = os.open(slow + '/read', os.O_RDONLY); os.read(fd, 1); assert os.fstat(fd).st_mtime == early
for fd, way in zip(fds, (lambda: os.utime(fds[0], (early, early)), lambda: os.utime(slow + '/g', (early, early)))):
    way(); assert os.fstat(fd).st_mtime == early
os.close(fds[0]); assert seconds('f') == early";
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    run_script(&site, script);
    let seconds = |name: &str| fs::metadata(site.slow.join(name)).unwrap().mtime();
    assert_eq!((seconds("read"), seconds("f"), seconds("g")), (early, early, early));
    for name in ["old", "future"] {
        assert!((started - 2..to_come - 1).contains(&seconds(name)), "{name}: {}", seconds(name));
    }
}

#[test]
fn the_time_of_an_absorbed_write_comes_to_the_slow_file_while_it_is_open_and_one_that_is_set_stands() {
    let test = "the_time_of_an_absorbed_write_comes_to_the_slow_file_while_it_is_open_and_one_that_is_set_stands";
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    if role().is_some() {
        let path = managed().join("a");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        for turn in 0..3 {
            file.write_all_at(b"absorbed", turn * 4096).unwrap();
            let absorbed = file.metadata().unwrap().mtime_nsec();
            // As who is not in the run sees it.
            let seen = || {
                let output = Command::new("stat").env_remove("LD_PRELOAD").args(["-c", "%.9Y"]).arg(&path).output();
                String::from_utf8(output.unwrap().stdout).unwrap()
            };
            wait_for("the time is shown", || seen().trim().ends_with(&format!(".{absorbed:09}")));
            file.set_modified(long_ago).unwrap();
            assert!(file.metadata().unwrap().modified().unwrap() == long_ago);
        }
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), b"").unwrap();
    site.played(&["--keep-dirty"], test, "program");
    assert!(fs::metadata(site.slow.join("a")).unwrap().modified().unwrap() == long_ago);
    site.succeed(&["drain"]);
    assert!(fs::metadata(site.slow.join("a")).unwrap().modified().unwrap() == long_ago);
}
