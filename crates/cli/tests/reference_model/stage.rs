//! The process that leads the run: gives every worker something to do at once, kills some of them, and
//! compares what they saw with the model. It has no managed file open itself.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::model::Object;
use super::operation::{Means, Opening, Operation, Outcome, receive, send};
use super::worker::SLOTS;
use crate::site::{self, HEADSTART, ROLE, content, wait_for};

pub const WORKERS: usize = 8;
pub const NAMES: usize = 6;
pub const SIZE_MAX: u64 = 300_000;
/// Operations told when something is wrong.
const HISTORY: usize = 2000;
/// An agent is left to live longer than `headstart run` calls no help.
const AGENT_LIFE: Duration = Duration::from_millis(200);

/// Begins the line on standard output that says how many operations were answered, how many kills there were,
/// and how many of them were agents.
pub const TALLY: &str = "tally: ";

/// What a run is to be.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub seed: u64,
    pub operations: u64,
    pub kills: u64,
    /// Whether agents are killed too.
    pub agents_die: bool,
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        (!choices.is_empty()).then(|| choices[self.below(choices.len() as u64) as usize])
    }
}

/// A descriptor of a worker.
#[derive(Clone, Copy, Debug)]
struct Open {
    object: usize,
    appends: bool,
}

struct Worker {
    child: Child,
    stream: UnixStream,
    slots: [Option<Open>; SLOTS],
}

impl Worker {
    fn start(test: &str) -> Worker {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, "worker")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Worker { child, stream: ours, slots: [None; SLOTS] }
    }

    /// The outcome and the bytes read; none if the worker died first.
    fn outcome(&mut self) -> Option<(Outcome, Vec<u8>)> {
        let outcome = receive(&mut self.stream).ok()?;
        let mut bytes = vec![0; if let Outcome::Bytes(count) = outcome { count } else { 0 }];
        self.stream.read_exact(&mut bytes).ok()?;
        Some((outcome, bytes))
    }
}

/// What a round already does, so that only what commutes, or may race, is added.
#[derive(Default)]
struct Claims {
    names: Vec<usize>,
    /// Objects with an operation that changes the size or the names.
    alone: Vec<usize>,
    /// Objects with any operation.
    used: Vec<usize>,
    writes: Vec<(usize, u64, u64)>,
    raced: Vec<usize>,
}

pub struct Stage {
    random: Random,
    script: Script,
    test: &'static str,
    workers: Vec<Worker>,
    objects: Vec<Object>,
    names: [Option<usize>; NAMES],
    /// Objects of which something is in doubt.
    doubtful: BTreeSet<usize>,
    tag: u64,
    done: u64,
    killed: u64,
    agent_killed: Instant,
    agents_killed: u64,
    /// What happened lately, told when something is wrong.
    history: VecDeque<String>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.history.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Stage {
    pub fn play(script: Script, test: &'static str) {
        let workers = (0..WORKERS).map(|_| Worker::start(test)).collect();
        let mut stage = Stage {
            random: Random(script.seed),
            script,
            test,
            workers,
            objects: Vec::new(),
            names: [None; NAMES],
            doubtful: BTreeSet::new(),
            tag: 1,
            done: 0,
            killed: 0,
            agent_killed: Instant::now(),
            agents_killed: 0,
            history: VecDeque::new(),
        };
        while stage.done < script.operations {
            stage.round();
        }
        println!("{TALLY}{} {} {}", stage.done, stage.killed, stage.agents_killed);
        stage.finish();
    }

    fn round(&mut self) {
        let mut claims = Claims::default();
        let mut asked: Vec<Option<Operation>> = Vec::new();
        for worker in 0..WORKERS {
            let operation = (0..8).find_map(|_| self.choose(worker, &mut claims));
            if let Some(operation) = &operation {
                send(&mut self.workers[worker].stream, operation).unwrap();
            }
            asked.push(operation);
        }
        let victim = self.kill(&asked);
        let answers: Vec<_> =
            (0..WORKERS).map(|worker| asked[worker].as_ref().and_then(|_| self.workers[worker].outcome())).collect();
        if let Some(worker) = victim {
            let status = self.workers[worker].child.wait().unwrap();
            assert_eq!(status.signal(), Some(libc::SIGKILL), "worker {worker}: {status}");
            settle();
        }
        self.apply(&asked, answers, victim);
        if let Some(worker) = victim {
            self.workers[worker] = Worker::start(self.test);
        }
        self.resolve();
    }

    fn note(&mut self, what: String) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(format!("after {}: {what}", self.done));
    }

    /// Kills a worker or the agent, now and then, some time into the round; the worker killed.
    fn kill(&mut self, asked: &[Option<Operation>]) -> Option<usize> {
        let (Script { operations, kills, .. }, done) = (self.script, self.done);
        if kills == 0 || self.killed >= kills || self.killed * operations > done * kills {
            return None;
        }
        std::thread::sleep(Duration::from_micros(self.random.below(600)));
        // One that is killed as soon as it serves, again and again, is not followed for ever.
        if self.script.agents_die && self.agent_killed.elapsed() > AGENT_LIFE && self.random.below(3) == 0 {
            let agent = nix::unistd::Pid::from_raw(agent());
            nix::sys::signal::kill(agent, nix::sys::signal::Signal::SIGKILL).expect("the agent lived");
            self.agent_killed = Instant::now();
            self.agents_killed += 1;
            self.killed += 1;
            self.note("the agent is killed".into());
            return None;
        }
        // A child would outlive its parent, and nobody could say when it is done. Of a name that was removed
        // and not spoken of nobody can say whether it was removed or moved: its bytes are kept, and the run
        // does not end well.
        let spared = |operation: &Operation| {
            let by_child = matches!(operation, Operation::Write { means: Means::Child, .. });
            by_child || matches!(operation, Operation::Unlink { .. } | Operation::Rename { .. })
        };
        let may_die: Vec<usize> = (0..WORKERS).filter(|&w| asked[w].as_ref().is_some_and(|o| !spared(o))).collect();
        let victim = self.random.one_of(&may_die)?;
        self.workers[victim].child.kill().unwrap();
        self.killed += 1;
        self.note(format!("worker {victim} is killed"));
        Some(victim)
    }

    fn choose(&mut self, worker: usize, claims: &mut Claims) -> Option<Operation> {
        let slots = self.workers[worker].slots;
        let slot = self.random.below(SLOTS as u64) as usize;
        let Some(open) = slots[slot] else { return self.choose_open(slot, claims) };
        let size = self.objects[open.object].size();
        let offset = self.random.below(SIZE_MAX);
        let length = match self.random.below(5) {
            0 => 1 + self.random.below(60),
            1 => 4096,
            2 => 65536,
            _ => 1 + self.random.below(20_000),
        };
        let means = Means::ALL[self.random.below(Means::ALL.len() as u64) as usize];
        match self.random.below(100) {
            _ if open.appends && self.random.below(2) == 0 => {
                claims.alone(open.object).then(|| self.append(slot, length as usize))
            }
            0..40 if !open.appends => {
                let fits = offset + length <= size;
                let allowed = if fits {
                    claims.write(open.object, offset, offset + length, &mut self.random)
                } else {
                    offset + length <= SIZE_MAX && claims.alone(open.object)
                };
                self.tag += 1;
                let means = if means == Means::Child && self.random.below(4) != 0 { Means::Positioned } else { means };
                allowed.then_some(Operation::Write { slot, offset, length: length as usize, tag: self.tag, means })
            }
            0..75 => {
                claims.shared(open.object).then_some(Operation::Read { slot, offset, length: length as usize, means })
            }
            75..79 => claims.alone(open.object).then_some(Operation::Resize { slot, size: offset }),
            79..80 => self.choose_name(claims, |name, _| Operation::ResizeByName { name, size: offset }),
            80..84 => Some(Operation::Sync { slot, data_only: offset.is_multiple_of(2) }),
            84..88 => claims.shared(open.object).then_some(Operation::Size { slot }),
            88..90 => self.choose_name(claims, |name, _| Operation::SizeByName { name }),
            90..96 => Some(Operation::Close { slot }),
            96..98 => {
                let to = self.random.below(NAMES as u64) as usize;
                if claims.names.contains(&to) {
                    return None;
                }
                let chosen = self.choose_name(claims, |from, _| Operation::Rename { from, to })?;
                claims.names.push(to);
                (!matches!(chosen, Operation::Rename { from, to } if from == to)).then_some(chosen)
            }
            _ => self.choose_name(claims, |name, _| Operation::Unlink { name }),
        }
    }

    /// An operation on a name that exists; its object is not used by anything else in the round.
    fn choose_name(&mut self, claims: &mut Claims, make: impl Fn(usize, usize) -> Operation) -> Option<Operation> {
        let named: Vec<usize> = (0..NAMES).filter(|&name| self.names[name].is_some()).collect();
        let name = self.random.one_of(&named)?;
        let object = self.names[name]?;
        if claims.names.contains(&name) || !claims.alone(object) {
            return None;
        }
        claims.names.push(name);
        Some(make(name, object))
    }

    fn choose_open(&mut self, slot: usize, claims: &mut Claims) -> Option<Operation> {
        let name = self.random.below(NAMES as u64) as usize;
        let truncate = self.random.below(12) == 0;
        let opening = match self.random.below(8) {
            0 => Opening::Append,
            1 => Opening::Synchronous,
            _ => Opening::Plain,
        };
        if claims.names.contains(&name) {
            return None;
        }
        let free = match self.names[name] {
            Some(object) if truncate => claims.alone(object),
            Some(object) => claims.shared(object),
            None => true,
        };
        claims.names.push(name);
        free.then_some(Operation::Open { slot, name, opening, truncate })
    }

    fn append(&mut self, slot: usize, length: usize) -> Operation {
        self.tag += 1;
        Operation::Append { slot, length, tag: self.tag, vectored: length.is_multiple_of(2) }
    }

    /// Brings the model to where the round left the files; then checks what was read.
    fn apply(&mut self, asked: &[Option<Operation>], answers: Vec<Option<(Outcome, Vec<u8>)>>, victim: Option<usize>) {
        let before: Vec<[Option<Open>; SLOTS]> = self.workers.iter().map(|worker| worker.slots).collect();
        let racing = self.racing(asked, &before);
        // What was read is checked against the files as they were before, or with what was written meanwhile.
        for (worker, answer) in answers.iter().enumerate() {
            let Some(operation) = &asked[worker] else { continue };
            let object = match operation {
                Operation::Open { name, .. } | Operation::ResizeByName { name, .. } => self.names[*name],
                Operation::SizeByName { name } | Operation::Unlink { name } => self.names[*name],
                Operation::Rename { from, .. } => self.names[*from],
                _ => operation.slot().map(|slot| before[worker][slot].unwrap().object),
            };
            let outcome = answer.as_ref().map(|(outcome, _)| outcome);
            self.note(format!("worker {worker}, object {object:?}: {operation:?}: {outcome:?}"));
            let Some((outcome, bytes)) = answer else { continue };
            self.done += 1;
            if let Outcome::Failed(error) = outcome {
                panic!("worker {worker}: {operation:?}: {error}");
            }
            let object = |slot: usize| before[worker][slot].unwrap().object;
            match (operation, outcome) {
                (&Operation::Read { slot, offset, length, .. }, _) => {
                    let races: Vec<_> = racing
                        .iter()
                        .filter(|race| race.0 == object(slot))
                        .map(|race| (race.1, race.2.clone()))
                        .collect();
                    let context = format!("worker {worker}: {operation:?} of object {}", object(slot));
                    with_context(&context, || self.objects[object(slot)].check(offset, bytes, length, &races));
                }
                (&Operation::Size { slot }, &Outcome::Size(size)) => {
                    assert_eq!(size, self.objects[object(slot)].size(), "worker {worker}: {operation:?}");
                }
                (&Operation::SizeByName { name }, &Outcome::Size(size)) => {
                    assert_eq!(size, self.objects[self.names[name].unwrap()].size(), "worker {worker}: {operation:?}");
                }
                _ => {}
            }
        }
        let mut written: Vec<(usize, u64, u64)> = Vec::new();
        // What is in doubt comes last: to find out, workers are asked through what they have open after the round.
        for certain in [true, false] {
            for (worker, _) in answers.iter().enumerate().filter(|(_, answer)| answer.is_some() == certain) {
                if let Some(operation) = &asked[worker] {
                    self.change(worker, operation, certain, &mut written);
                }
            }
        }
        if let Some(victim) = victim {
            self.workers[victim].slots = [None; SLOTS];
        }
    }

    fn racing(&self, asked: &[Option<Operation>], slots: &[[Option<Open>; SLOTS]]) -> Vec<(usize, u64, Vec<u8>)> {
        let writes = asked.iter().enumerate().filter_map(|(worker, operation)| match operation {
            Some(Operation::Write { slot, offset, length, tag, .. }) => {
                Some((slots[worker][*slot].unwrap().object, *offset, content(*tag, *offset, *length)))
            }
            _ => None,
        });
        writes.collect()
    }

    /// What an operation did to the model; it is in doubt if its worker died before it answered.
    fn change(&mut self, worker: usize, operation: &Operation, certain: bool, written: &mut Vec<(usize, u64, u64)>) {
        let slots = self.workers[worker].slots;
        let object = |slot: usize| slots[slot].unwrap().object;
        match *operation {
            Operation::Open { slot, name, opening, truncate } => {
                let object = self.names[name];
                if !certain {
                    self.doubtful_open(name, truncate);
                    return;
                }
                let object = object.unwrap_or_else(|| self.create(name));
                if truncate {
                    self.objects[object].resize(0);
                }
                self.workers[worker].slots[slot] = Some(Open { object, appends: opening == Opening::Append });
            }
            Operation::Close { slot } => self.workers[worker].slots[slot] = None,
            Operation::Write { slot, offset, length, tag, .. } => {
                let (object, end) = (object(slot), offset + length as u64);
                let raced = written.iter().any(|&(other, from, to)| other == object && from < end && offset < to);
                written.push((object, offset, end));
                self.write(object, offset, &content(tag, offset, length), certain && !raced);
            }
            Operation::Append { slot, length, tag, .. } => {
                let end = self.objects[object(slot)].size();
                self.write(object(slot), end, &content(tag, 0, length), certain);
            }
            Operation::Resize { slot, size } => self.resize(object(slot), size, certain),
            Operation::ResizeByName { name, size } => self.resize(self.names[name].unwrap(), size, certain),
            Operation::Rename { from, to } => self.names[to] = self.names[from].take(),
            Operation::Unlink { name } => self.names[name] = None,
            Operation::Read { .. } | Operation::Sync { .. } | Operation::Size { .. } | Operation::SizeByName { .. } => {
            }
        }
    }

    fn doubtful_open(&mut self, name: usize, truncate: bool) {
        match self.names[name] {
            Some(object) if truncate => self.resize(object, 0, false),
            None if exists(name) => drop(self.create(name)),
            _ => {}
        }
    }

    fn create(&mut self, name: usize) -> usize {
        self.objects.push(Object::default());
        let object = self.objects.len() - 1;
        self.names[name] = Some(object);
        object
    }

    fn write(&mut self, object: usize, offset: u64, bytes: &[u8], certain: bool) {
        if certain {
            self.objects[object].write(offset, bytes);
        } else {
            self.objects[object].may_have_written(offset, bytes);
            self.doubtful.insert(object);
        }
    }

    /// A worker that died in it left one size or the other.
    fn resize(&mut self, object: usize, size: u64, certain: bool) {
        if certain {
            return self.objects[object].resize(size);
        }
        let before = self.objects[object].size();
        let Some(found) = self.size_of(object) else { return };
        assert!(
            found == before || found == size,
            "size {found} after a resize from {before} to {size} that was cut short"
        );
        self.objects[object].resize(found);
    }

    fn lives(&mut self, worker: usize) -> bool {
        self.workers[worker].child.try_wait().unwrap().is_none()
    }

    /// A living worker that has the object open. One that was killed in this round keeps its slots until the
    /// round is over.
    fn seen_through(&mut self, object: usize) -> Option<(usize, usize)> {
        (0..WORKERS).find_map(|worker| {
            let mut slots = self.workers[worker].slots.iter();
            let slot = slots.position(|slot| slot.is_some_and(|open| open.object == object))?;
            self.lives(worker).then_some((worker, slot))
        })
    }

    fn ask(&mut self, worker: usize, operation: &Operation) -> (Outcome, Vec<u8>) {
        send(&mut self.workers[worker].stream, operation).unwrap();
        let answer = self.workers[worker].outcome().expect("nobody kills it now");
        self.note(format!("worker {worker} looks: {operation:?}: {:?}", answer.0));
        assert!(!matches!(answer.0, Outcome::Failed(_)), "worker {worker}: {operation:?}: {answer:?}");
        answer
    }

    fn size_of(&mut self, object: usize) -> Option<u64> {
        let (worker, slot) = self.seen_by_the_living(object)?;
        match self.ask(worker, &Operation::Size { slot }) {
            (Outcome::Size(size), _) => Some(size),
            other => panic!("{other:?}"),
        }
    }

    /// Opens the object in a living worker if none has it open; none if it has no name either.
    fn seen_by_the_living(&mut self, object: usize) -> Option<(usize, usize)> {
        if let Some(found) = self.seen_through(object) {
            return Some(found);
        }
        let name = self.names.iter().position(|&named| named == Some(object))?;
        let worker = (0..WORKERS).find(|&worker| self.lives(worker))?;
        self.ask(worker, &Operation::Open { slot: 0, name, opening: Opening::Plain, truncate: false });
        self.workers[worker].slots[0] = Some(Open { object, appends: false });
        Some((worker, 0))
    }

    /// Looks at everything in doubt: nothing is under way any more, so that what is found is what stays.
    fn resolve(&mut self) {
        for object in std::mem::take(&mut self.doubtful) {
            if !self.objects[object].size_is_certain() {
                match self.size_of(object) {
                    Some(size) => self.objects[object].learn_size(size),
                    None => self.objects[object] = Object::default(),
                }
            }
            for (offset, length) in self.objects[object].doubts(1 << 16) {
                let Some((worker, slot)) = self.seen_by_the_living(object) else {
                    self.objects[object] = Object::default();
                    break;
                };
                let means = Means::Positioned;
                let (_, bytes) = self.ask(worker, &Operation::Read { slot, offset, length, means });
                with_context("after a race or a death", || self.objects[object].learn(offset, &bytes, length));
            }
        }
    }

    /// Reads everything once more, and leaves what the files must hold beside them.
    fn finish(mut self) {
        for name in 0..NAMES {
            let Some(object) = self.names[name] else { continue };
            let (worker, slot) = self.seen_by_the_living(object).expect("it has a name");
            let (length, means) = (SIZE_MAX as usize * 4, Means::Positioned);
            let (_, bytes) = self.ask(worker, &Operation::Read { slot, offset: 0, length, means });
            with_context(&format!("name {name} at the end"), || {
                self.objects[object].check(0, &bytes, length, &[]);
            });
            let expected = site::managed().with_file_name(format!("expected-{name}"));
            std::fs::write(expected, self.objects[object].bytes()).unwrap();
        }
        let names = |line: &&String| line.contains("Rename") || line.contains("Unlink") || line.contains("killed");
        self.history.iter().filter(names).for_each(|line| eprintln!("{line}"));
        for mut worker in std::mem::take(&mut self.workers) {
            drop(worker.stream);
            assert!(worker.child.wait().unwrap().success());
        }
    }
}

impl Claims {
    fn alone(&mut self, object: usize) -> bool {
        let free = !self.used.contains(&object);
        if free {
            self.used.push(object);
            self.alone.push(object);
        }
        free
    }

    fn shared(&mut self, object: usize) -> bool {
        let free = !self.alone.contains(&object);
        if free {
            self.used.push(object);
        }
        free
    }

    /// A write within the size. One pair of writes of an object may race.
    fn write(&mut self, object: usize, from: u64, to: u64, random: &mut Random) -> bool {
        let overlaps = self.writes.iter().any(|&(other, start, end)| other == object && start < to && from < end);
        if overlaps && (self.raced.contains(&object) || random.below(4) != 0) || !self.shared(object) {
            return false;
        }
        if overlaps {
            self.raced.push(object);
        }
        self.writes.push((object, from, to));
        true
    }
}

fn exists(name: usize) -> bool {
    super::worker::path(name).exists()
}

fn with_context(context: &str, check: impl FnOnce()) {
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    if checked.is_err() {
        panic!("{context}: see above");
    }
}

/// `headstart status`, as soon as an agent answers.
fn status() -> serde_json::Value {
    let mut found = None;
    wait_for("an agent answers", || {
        let output = Command::new(HEADSTART).args(["status", "--json"]).env_remove("LD_PRELOAD").output().unwrap();
        found = serde_json::from_slice(&output.stdout).ok().filter(|status: &serde_json::Value| status["pid"].is_u64());
        found.is_some()
    });
    found.unwrap()
}

fn agent() -> i32 {
    status()["pid"].as_i64().unwrap() as i32
}

/// After a worker's death: what it had asked for is done, or never will be, since the agent heard of that
/// before this question.
fn settle() {
    status();
    status();
}
