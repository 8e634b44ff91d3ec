//! A node's lock while its agents and its holder come and go.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_membership::presence::{self, fresh_name, observe};
use headstart_membership::{Holder, LockState, Observed, Places, Presence, holder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::roles::{Process, command, role, told, until};

const HELD: &str = "holders::a_killed_agents_node_stays_present_and_its_copies_are_done";

struct Node {
    directory: tempfile::TempDir,
    places: Places,
}

impl Node {
    fn new() -> Node {
        let directory = tempfile::Builder::new().prefix("headstart-node-").tempdir().unwrap();
        for made in ["fast/.headstart", "slow", "runtime"] {
            std::fs::create_dir_all(directory.path().join(made)).unwrap();
        }
        let places = places(directory.path());
        Node { directory, places }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// An agent in a process of its own, and the name of its locks.
    fn agent(&self, linger_ms: u64) -> (Process, String) {
        let named = self.path().join("named");
        let _ = std::fs::remove_file(&named);
        let agent = Process::start(told_command("agent", self.path(), linger_ms));
        until("an agent that holds its locks", || named.exists());
        (agent, std::fs::read_to_string(&named).unwrap())
    }

    fn observe(&self, name: &str) -> Observed {
        observe(&self.places, name)
    }

    fn holders(&self) -> Vec<i32> {
        let wanted = format!("NODE={}", self.path().display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has = |wanted: &str| environment.split(|&byte| byte == 0).any(|word| word == wanted.as_bytes());
            has(&wanted) && has("HEADSTART_TEST_ROLE=holder")
        })
        .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for pid in self.holders() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn places(node: &Path) -> Places {
    Places::make(&node.join("fast"), &node.join("slow")).unwrap()
}

fn told_command(role: &str, node: &Path, linger_ms: u64) -> std::process::Command {
    let linger = linger_ms.to_string();
    command(HELD, role, &[("NODE", node.as_os_str()), ("LINGER", OsStr::new(&linger))])
}

fn find_or_start(node: &Path, linger_ms: u64) -> headstart_membership::Result<Holder> {
    Holder::find_or_start(&node.join("runtime"), told_command("holder", node, linger_ms))
}

fn be(role: &str) {
    let node: PathBuf = told("NODE");
    let linger_ms = told("LINGER").to_str().unwrap().parse().unwrap();
    if role == "holder" {
        return holder::run(Duration::from_millis(linger_ms)).unwrap();
    }
    let name = fresh_name("node").unwrap();
    let presence = Presence::take(&places(&node), &name).unwrap();
    let holder = find_or_start(&node, linger_ms).unwrap();
    holder.hold(presence.present()).unwrap();
    std::fs::write(node.join("naming"), name).unwrap();
    std::fs::rename(node.join("naming"), node.join("named")).unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_agents_node_stays_present_and_its_copies_are_done() {
    if let Some(role) = role() {
        return be(&role);
    }
    let node = Node::new();
    let (agent, first) = node.agent(600_000);
    assert_eq!(node.observe(&first), Observed { present: LockState::Held, movers: LockState::Held });
    agent.kill();
    // It answers this after it has noticed that the agent is gone.
    drop(find_or_start(node.path(), 600_000).unwrap());
    assert_eq!(node.observe(&first), Observed { present: LockState::Held, movers: LockState::GivenUp });
    let holder = node.holders();
    assert_eq!(holder.len(), 1);
    let (agent, second) = node.agent(600_000);
    assert_eq!(node.holders(), holder, "the next agent found it");
    assert_eq!(node.observe(&first).present, LockState::GivenUp, "the agent before is replaced");
    assert_eq!(node.observe(&second), Observed { present: LockState::Held, movers: LockState::Held });
    agent.kill();
    find_or_start(node.path(), 600_000).unwrap().end().unwrap();
    assert_eq!(node.observe(&second).present, LockState::GivenUp);
    until("the end of the holder", || node.holders().is_empty());
    presence::forget(&node.places, &second).unwrap();
    assert!(!node.path().join("runtime/holder").exists());
}

#[test]
fn a_stopped_agent_keeps_its_locks_and_copies_count_as_under_way() {
    let node = Node::new();
    let (agent, name) = node.agent(600_000);
    agent.signal(Signal::SIGSTOP);
    assert_eq!(node.observe(&name), Observed { present: LockState::Held, movers: LockState::Held });
    agent.kill();
    assert_eq!(node.observe(&name).movers, LockState::GivenUp);
}

#[test]
fn a_killed_holder_gives_nothing_up_under_a_living_agent_which_notices() {
    let node = Node::new();
    let name = fresh_name("node").unwrap();
    let presence = Presence::take(&node.places, &name).unwrap();
    let holder = find_or_start(node.path(), 600_000).unwrap();
    holder.hold(presence.present()).unwrap();
    let [pid] = node.holders()[..] else { panic!("there is one holder") };
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let mut descriptors = [PollFd::new(holder.descriptor(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut descriptors, PollTimeout::from(60_000_u16)).unwrap(), 1, "its connection hangs up");
    assert_eq!(node.observe(&name).present, LockState::Held);
    assert!(holder.hold(presence.present()).is_err());
    let holder = find_or_start(node.path(), 600_000).unwrap();
    holder.hold(presence.present()).unwrap();
    drop(presence);
    // Processes that other tests start have copies of descriptors until they are the programs they are to be.
    until("copies that are done", || node.observe(&name).movers == LockState::GivenUp);
    assert_eq!(node.observe(&name).present, LockState::Held);
    holder.end().unwrap();
    until("a node that is gone", || node.observe(&name).present == LockState::GivenUp);
}

#[test]
fn a_holder_whose_agent_does_not_come_back_ends() {
    let node = Node::new();
    let (agent, name) = node.agent(200);
    agent.kill();
    until("the end of the holder", || node.observe(&name).present == LockState::GivenUp);
    until("nothing that runs on", || node.holders().is_empty());
}

#[test]
fn a_stopped_holder_is_named_and_the_agent_goes_on_without() {
    let node = Node::new();
    let name = fresh_name("node").unwrap();
    let presence = Presence::take(&node.places, &name).unwrap();
    let holder = find_or_start(node.path(), 600_000).unwrap();
    let [pid] = node.holders()[..] else { panic!("there is one holder") };
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    let error = holder.hold(presence.present()).unwrap_err().to_string();
    assert!(error.contains("runtime/holder") && error.contains("stopped"), "{error}");
    assert_eq!(node.observe(&name).present, LockState::Held);
}

#[test]
fn a_holder_that_cannot_start_is_an_error_and_no_answer_is_waited_for() {
    let node = Node::new();
    let error = Holder::find_or_start(&node.path().join("runtime"), std::process::Command::new("/bin/false"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    let error = Holder::find_or_start(&node.path().join("runtime"), std::process::Command::new("/no/such/program"));
    assert!(error.is_err());
}
