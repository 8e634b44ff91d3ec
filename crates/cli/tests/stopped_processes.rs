//! Processes that are stopped for a while, at a place that is chosen and not met by luck: ranks in the middle
//! of each request they can make, and the agent while programs write. The others go on, and all bytes are right.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use site::{HEADSTART, TestSite, content, kill, managed, role, text, wait_for};

/// Ranks that write beside the stopped one, and requests of each: together a MiB, which is one granule.
const RANKS: usize = 16;
const COUNT: usize = 16;
const REQUEST: usize = 4096;
const FILE_BYTES: usize = RANKS * COUNT * REQUEST;

/// How `lab/bench/stopped.c` ends where processes may not be traced.
const UNTRACED: i32 = 3;

/// A program of `lab/bench`, compiled.
fn program(site: &TestSite, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench").join(format!("{name}.c"));
    let binary = site.path(name);
    let status = Command::new("cc").args(["-O2", "-o"]).arg(&binary).arg(source).status();
    assert!(status.expect("there is a C compiler").success());
    binary
}

/// A request that a rank is stopped in.
struct Request {
    call: &'static str,
    /// Where its bytes are by then.
    at: &'static str,
    policy: &'static str,
    bytes: usize,
    /// Whether flash holds the file's bytes before.
    on_flash: bool,
}

/// A site with a file, and the programs.
struct Stage {
    site: TestSite,
    file: PathBuf,
    ranks: PathBuf,
    stopped: PathBuf,
}

impl Stage {
    fn new(on_flash: bool) -> Stage {
        let site = TestSite::with_capacity("16MiB");
        let (ranks, stopped) = (program(&site, "ranks"), program(&site, "stopped"));
        let stage = Stage { file: site.slow.join("f"), site, ranks, stopped };
        assert!(stage.all_ranks("write", 1).output().unwrap().status.success());
        if on_flash {
            stage.managed("write", 1);
            assert!(stage.site.figure("/dirty_bytes") > 0);
        }
        stage
    }

    fn all_ranks(&self, operation: &str, generation: u64) -> Command {
        self.under(Command::new(&self.ranks), operation, generation)
    }

    fn under(&self, mut command: Command, operation: &str, generation: u64) -> Command {
        command.arg("--file").arg(&self.file).args(["--op", operation, "--generation", &generation.to_string()]);
        command.args(["--ranks", &RANKS.to_string(), "--count", &COUNT.to_string(), "--size", &REQUEST.to_string()]);
        command
    }

    /// All ranks write or check under Headstart, to their end.
    fn managed(&self, operation: &str, generation: u64) {
        let mut run = self.site.command("timeout");
        run.args(["60", HEADSTART, "run", "--keep-dirty", "--"]).arg(&self.ranks);
        let output = self.under(run, operation, generation).output().unwrap();
        assert!(output.status.success(), "{operation} {}: {}", output.status, self.site.say(&output));
    }

    /// Stops a rank in a request, lets the others write and read, and lets it go on. Whether it could be.
    fn play(&self, request: &Request, when: &str) -> bool {
        let mut run = self.site.command(HEADSTART);
        run.args(["run", "--keep-dirty", "--policy", request.policy, "--"]).arg(&self.stopped);
        run.arg("--file").arg(&self.file).args(["--call", request.call, "--at", request.at, "--when", when]);
        run.args(["--size", &request.bytes.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut rank = run.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(rank.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said.is_empty() {
            let status = rank.wait().unwrap();
            assert_eq!(status.code(), Some(UNTRACED), "{} at {} is not stopped", request.call, request.at);
            println!("SKIPPED: processes cannot be traced here");
            return false;
        }
        self.managed("write", 2);
        self.managed("check", 2);
        drop(rank.stdin.take());
        wait_for("the stopped rank ends", || rank.try_wait().unwrap().is_some());
        assert!(rank.wait().unwrap().success(), "{} at {}", request.call, request.at);
        true
    }

    /// What programs read, which must be what is on the disks after a drain.
    fn bytes(&self) -> Vec<u8> {
        let read = || {
            let mut run = self.site.command(HEADSTART);
            run.args(["run", "--keep-dirty", "--", "cat"]).arg(&self.file);
            run.output().unwrap().stdout
        };
        let bytes = read();
        assert!(read() == bytes, "the same bytes are read twice");
        self.site.succeed(&["drain"]);
        assert!(fs::read(&self.file).unwrap() == bytes, "other bytes are on the disks");
        bytes
    }
}

/// A rank stopped in a request before and after its kernel call, and what is there in the end: what the others
/// wrote, or where the rank wrote as well, for each request of theirs either the one or the other.
fn stopped_in(request: &Request) {
    for when in ["before", "after"] {
        println!("{} at {}, {when}", request.call, request.at);
        let stage = Stage::new(request.on_flash);
        if !stage.play(request, when) {
            return;
        }
        let refused = stage.site.figure("/agent/refused_held_up_total");
        let found = stage.bytes();
        assert!(stage.all_ranks("write", 2).output().unwrap().status.success());
        let others = fs::read(&stage.file).unwrap();
        assert_eq!((found.len(), others.len()), (FILE_BYTES, FILE_BYTES));
        let reach = if request.call == "write" { request.bytes } else { 0 };
        for (offset, (one, other)) in (0..).step_by(REQUEST).zip(found.chunks(REQUEST).zip(others.chunks(REQUEST))) {
            let is_ranks_own = offset < reach && one.iter().all(|&byte| byte == b's');
            assert!(one == other || is_ranks_own, "wrong bytes at {offset}");
        }
        if request.call != "write" {
            assert_eq!(refused, 0, "a rank that writes nothing is in nobody's way");
        }
    }
}

#[test]
fn a_rank_stopped_in_a_read_changes_nothing_for_others() {
    stopped_in(&Request { call: "read", at: "slow", policy: "off", bytes: FILE_BYTES, on_flash: false });
    stopped_in(&Request { call: "read", at: "flash", policy: "off", bytes: 16 * REQUEST, on_flash: true });
}

#[test]
fn a_rank_stopped_in_a_write_to_the_disks_lets_others_write() {
    stopped_in(&Request { call: "write", at: "slow", policy: "off", bytes: FILE_BYTES, on_flash: false });
    stopped_in(&Request { call: "write", at: "slow", policy: "off", bytes: FILE_BYTES, on_flash: true });
}

#[test]
fn a_rank_stopped_in_an_absorbed_write_lets_others_write() {
    for on_flash in [false, true] {
        stopped_in(&Request { call: "write", at: "flash", policy: "s4d", bytes: 4 * REQUEST, on_flash });
    }
}

#[test]
fn a_rank_stopped_in_a_sync_or_an_open_changes_nothing_for_others() {
    stopped_in(&Request { call: "sync", at: "slow", policy: "s4d", bytes: REQUEST, on_flash: true });
    stopped_in(&Request { call: "open", at: "slow", policy: "s4d", bytes: REQUEST, on_flash: true });
}

/// A file beside the managed directory, which Headstart does not see.
fn plain(name: &str) -> PathBuf {
    managed().with_file_name("plain").join(name)
}

fn part(thread: usize) -> impl Iterator<Item = u64> {
    (0..COUNT).map(move |block| ((thread * COUNT + block) * REQUEST) as u64)
}

/// A thread that writes its part of the file again and again, and reads it; the last generation.
fn write_until_told(file: &File, thread: usize) -> u64 {
    let mut found = vec![0; REQUEST];
    for generation in 1.. {
        for offset in part(thread) {
            file.write_all_at(&content(generation, offset, REQUEST), offset).unwrap();
        }
        let offset = part(thread).nth(generation as usize % COUNT).unwrap();
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == content(generation, offset, REQUEST), "wrong bytes at {offset}");
        fs::write(plain(&format!("new {thread}")), generation.to_string()).unwrap();
        fs::rename(plain(&format!("new {thread}")), plain(&format!("round {thread}"))).unwrap();
        if plain("stop").exists() {
            return generation;
        }
    }
    unreachable!()
}

fn is_right(file: &File, generations: &[u64]) {
    let mut found = vec![0; REQUEST];
    for (thread, &generation) in generations.iter().enumerate() {
        for offset in part(thread) {
            file.read_exact_at(&mut found, offset).unwrap();
            assert!(found == content(generation, offset, REQUEST), "wrong bytes at {offset}");
        }
    }
}

/// The last generation of each thread.
fn generations(directory: &Path) -> Vec<u64> {
    let of = |thread| fs::read_to_string(directory.join(format!("round {thread}"))).unwrap().parse().unwrap();
    (0..RANKS).map(of).collect()
}

fn play_writers(role: &str) {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(managed().join("f")).unwrap();
    if role == "check" {
        return is_right(&file, &generations(&plain("")));
    }
    file.set_len(FILE_BYTES as u64).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..RANKS {
            let file = &file;
            scope.spawn(move || write_until_told(file, thread));
        }
    });
}

#[test]
fn an_agent_that_is_stopped_for_seconds_while_threads_write_loses_nothing() {
    let test = "an_agent_that_is_stopped_for_seconds_while_threads_write_loses_nothing";
    if let Some(role) = role() {
        return play_writers(&role);
    }
    for kills in [false, true] {
        let site = TestSite::with_capacity("16MiB");
        let plain = site.path("plain");
        let mut writing = site.play(&["--keep-dirty"], test, "write").spawn().unwrap();
        let has_begun = |thread| plain.join(format!("round {thread}")).exists();
        wait_for("all threads write", || (0..RANKS).all(has_begun));
        for _ in 0..2 {
            let agent = site.agent().expect("an agent runs");
            kill(agent, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_secs(2));
            if kills {
                kill(agent, Signal::SIGKILL);
            }
            kill(agent, Signal::SIGCONT);
            let before = generations(&plain);
            wait_for("all threads go on", || generations(&plain).iter().zip(&before).all(|(now, then)| now > then));
        }
        fs::write(plain.join("stop"), b"").unwrap();
        wait_for("the writers end", || writing.try_wait().unwrap().is_some());
        assert!(writing.wait().unwrap().success());
        assert!(site.figure("/requests/absorbed_requests_total") > 0, "flash took no part");
        site.played(&["--keep-dirty"], test, "check");
        site.succeed(&["drain", text(&site.slow.join("f"))]);
        is_right(&File::open(site.slow.join("f")).unwrap(), &generations(&plain));
    }
}
