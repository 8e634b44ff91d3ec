//! `headstart run`, `drain` and `stop`: exit statuses, dirty bytes that are kept, and what survives whom.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use headstart_protocol::counters::{RequestCounters, families};
use headstart_protocol::message::{Envelope, Reply, Request};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, recv, send, socket};
use site::{HEADSTART, TestSite, content, managed, role, wait_for};

/// Bytes of the file that the roles write and read.
const LENGTH: usize = 300_000;
const PIECE: usize = 3000;

/// Roles: `write N` writes generation N in small pieces, `read N` expects it; `wait` waits for the file `go`
/// beside the site.
fn play() {
    let role = role().unwrap();
    let (verb, generation) = role.split_once(' ').unwrap();
    let generation = generation.parse().unwrap();
    let path = managed().join("a");
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    for offset in (0..LENGTH).step_by(PIECE) {
        let expected = content(generation, offset as u64, PIECE);
        match verb {
            "write" | "write-wait" => file.write_all_at(&expected, offset as u64).unwrap(),
            _ => {
                let mut found = vec![0; PIECE];
                file.read_exact_at(&mut found, offset as u64).unwrap();
                assert!(found == expected, "wrong bytes at {offset}");
            }
        }
    }
    if verb == "write-wait" {
        fs::write(managed().with_file_name("written"), b"").unwrap();
        loop {
            std::thread::park();
        }
    }
}

fn whole(generation: u64) -> Vec<u8> {
    (0..LENGTH).step_by(PIECE).flat_map(|offset| content(generation, offset as u64, PIECE)).collect()
}

/// A site whose file `a` is at generation 0 on disk, and of which nothing is written back before it is asked for.
fn prepared() -> TestSite {
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    site
}

fn on_disk(site: &TestSite) -> Vec<u8> {
    fs::read(site.slow.join("a")).unwrap()
}

#[test]
fn the_programs_exit_status_is_that_of_run() {
    let site = prepared();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9), ("kill -TERM $$", 128 + 15)] {
        for switch in ["on", "off"] {
            let mut command = site.command(HEADSTART);
            command.env("HEADSTART", switch).args(["run", "--", "sh", "-c", script]);
            assert_eq!(command.status().unwrap().code(), Some(status), "{script}, {switch}");
        }
    }
}

#[test]
fn a_report_that_cannot_be_written_is_named_before_the_program_starts() {
    let site = prepared();
    let ran = site.path("ran");
    let report = site.slow.join("a/report");
    site.fail(125, &["run", "--report", report.to_str().unwrap(), "--", "touch", ran.to_str().unwrap()], &["slow/a"]);
    assert!(!ran.exists());
}

#[test]
fn a_program_has_no_descriptor_of_headstart_s() {
    let site = prepared();
    let list = ["-c", "ls /proc/$$/fd"];
    let plain = String::from_utf8(site.command("sh").args(list).output().unwrap().stdout).unwrap();
    assert_eq!(site.succeed(&[&["run", "--", "sh"], &list[..]].concat()), plain);
}

#[test]
fn of_a_file_that_a_program_makes_a_share_goes_to_flash_as_it_grows() {
    let test = "of_a_file_that_a_program_makes_a_share_goes_to_flash_as_it_grows";
    const BLOCK: u64 = 16384;
    let content = |block: u64| content(1, block * BLOCK, BLOCK as usize);
    if role().is_some() {
        let file = fs::File::create(managed().join("new")).unwrap();
        let enough = managed().with_file_name("enough");
        for block in (0..).take_while(|_| !enough.exists()) {
            file.write_all_at(&content(block), block * BLOCK).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        return;
    }
    let site = TestSite::with_capacity("20%");
    let mut program = site.play(&[], test, "program").spawn().unwrap();
    wait_for("some of it is on flash", || {
        site.agent().is_some() && site.figure("/agent/absorbed_bytes_total") > 4 * BLOCK
    });
    fs::write(site.path("enough"), b"").unwrap();
    assert!(program.wait().unwrap().success());
    let found = fs::read(site.slow.join("new")).unwrap();
    let expected: Vec<u8> = (0..found.len() as u64 / BLOCK).flat_map(content).collect();
    assert!(found.len() > 8 * BLOCK as usize && found == expected);
}

#[test]
fn headstart_off_runs_the_program_without_agent_and_library() {
    let test = "headstart_off_runs_the_program_without_agent_and_library";
    if role().is_some() {
        return;
    }
    let site = prepared();
    fs::remove_file(&site.file).unwrap();
    let mut command = site.command(HEADSTART);
    let output = command.env("HEADSTART", "off").args(["run", "--", "sh", "-c", "echo $LD_PRELOAD."]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b".\n".to_vec()), "{test}");
    assert!(!site.runtime_base().exists());
}

#[test]
fn without_options_everything_is_on_disk_when_run_ends() {
    let test = "without_options_everything_is_on_disk_when_run_ends";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    let report = site.path("report.json");
    site.played(&["--report", report.to_str().unwrap()], test, "write 1");
    assert!(on_disk(&site) == whole(1));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["exit_status"], 0);
    assert_eq!(report["dirty_bytes"], 0);
    assert!(report["requests"]["absorbed_bytes_total"].as_u64().unwrap() >= LENGTH as u64, "{report:#}");
}

#[test]
fn kept_dirty_bytes_outlive_the_agent_and_are_written_back_by_a_drain() {
    let test = "kept_dirty_bytes_outlive_the_agent_and_are_written_back_by_a_drain";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    site.played(&["--keep-dirty"], test, "write 1");
    assert!(site.figure("/dirty_bytes") >= LENGTH as u64 && on_disk(&site) == whole(0));
    site.fail(125, &["stop"], &["not on disk yet", "headstart drain", "--keep-dirty"]);
    site.succeed(&["stop", "--keep-dirty"]);
    assert_eq!(site.agent(), None);
    site.played(&["--keep-dirty"], test, "read 1");
    assert!(on_disk(&site) == whole(0), "nothing was written back");
    site.succeed(&["drain"]);
    assert!(on_disk(&site) == whole(1));
    assert_eq!(site.figure("/dirty_bytes"), 0);
}

#[test]
fn dirty_bytes_survive_an_agent_that_is_killed() {
    let test = "dirty_bytes_survive_an_agent_that_is_killed";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    for generation in 1..4 {
        site.played(&["--keep-dirty"], test, &format!("write {generation}"));
        site.kill_agent();
        site.played(&["--keep-dirty"], test, &format!("read {generation}"));
    }
    site.kill_agent();
    site.succeed(&["drain"]);
    assert!(on_disk(&site) == whole(3));
}

#[test]
fn kept_dirty_bytes_survive_the_loss_of_memory() {
    let test = "kept_dirty_bytes_survive_the_loss_of_memory";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    site.played(&["--keep-dirty"], test, "write 1");
    site.kill_agent();
    fs::remove_dir_all(site.runtime_base()).unwrap();
    site.played(&["--keep-dirty"], test, "read 1");
    site.succeed(&["drain"]);
    assert!(on_disk(&site) == whole(1));
}

#[test]
fn a_terminated_agent_leaves_dirty_bytes_durable() {
    let test = "a_terminated_agent_leaves_dirty_bytes_durable";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    // The program is killed, so that nobody else asks for a barrier.
    let mut run = start(&site, &["--keep-dirty"], test, "write-wait 1");
    wait_for("the program has written", || site.path("written").exists());
    let agent = site.agent().unwrap();
    site::kill(agent, Signal::SIGTERM);
    wait_for("the agent has ended", || site::has_ended(agent));
    site::kill(-(run.id() as i32), Signal::SIGKILL);
    run.wait().unwrap();
    fs::remove_dir_all(site.runtime_base()).unwrap();
    site.played(&["--keep-dirty"], test, "read 1");
}

/// Writes and removes files until it is killed, or refused as its agent has ended.
fn keep_busy() {
    let work = |thread: usize| {
        for round in 0u64.. {
            let path = managed().join(format!("{thread}.{}", round % 5));
            let written = fs::write(&path, content(1, round, 3000 + round as usize % 7000));
            if written.is_err() || (round % 3 == 0 && fs::remove_file(&path).is_err()) {
                return;
            }
        }
    };
    std::thread::scope(|scope| (0..6).for_each(|thread| drop(scope.spawn(move || work(thread)))));
}

#[test]
fn an_agent_terminated_while_programs_write_and_remove_files_ends() {
    let test = "an_agent_terminated_while_programs_write_and_remove_files_ends";
    if role().is_some() {
        return keep_busy();
    }
    for round in 0..20 {
        let site = TestSite::with_capacity("256KiB");
        let mut run = start(&site, &["--keep-dirty"], test, "busy");
        wait_for("programs write", || site.slow.join("0.4").exists());
        let agent = site.agent().unwrap();
        site::kill(agent, Signal::SIGTERM);
        wait_for(&format!("the agent of round {round} has ended"), || site::has_ended(agent));
        site::kill(-(run.id() as i32), Signal::SIGKILL);
        run.wait().unwrap();
    }
}

#[test]
fn drain_of_one_file_leaves_the_others_dirty() {
    let test = "drain_of_one_file_leaves_the_others_dirty";
    if role().is_some() {
        for name in ["a", "b"] {
            fs::write(managed().join(name), content(1, 0, 5000)).unwrap();
        }
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "program");
    assert_eq!(site.figure("/dirty_bytes"), 10_000);
    fs::hard_link(site.slow.join("a"), site.slow.join("other-name")).unwrap();
    site.succeed(&["drain", site.slow.join("other-name").to_str().unwrap()]);
    assert_eq!(site.figure("/dirty_bytes"), 5000);
    assert!(on_disk(&site) == content(1, 0, 5000));
    assert!(fs::read(site.slow.join("b")).unwrap() != content(1, 0, 5000));
    site.fail(125, &["drain", site.slow.to_str().unwrap()], &["is a directory"]);
    site.fail(125, &["drain", "/etc/passwd"], &["/etc/passwd", "does not lie in the slow directory"]);
    site.fail(125, &["drain", "/no/such/file"], &["/no/such/file"]);
}

#[test]
fn without_a_policy_nothing_goes_to_flash_but_what_is_there_is_found() {
    let test = "without_a_policy_nothing_goes_to_flash_but_what_is_there_is_found";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    site.played(&["--keep-dirty"], test, "write 1");
    let absorbed = site.figure("/agent/absorbed_requests_total");
    site.played(&["--keep-dirty", "--policy", "off"], test, "read 1");
    assert!(on_disk(&site) == whole(0));
    site.played(&["--policy", "off"], test, "write 2");
    assert_eq!(site.figure("/agent/absorbed_requests_total"), absorbed);
    assert!(on_disk(&site) == whole(2));
    site.played(&["--policy", "off"], test, "read 2");
}

#[test]
fn two_runs_at_once_start_one_agent() {
    let test = "two_runs_at_once_start_one_agent";
    if role().is_some() {
        return play();
    }
    for _ in 0..5 {
        let site = prepared();
        let runs: Vec<Child> = (0..4)
            .map(|_| site.play(&[], test, "write 1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        for run in runs {
            let output = run.wait_with_output().unwrap();
            assert!(output.status.success(), "{}\n{}", output.status, site.say(&output));
        }
        assert!(on_disk(&site) == whole(1));
        let log = fs::read_to_string(site.runtime().join("log")).unwrap();
        assert_eq!(log.matches("serving").count(), 1, "{log}");
    }
}

#[test]
fn figures_of_the_library_and_of_the_agent_agree() {
    let test = "figures_of_the_library_and_of_the_agent_agree";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    site.played(&["--keep-dirty"], test, "write 1");
    let status = site.status();
    let (agent, requests) = (&status["agent"], &status["requests"]);
    let figure = |value: &serde_json::Value| value.as_u64().unwrap();
    assert_eq!(figure(&agent["absorbed_bytes_total"]), LENGTH as u64);
    assert_eq!(requests["absorbed_bytes_total"], agent["absorbed_bytes_total"]);
    assert_eq!(figure(&requests["absorbed_requests_total"]), (LENGTH / PIECE) as u64);
    assert_eq!(figure(&status["dirty_bytes"]), LENGTH as u64);
    site.played(&[], test, "read 1");
    let status = site.status();
    let (agent, requests) = (&status["agent"], &status["requests"]);
    let counted: RequestCounters = serde_json::from_value(requests.clone()).unwrap();
    assert_eq!(counted.sum(&families::REQUEST_BYTES, &[("direction", "read")]), LENGTH as u64);
    assert_eq!(figure(&agent["written_back_bytes_total"]), LENGTH as u64);
}

/// Starts a run in a process group of its own, as a shell would.
fn start(site: &TestSite, options: &[&str], test: &str, role: &str) -> Child {
    let mut command = site.play(options, test, role);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(run: &Child) {
    site::kill(-(run.id() as i32), Signal::SIGINT);
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_told_to_end_ends_its_program_and_drains() {
    let test = "a_run_told_to_end_ends_its_program_and_drains";
    if role().is_some() {
        return play();
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let site = prepared();
        let run = start(&site, &[], test, "write-wait 1");
        wait_for("the program has written", || site.path("written").exists());
        site::kill(run.id() as i32, signal);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{}", site.say(&output));
        assert!(on_disk(&site) == whole(1), "what the program wrote is on the disk");
    }
}

#[test]
fn an_interrupted_program_is_drained_and_a_second_interrupt_keeps_what_is_dirty() {
    let test = "an_interrupted_program_is_drained_and_a_second_interrupt_keeps_what_is_dirty";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    let run = start(&site, &[], test, "write-wait 1");
    wait_for("the program has written", || site.path("written").exists());
    interrupt(&run);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 2), "{}", site.say(&output));
    assert!(on_disk(&site) == whole(1), "the first interrupt drains");

    // A disk that takes no bytes: the drain lasts until the second interrupt. The agent's copies are held up
    // by stopping it.
    fs::remove_file(site.path("written")).unwrap();
    let run = start(&site, &[], test, "write-wait 2");
    wait_for("the program has written", || site.path("written").exists());
    let agent = site.agent().unwrap();
    let program = children(run.id()).into_iter().next().expect("the program runs");
    site::kill(agent, Signal::SIGSTOP);
    interrupt(&run);
    wait_for("the program has ended", || !children(run.id()).contains(&program));
    // `run` now waits for the agent's answer to its drain; the interrupt is counted meanwhile.
    wait_for("run asks for the drain", || is_receiving(run.id()));
    interrupt(&run);
    wait_for("the interrupt has arrived", || no_signal_waits(run.id()));
    site::kill(agent, Signal::SIGCONT);
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", site.say(&output));
    if site.figure("/dirty_bytes") > 0 {
        assert!(
            said(&output).contains("stay on flash") && said(&output).contains("headstart drain"),
            "{}",
            said(&output)
        );
    }
    site.succeed(&["drain"]);
    assert!(on_disk(&site) == whole(2));
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).map(|tasks| tasks.flatten().collect::<Vec<_>>());
    let lists = tasks.unwrap_or_default().into_iter().map(|task| fs::read_to_string(task.path().join("children")));
    lists
        .flatten()
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Whether the process's first thread waits in a system call for a socket.
fn is_receiving(pid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.split(' ').next().and_then(|number| number.parse().ok()) == Some(libc::SYS_recvfrom)
}

fn no_signal_waits(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .filter(|line| line.starts_with("SigPnd") || line.starts_with("ShdPnd"))
        .all(|line| line.ends_with("0000"))
}

#[test]
fn status_and_stop_without_an_agent_say_so() {
    let site = prepared();
    assert!(site.succeed(&["status"]).contains("no agent runs"));
    assert_eq!(site.status()["running"], false);
    let output = site.headstart(&["stop"]);
    assert!(output.status.success() && said(&output).contains("no agent runs"));
}

#[test]
fn an_agent_is_not_stopped_under_a_program() {
    let test = "an_agent_is_not_stopped_under_a_program";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    let mut run = start(&site, &[], test, "write-wait 1");
    wait_for("the program has written", || site.path("written").exists());
    site.fail(125, &["stop", "--keep-dirty"], &["threads of programs take part"]);
    interrupt(&run);
    run.wait().unwrap();
    site.succeed(&["stop"]);
}

#[test]
fn a_second_agent_on_the_same_flash_is_refused() {
    let test = "a_second_agent_on_the_same_flash_is_refused";
    if role().is_some() {
        return play();
    }
    let site = prepared();
    site.played(&["--keep-dirty"], test, "write 1");
    let mut other: Command = site.command(HEADSTART);
    other.env("HEADSTART_RUNTIME_BASE", site.path("other-runtime")).args(["drain"]);
    let output = other.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("another agent uses"), "{}", said(&output));
    site.succeed(&["drain"]);
    assert!(on_disk(&site) == whole(1));
}

/// A connection to the agent's socket.
fn connect(site: &TestSite) -> OwnedFd {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    nix::sys::socket::connect(socket.as_raw_fd(), &UnixAddr::new(&site.runtime().join("socket")).unwrap()).unwrap();
    socket
}

fn ask(socket: &OwnedFd, text: &[u8]) {
    let mut packet = Vec::new();
    Request::Control { text }.encode(Envelope { slot: 0, seq: 0 }, &mut packet);
    send(socket.as_raw_fd(), &packet, MsgFlags::empty()).unwrap();
}

/// The next answer; nothing if the agent hung up.
fn answer(socket: &OwnedFd) -> Option<String> {
    let mut packet = vec![0; 256 << 10];
    let length = recv(socket.as_raw_fd(), &mut packet, MsgFlags::empty()).unwrap_or(0);
    match Reply::decode(&packet[..length]) {
        Ok((_, Reply::Control { text })) => Some(String::from_utf8(text.to_vec()).unwrap()),
        _ => None,
    }
}

#[test]
fn an_agent_that_fails_as_it_stops_is_no_success_of_stop() {
    let site = prepared();
    site.succeed(&["run", "--", "true"]);
    let asking = connect(&site);
    ask(&asking, b"{\"command\":\"status\"}");
    let status = answer(&asking).unwrap();
    let agent = site.figure("/pid").to_string();
    site.succeed(&["stop"]);
    drop(asking);
    // In its place one that answers, and then is gone without having taken its socket away.
    let path = site.runtime().join("socket");
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    nix::sys::socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    let status = status.replace(&format!("\"pid\":{agent}"), &format!("\"pid\":{}", process.id()));
    let dying = std::thread::spawn(move || {
        let accepted = nix::sys::socket::accept(listener.as_raw_fd()).unwrap();
        let (mut packet, mut reply) = (vec![0; 4096], Vec::new());
        Reply::Control { text: status.as_bytes() }.encode(Envelope { slot: 0, seq: 0 }, &mut reply);
        recv(accepted, &mut packet, MsgFlags::empty()).unwrap();
        send(accepted, &reply, MsgFlags::empty()).unwrap();
        recv(accepted, &mut packet, MsgFlags::empty()).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        // What a dead process listened on is closed before it is seen dead.
        drop(listener);
        send(accepted, &reply, MsgFlags::empty()).unwrap();
        nix::unistd::close(accepted).unwrap();
    });
    site.fail(125, &["stop", "--keep-dirty"], &["could not be made durable", site.fast.to_str().unwrap()]);
    dying.join().unwrap();
}

#[test]
fn no_answer_is_lost_on_a_client_that_reads_late() {
    let site = prepared();
    site.succeed(&["run", "--", "true"]);
    let late = connect(&site);
    // Far more than a socket holds.
    (0..900).for_each(|_| ask(&late, b"{\"command\":\"status\"}"));
    assert!(site.figure("/pid") > 0, "others are served meanwhile");
    for number in 0..900 {
        assert!(answer(&late).is_some_and(|text| text.contains("capacity_bytes")), "answer {number}");
    }
}

#[test]
fn nonsense_on_the_socket_ends_that_connection_alone() {
    let site = prepared();
    site.succeed(&["run", "--", "true"]);
    let good = connect(&site);
    for packet in [&b""[..], b"\xff", &[0; 5], &[7; 100 << 10]] {
        let bad = connect(&site);
        let _ = send(bad.as_raw_fd(), packet, MsgFlags::empty());
        assert_eq!(answer(&bad), None);
    }
    let bad = connect(&site);
    ask(&bad, b"not JSON");
    assert!(answer(&bad).unwrap().contains("no such command"));
    ask(&good, b"{\"command\":\"status\"}");
    assert!(answer(&good).is_some());
}

#[test]
fn a_status_of_many_files_with_long_names_is_one_packet() {
    let test = "a_status_of_many_files_with_long_names_is_one_packet";
    if role().is_some() {
        for k in 0..300 {
            fs::write(managed().join(format!("{k:0>240}")), b"x").unwrap();
        }
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "program");
    let status = site.status();
    assert_eq!(status["files_dirty"], 300);
    assert!(status["files"].as_array().unwrap().len() >= 20);
    site.succeed(&["drain"]);
}

#[test]
fn what_a_program_reads_is_fetched_although_its_messages_never_pause() {
    let site = prepared();
    fs::write(site.slow.join("b"), whole(0)).unwrap();
    let script = "import os, sys
slow = os.environ['HEADSTART_SLOW']
b, a = os.open(slow + '/b', os.O_RDONLY), os.open(slow + '/a', os.O_RDWR)
os.pwrite(a, b'x' * 3000, 0)
for k in range(16): os.pread(b, 3000, k * 16384)
open(sys.argv[1] + '/begun', 'w').close()
while not os.path.exists(sys.argv[1] + '/fetched'): os.pread(a, 3000, 0)";
    let mut run = site.command(HEADSTART);
    let mut run = run.args(["run", "--", "python3", "-c", script]).arg(site.directory.path()).spawn().unwrap();
    wait_for("it reads from flash", || site.path("begun").exists());
    // Few questions: an agent that heard of nothing but those would have time.
    let fetched = (0..30).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        site.figure("/agent/fetched_bytes_total") > 0
    });
    fs::write(site.path("fetched"), b"").unwrap();
    assert!(run.wait().unwrap().success() && fetched);
}

#[test]
fn what_is_fetched_after_a_foreign_change_is_found_by_the_next_run() {
    let site = prepared();
    let read = "import os, sys, time
a = os.open(os.environ['HEADSTART_SLOW'] + '/a', os.O_RDONLY)
assert len(os.pread(a, 3000, 0)) == 3000
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]): time.sleep(0.005)";
    for times in 1..3 {
        let (mut run, fetched) = (site.command(HEADSTART), site.path(&format!("fetched{times}")));
        let mut run = run.args(["run", "--", "python3", "-c", read]).arg(&fetched).spawn().unwrap();
        wait_for("it is fetched", || {
            site.agent().is_some() && site.figure("/agent/fetched_bytes_total") == times * 3000
        });
        fs::write(&fetched, b"").unwrap();
        assert!(run.wait().unwrap().success());
        if times == 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(site.slow.join("a"), whole(7)).unwrap();
        }
    }
    let before = site.figure("/requests/flash_read_bytes_total");
    site.succeed(&["run", "--", "python3", "-c", read]);
    assert_eq!(site.figure("/requests/flash_read_bytes_total") - before, 3000);
}
