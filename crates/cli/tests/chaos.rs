//! Ranks on three nodes write, read and sync the same files while ranks, agents, nodes and the network fail, at random:
//! every read must find what may be there (`chaos/history.rs`). Prints its seed and takes `SEED=`; `FAULTS=N` makes N.

#[path = "chaos/history.rs"]
mod history;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use history::{Boot, History, Time};
use nodes::Nodes;
use serde_json::Value;
use site::{said, text};

/// As in `chaos/rank.py`.
const OWN_FILES: usize = 3;
const COMMON_FILES: usize = 8;
const REGISTERS: usize = 48;
const BYTES: usize = 1000;

const NODES: usize = 3;
const RANKS_A_NODE: usize = 2;
/// Where nobody says how many faults: about a minute's.
const COUNT: u64 = 15;
/// How long a member may be silent, in seconds, before its programs wait: less than on a real site, to have many such
/// times.
const HOLD_S: u64 = 3;
const MARGIN_S: u64 = 1;
/// A look at those that wait for a node that is gone comes so long after the last one or later: each is an answer of an
/// agent that waits, so that there are the fewer of them the slower the machine is.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Nobody waits for a node that is gone for more looks than that. Its lock has to be given up for a second, then the
/// time has to pass in which its programs might have relied upon something, and the margin; what is done between takes
/// some turns of agents that answer a look each.
const LOOKS_MAX: u32 = 3 * (1 + HOLD_S + MARGIN_S) as u32 * 10;
/// Within this time everybody goes on once nothing fails any more.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    RankKilled,
    AgentKilled,
    /// A node is gone with its memory, and comes back.
    PowerFailure,
    /// The same, but it comes back only when the others have given it up.
    Gone,
    AgentStopped,
    /// As by a scheduler that suspends a job, with everything that runs there.
    NodeStopped,
    /// Two nodes hear nothing of each other.
    CutOff,
    EtcdKilled,
}

const FAULTS: &[Fault] = {
    use Fault::*;
    &[
        RankKilled,
        RankKilled,
        RankKilled,
        AgentKilled,
        AgentKilled,
        AgentKilled,
        PowerFailure,
        PowerFailure,
        AgentStopped,
        NodeStopped,
        CutOff,
    ]
};
/// Those of a run in which nodes are given up; one of them is, whatever the seed.
const FAULTS_WITH_GONE: &[Fault] = {
    use Fault::*;
    &[Gone, Gone, RankKilled, AgentKilled, AgentStopped, CutOff]
};
const FAULTS_WITH_ETCD: &[Fault] = {
    use Fault::*;
    &[RankKilled, AgentKilled, AgentKilled, PowerFailure, AgentStopped, CutOff, EtcdKilled, EtcdKilled]
};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    fn pause(&mut self, least_ms: u64, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(least_ms + self.below(most_ms - least_ms)));
    }
}

fn now() -> Time {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as Time
}

struct Rank {
    node: usize,
    boot: Boot,
    log: PathBuf,
    child: Child,
}

impl Rank {
    /// Its number in its node, once it has written it down.
    fn process(&self) -> Option<String> {
        let log = fs::read_to_string(&self.log).ok()?;
        log.lines().next()?.strip_prefix("P ").map(str::to_string)
    }

    fn said(&self) -> String {
        fs::read_to_string(self.log.with_extension("err")).unwrap_or_default()
    }
}

struct Chaos {
    nodes: Nodes,
    slow: PathBuf,
    /// How many files all nodes use.
    open: usize,
    files: usize,
    random: Random,
    /// By place; a place is a node's.
    ranks: Vec<Option<Rank>>,
    /// A node that is down for longer.
    down: Option<usize>,
    boots: [u32; NODES + 1],
    started: u32,
    /// How often a node was given up by the others.
    given_up: u32,
    history: History,
    /// What fails, each as often as it stands here.
    faults: &'static [Fault],
    counts: BTreeMap<Fault, u32>,
    began: Instant,
    /// When the ranks of a place began to fail to start.
    refused: Vec<Option<Instant>>,
    settings: Vec<(&'static str, String)>,
}

impl Chaos {
    fn up(seed: u64, faults: u64) -> Option<Chaos> {
        let nodes = Nodes::up(NODES, &[])?;
        let (slow, fast) = (nodes.shared.join("slow"), nodes.shared.join("fast"));
        nodes::write_site(&nodes, slow.clone(), fast, "16MiB");
        fs::create_dir(nodes.shared.join("logs")).unwrap();
        let files = COMMON_FILES + faults as usize + OWN_FILES * NODES;
        for file in 0..files {
            fs::write(slow.join(file.to_string()), vec![0; REGISTERS * BYTES]).unwrap();
        }
        let places = NODES * RANKS_A_NODE;
        let settings = vec![
            ("HEADSTART_CLUSTER_HOLD_S", HOLD_S.to_string()),
            ("HEADSTART_CLUSTER_MARGIN_S", MARGIN_S.to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_string()),
        ];
        let mut chaos = Chaos {
            nodes,
            slow,
            open: 0,
            files,
            random: Random(seed),
            ranks: (0..places).map(|_| None).collect(),
            down: None,
            boots: [0; NODES + 1],
            started: 0,
            given_up: 0,
            history: History::default(),
            faults: FAULTS,
            counts: BTreeMap::new(),
            began: Instant::now(),
            refused: vec![None; places],
            settings,
        };
        chaos.open_to_all(COMMON_FILES);
        Some(chaos)
    }

    /// All nodes use so many files from now on.
    fn open_to_all(&mut self, files: usize) {
        self.open = files;
        let (path, fresh) = (self.slow.with_extension("open"), self.slow.with_extension("fresh"));
        fs::write(&fresh, files.to_string()).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    fn headstart(&self, node: usize, words: &[&str]) -> Command {
        let mut command = nodes::headstart(&self.nodes, &node.to_string(), words);
        command.envs(self.settings.iter().map(|(name, value)| (*name, value)));
        command
    }

    fn start(&mut self, place: usize) {
        let node = place / RANKS_A_NODE + 1;
        self.started += 1;
        let log = self.nodes.shared.join("logs").join(self.started.to_string());
        let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/rank.py");
        // Not a random number of the faults', which are to be the same however many ranks start.
        let (number, seed) = (self.started.to_string(), self.started.to_string());
        let words = ["run", "--keep-dirty", "--", "/usr/bin/python3", text(&program)];
        let mut command = self.headstart(node, &words);
        command.args([text(&self.slow), text(&log), &number, &seed, &node.to_string()]);
        let errors = File::create(log.with_extension("err")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(errors.try_clone().unwrap()).stderr(errors).spawn().unwrap();
        self.ranks[place] = Some(Rank { node, boot: (node, self.boots[node]), log, child });
    }

    /// Starts ranks where there are none, and takes in what those that have ended did.
    fn tend(&mut self) {
        for place in 0..self.ranks.len() {
            let Some(rank) = &mut self.ranks[place] else {
                if self.down != Some(place / RANKS_A_NODE + 1) {
                    self.start(place);
                }
                continue;
            };
            if let Some(status) = rank.child.try_wait().unwrap() {
                let rank = self.ranks[place].take().unwrap();
                let said = rank.said();
                // 137: killed; 3: its node was given up; 255: its node went away; 125: its node cannot take part now.
                assert!(matches!(status.code(), Some(0 | 3 | 125 | 137 | 255)), "{place}: {status}\n{said}");
                let refused = status.code() == Some(125);
                let since = self.refused[place].get_or_insert_with(Instant::now).elapsed();
                if !refused {
                    self.refused[place] = None;
                }
                assert!(!refused || since < PATIENCE, "node {} is refused for long: {said}", rank.node);
                self.take(&rank, status.code() == Some(3));
            }
        }
    }

    fn take(&mut self, rank: &Rank, given_up: bool) {
        let log = fs::read_to_string(&rank.log).unwrap_or_default();
        if given_up {
            self.history.given_up(rank.boot, &log);
            // Its next agent is another member.
            if self.boots[rank.node] == rank.boot.1 {
                self.boots[rank.node] += 1;
                self.given_up += 1;
            }
        }
        self.history.take(&format!("rank {}", rank.log.display()), rank.boot, &log, now());
    }

    /// Lets ranks work for a while.
    fn wait(&mut self, least_ms: u64, most_ms: u64) {
        let until = Instant::now() + Duration::from_millis(least_ms + self.random.below(most_ms - least_ms));
        while Instant::now() < until {
            self.tend();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ranks work, and all nodes have something on flash.
    fn begin(&mut self) {
        self.wait(1000, 2000);
        self.flash_takes_part();
    }

    fn flash_takes_part(&mut self) {
        for node in 1..=NODES {
            let began = Instant::now();
            loop {
                let output = self.headstart(node, &["status", "--json"]).output().unwrap();
                let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
                let absorbed = |status: &Value| status.pointer("/agent/absorbed_requests_total")?.as_u64();
                if status.as_ref().and_then(absorbed) > Some(0) {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "node {node}: nothing is absorbed: {status:#?}");
                self.tend();
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn any_node(&mut self) -> usize {
        1 + self.random.below(NODES as u64) as usize
    }

    fn signal_agent(&self, node: usize, signal: &str) {
        self.nodes.sh(&node.to_string(), &format!("pkill -{signal} -f '[h]eadstart agent' || :"));
    }

    /// Half of the times longer than a member may be silent.
    fn for_a_while(&mut self) {
        if self.random.below(2) == 0 {
            self.wait(100, 1000);
        } else {
            self.wait(2000 * HOLD_S, 2000 * HOLD_S + 1000);
        }
    }

    fn fault(&mut self) {
        let fault = self.faults[self.random.below(self.faults.len() as u64) as usize];
        self.fail(fault);
    }

    fn fail(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
        let node = self.any_node();
        let name = node.to_string();
        self.say(&format!("{fault:?}, node {node}"));
        match fault {
            Fault::RankKilled => self.kill_a_rank(),
            Fault::AgentKilled => self.signal_agent(node, "KILL"),
            Fault::PowerFailure => self.power_failure(node),
            Fault::Gone => self.gone(node),
            Fault::AgentStopped => {
                self.signal_agent(node, "STOP");
                self.for_a_while();
                self.signal_agent(node, "CONT");
            }
            Fault::NodeStopped => {
                self.nodes.succeed(&["stop", &name]);
                self.random.pause(100, 3000 * HOLD_S);
                self.nodes.succeed(&["cont", &name]);
            }
            Fault::CutOff => {
                let other = (node % NODES + 1).to_string();
                self.nodes.succeed(&["cut", &name, &other]);
                self.for_a_while();
                self.nodes.succeed(&["heal", &name, &other]);
            }
            Fault::EtcdKilled => {
                self.nodes.sh(&name, "pkill -KILL -x etcd || :");
                self.for_a_while();
                self.nodes.succeed(&["etcd", &name]);
            }
        }
    }

    fn say(&self, what: &str) {
        println!("{:3} s: {what}", self.began.elapsed().as_secs());
    }

    fn kill_a_rank(&mut self) {
        let place = self.random.below(self.ranks.len() as u64) as usize;
        let process = self.ranks[place].as_ref().and_then(|rank| Some((rank.node, rank.process()?)));
        if let Some((node, process)) = process {
            self.nodes.sh(&node.to_string(), &format!("kill -KILL {process} 2>/dev/null || :"));
        }
    }

    fn power_failure(&mut self, node: usize) {
        self.lose(node);
        self.random.pause(10, 1500);
        self.boot(node);
    }

    /// The power of a node fails, and its ranks are gone.
    fn lose(&mut self, node: usize) {
        self.history.failed((node, self.boots[node]), now());
        self.nodes.succeed(&["kill", &node.to_string()]);
        for place in 0..self.ranks.len() {
            if self.ranks[place].as_ref().is_some_and(|rank| rank.node == node) {
                let mut rank = self.ranks[place].take().unwrap();
                rank.child.wait().unwrap();
                self.take(&rank, false);
            }
        }
    }

    fn boot(&mut self, node: usize) {
        self.boots[node] += 1;
        self.nodes.succeed(&["start", &node.to_string()]);
        if self.faults.contains(&Fault::EtcdKilled) {
            self.nodes.succeed(&["etcd", &node.to_string()]);
        }
    }

    /// The power of a node fails for as long as it takes the others to give it up and to go on without it, which is not
    /// for ever: see [`LOOKS_MAX`].
    fn gone(&mut self, node: usize) {
        self.lose(node);
        self.down = Some(node);
        let other = node % NODES + 1;
        // Whoever drains wants what that node has, so that it is waited for.
        let mut drain = self.headstart(other, &["drain"]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut waiting: Vec<(PathBuf, u64)> =
            self.ranks.iter().flatten().map(|rank| (rank.log.clone(), calls_ended(&rank.log))).collect();
        let mut looks = 0;
        loop {
            let is_named = self.names(other, node);
            // Those that were killed, or that have failed, wait for nothing.
            let lives = |log: &PathBuf| self.ranks.iter().flatten().any(|rank| rank.log == *log);
            waiting.retain(|(log, before)| lives(log) && calls_ended(log) == *before);
            if !is_named && waiting.is_empty() {
                break;
            }
            looks += 1;
            assert!(looks <= LOOKS_MAX, "node {node} is still named: {is_named}; {waiting:?} wait for it");
            self.tend();
            std::thread::sleep(LOOK_PERIOD);
        }
        self.say(&format!("node {node} was given up, after {looks} looks of {LOOKS_MAX}"));
        drain.wait().unwrap();
        self.given_up += 1;
        self.down = None;
        self.boot(node);
    }

    /// Whether a node is one of those that have the directory, gone or not, as the agent of another one has it.
    fn names(&self, of: usize, node: usize) -> bool {
        let output = self.headstart(of, &["cluster", "status", "--json"]).output().unwrap();
        let found: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let members = found.as_ref().and_then(|found| found.pointer("/nodes/members")?.as_array());
        // What cannot be looked at has changed nothing.
        let is_it = |member: &Value| member["name"] == format!("node{node}");
        members.is_none_or(|members| members.iter().any(is_it))
    }

    /// Nothing fails any more: all ranks end by themselves, and every node drains and leaves.
    fn end(&mut self) {
        self.wait(1000, 1500);
        self.say("nothing fails any more");
        let began = Instant::now();
        while self.ranks.iter().any(Option::is_some) {
            for place in 0..self.ranks.len() {
                let Some(rank) = &mut self.ranks[place] else { continue };
                fs::write(rank.log.with_extension("end"), "").unwrap();
                let Some(status) = rank.child.try_wait().unwrap() else { continue };
                let rank = self.ranks[place].take().unwrap();
                assert!(matches!(status.code(), Some(0 | 3 | 125)), "{place}: {status}\n{}", rank.said());
                self.take(&rank, status.code() == Some(3));
                // One that began when its node could not take part yet: it can before long.
                if status.code() == Some(125) {
                    self.start(place);
                }
            }
            let waiting: Vec<&PathBuf> = self.ranks.iter().flatten().map(|rank| &rank.log).collect();
            assert!(began.elapsed() < PATIENCE, "ranks wait for ever: {waiting:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.say("all ranks have ended");
        for node in 1..=NODES {
            self.found_by(node);
        }
        self.say("all nodes have looked");
        for words in [["drain"], ["stop"]] {
            for node in 1..=NODES {
                let output = self.headstart(node, &words).output().unwrap();
                assert!(output.status.success(), "node {node}: {words:?}: {}\n{}", output.status, said(&output));
            }
        }
        self.say("all nodes have left");
        for file in 0..self.files {
            let bytes = fs::read(self.slow.join(file.to_string())).unwrap();
            self.take_whole(file as u32, &bytes, "the disk");
        }
    }

    /// What a program on this node finds.
    fn found_by(&mut self, node: usize) {
        let paths: Vec<String> = (0..self.files).map(|file| text(&self.slow.join(file.to_string())).into()).collect();
        let words = ["run", "--keep-dirty", "--", "timeout", "100", "cat"];
        let output = self.headstart(node, &words).args(paths).output().unwrap();
        assert!(output.status.success(), "node {node}: {}", said(&output));
        for (file, bytes) in output.stdout.chunks(REGISTERS * BYTES).enumerate() {
            self.take_whole(file as u32, bytes, &format!("node {node} at the end"));
        }
    }

    fn take_whole(&mut self, file: u32, bytes: &[u8], who: &str) {
        assert_eq!(bytes.len(), REGISTERS * BYTES);
        for (register, bytes) in bytes.chunks(BYTES).enumerate() {
            let mut numbers: Vec<u32> =
                bytes.chunks(4).map(|number| u32::from_ne_bytes(number.try_into().unwrap())).collect();
            numbers.sort_unstable();
            numbers.dedup();
            self.history.found((file, register as u32), numbers, now(), who);
        }
    }
}

/// How many calls of a rank have returned, as its log says.
fn calls_ended(log: &Path) -> u64 {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().filter(|line| line.starts_with("E ")).count() as u64
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// So many faults, with all reads checked at the end.
fn run(chaos: Chaos, seed: u64, faults: u64) {
    let mut chaos = chaos;
    for _ in 0..faults {
        chaos.fault();
        chaos.wait(200, 1500);
        chaos.open_to_all(chaos.open + 1);
    }
    chaos.end();
    let (writes, reads) = chaos.history.counts();
    println!("{:?}; nodes given up: {}; {writes} writes and {reads} reads of registers", chaos.counts, chaos.given_up);
    if let Err(violation) = chaos.history.check() {
        panic!("SEED={seed}: {violation:?}");
    }
}

fn seed() -> u64 {
    let seed = number("SEED").unwrap_or_else(|| now() as u64 % 1_000_000);
    println!("SEED={seed}");
    seed
}

#[test]
fn no_read_is_wrong_while_ranks_agents_nodes_and_the_network_fail() {
    let (seed, faults) = (seed(), number("FAULTS").unwrap_or(COUNT));
    if let Some(mut chaos) = Chaos::up(seed, faults) {
        chaos.begin();
        run(chaos, seed, faults);
    }
}

#[test]
fn no_read_is_wrong_and_nobody_waits_for_ever_while_nodes_are_gone_until_they_are_given_up() {
    let (seed, faults) = (seed(), number("FAULTS").unwrap_or(COUNT) / 3);
    let Some(mut chaos) = Chaos::up(seed, faults + 1) else { return };
    chaos.faults = FAULTS_WITH_GONE;
    chaos.begin();
    chaos.fail(Fault::Gone);
    assert_eq!(chaos.given_up, 1);
    chaos.open_to_all(chaos.open + 1);
    run(chaos, seed, faults);
}

/// Of the nodes' list in etcd, whose members fail one by one.
#[test]
fn no_read_is_wrong_while_members_of_etcd_fail_too() {
    let (seed, faults) = (seed(), number("FAULTS").unwrap_or(COUNT) / 3);
    let Some(mut chaos) = Chaos::up(seed, faults) else { return };
    let Some(endpoints) = chaos.nodes.may(&["etcd"]) else { return };
    let servers: Vec<String> = endpoints.trim().split(',').map(|server| format!("\"{server}\"")).collect();
    chaos.faults = FAULTS_WITH_ETCD;
    chaos.settings.extend([
        ("HEADSTART_CLUSTER_MEMBERSHIP", "etcd".into()),
        ("HEADSTART_CLUSTER_ETCD", format!("[{}]", servers.join(", "))),
        ("HEADSTART_CLUSTER_ETCD_ACCEPT_OLD", "true".into()),
    ]);
    chaos.begin();
    run(chaos, seed, faults);
}
