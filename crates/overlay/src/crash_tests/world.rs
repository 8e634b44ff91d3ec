//! The world of a simulation: overlay, threads, storage, and a runtime that carries out outputs in any order it may.

mod between;
mod checks;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

pub use between::Between;
pub use tasks::Task;

use super::ranks::{self, NO_SLOT, Rank};
use super::register::Register;
use super::storage::{Byte, Bytes, Log, Store};
use crate::Policy;
use crate::journal::{HEADER_BYTES, Header, Identity};
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use crate::recovery::{Recovered, Replay};
use crate::requests::opening::Opening;
use crate::settings::Settings;
use headstart_cluster::MemberId;
use headstart_policy::client::carl::{Regions, Wanted};
use headstart_policy::cost::region::Costs;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::read_times::Side;
use headstart_protocol::shared::{STATE_FREE, Slot};
use headstart_units::Capacity;
use headstart_units::chance::Random;
use headstart_units::request::Range;

/// Threads of a world; two to a process.
pub const RANKS: usize = 4;
/// Entries of the file table.
const FILES: usize = 12;
/// Slots: the dead keep theirs for a while.
const SLOTS: usize = 40;
/// Copies that can be under way: as many as are tried, and those of agents before.
const COPIES: usize = 64;
/// Names in the managed directory.
pub const PATHS: usize = 3;
/// From one poll to the next.
const POLL_NS: u64 = 20_000_000;

/// A slow file.
pub struct Inode {
    pub identity: Identity,
    pub store: Store,
    pub linked: bool,
    pub register: Register,
    /// Its size, while operations one after another make it certain.
    pub size: Option<u64>,
    /// Operations under way that may change the size, and how many of them truncate.
    pub resizing: Vec<(u32, bool)>,
    /// A truncation and something else overlapped in time: the size is uncertain.
    pub disturbed: bool,
}

/// What a dead thread's last call may still do.
pub enum Late {
    Slow { inode: usize, bytes: Bytes },
    Flash { agent: usize, data_file: u32, bytes: Bytes },
}

/// An agent, what it has to itself, and the runtime's work for it.
pub struct Agent {
    pub memory: Memory,
    pub overlay: Overlay,
    /// Its data files.
    pub data: BTreeMap<u32, Store>,
    pub journal: Log,
    pub tasks: Vec<Task>,
    /// The inode behind each number.
    pub numbers: BTreeMap<u32, usize>,
    pub settings: Settings,
    pub polls: u64,
    pub leaked_pages: u64,
    /// Bytes on flash when the overlay began.
    pub mapped_before: u64,
    /// It is dead, and no other has started.
    pub is_dead: bool,
    /// Its node is dead for good.
    pub is_lost: bool,
    /// It dies after so many steps of carrying out.
    pub dying: Option<u64>,
    /// Write-backs of dead agents that may still land.
    pub ghosts: Vec<(usize, Bytes)>,
    pub restarts: u64,
    /// Directories that a barrier was to sync, as names had left them.
    pub left_directories: Vec<Vec<u8>>,
}

impl Agent {
    fn new(settings: Settings, node: usize) -> Agent {
        let member = MemberId { node: node as u16, life: 0 };
        let settings = Settings { member, first_data_file: ((node as u32) << 22).max(1), ..settings };
        let mut journal = Log::default();
        journal.bytes.extend(Header { boot_id: [1; 16], epoch: 1 }.encode());
        journal.stable = HEADER_BYTES;
        Agent {
            memory: Memory::new(FILES, SLOTS, COPIES),
            overlay: Overlay::new(settings.clone(), HEADER_BYTES as u64, settings.first_data_file),
            data: BTreeMap::new(),
            journal,
            tasks: Vec::new(),
            numbers: BTreeMap::new(),
            settings,
            polls: 0,
            leaked_pages: 0,
            mapped_before: 0,
            is_dead: false,
            is_lost: false,
            dying: None,
            ghosts: Vec::new(),
            restarts: 0,
            left_directories: Vec::new(),
        }
    }
}

/// What may happen in a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whims {
    /// One copy or sync in so many fails; zero: none.
    pub failures: u64,
    pub may_fail: bool,
    /// All threads work at the same few ranges of one file.
    pub hot: bool,
    /// No slow file can be looked at.
    pub blind: bool,
    /// Regions are chosen now and then.
    pub regions: bool,
    /// Threads say now and then that the disks answer sooner than flash, or later.
    pub measures: bool,
    /// The agent does not hear that a ring fills.
    pub deaf: bool,
    /// Threads read more than they write, so that granules are listed.
    pub reads: bool,
    /// Percent of what a process does that is with a file of its own.
    pub apart: u64,
    /// What becomes of files that programs on several nodes use.
    pub policy: Policy,
}

/// Everything.
pub struct World {
    pub random: Random,
    /// Each serves the threads of its node.
    pub agents: Box<[Agent]>,
    /// Whose turn it is.
    pub at: usize,
    /// What is between them; none: the first has all threads, and the others nobody.
    pub cluster: Option<Between>,
    pub inodes: Vec<Inode>,
    pub paths: [usize; PATHS],
    pub ranks: Vec<Rank>,
    /// What each process has open: inode to number; none while the answer to its open is awaited.
    pub open: [BTreeMap<usize, Option<u32>>; RANKS / 2],
    /// Which of those it may write.
    pub writable: [BTreeSet<usize>; RANKS / 2],
    pub late: Vec<Late>,
    pub clock: u64,
    pub versions: u32,
    pub violations: Vec<String>,
    pub whims: Whims,
    /// Reads of bytes on flash that were sent to the disks for what threads measured.
    pub sooner_reads: u64,
    /// Commits that were pushed.
    pub pushes: u64,
    /// Pieces that were read on flash without a lease.
    pub listed: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let capacity = random.pick(&[6, 16, 60]) * 4096;
        let settings = Settings {
            capacity: Capacity::Bytes(capacity),
            dirty_high: random.pick(&[0.0, 0.3]),
            dirty_low: 0.0,
            dirty_full: random.pick(&[0.0, 0.6]),
            copies_max: random.pick(&[1, 3, 8]),
            write_back_bytes_max: random.pick(&[4096, 40960]),
            write_back_leap_bytes: [0, 8192][seed as usize % 2],
            critical_max: 8,
            slab_bytes_max: random.pick(&[4096, 16384]),
            ..Settings::default()
        };
        let mut world = World::with(random.next(), settings);
        world.write_before();
        world
    }

    /// A world with these settings, and one agent.
    pub fn with(seed: u64, settings: Settings) -> World {
        World::of_agents(seed, settings, 1)
    }

    /// The same with so many agents.
    pub fn of_agents(seed: u64, settings: Settings, agents: usize) -> World {
        let mut world = World {
            random: Random(seed),
            agents: (0..agents).map(|node| Agent::new(settings.clone(), node)).collect(),
            at: 0,
            cluster: None,
            inodes: Vec::new(),
            paths: [0; PATHS],
            ranks: (0..RANKS).map(Rank::new).collect(),
            open: Default::default(),
            writable: Default::default(),
            late: Vec::new(),
            clock: 1,
            versions: 0,
            violations: Vec::new(),
            whims: Whims::default(),
            sooner_reads: 0,
            pushes: 0,
            listed: 0,
        };
        (0..PATHS).for_each(|path| world.create(path));
        world.join();
        world
    }

    /// A new file under a name.
    pub fn create(&mut self, path: usize) {
        let inode = self.inodes.len() as u64;
        // Some file systems know no birth time and use inode numbers again once nobody has the old file open.
        let forgotten = |old: &&Inode| {
            let removed = self.agents[self.at]
                .overlay
                .find(old.identity)
                .is_none_or(|number| self.agents[self.at].overlay.files[&number].names.is_unlinked());
            !old.linked && removed && !self.inodes.iter().any(|i| i.linked && i.identity == old.identity)
        };
        let gone = self.inodes.iter().rfind(forgotten).map(|old| old.identity);
        let in_use = gone.is_some_and(|gone| {
            self.open.iter().any(|open| open.keys().any(|&inode| self.inodes[inode].identity == gone))
        });
        let gone = gone.filter(|_| self.cluster.is_none());
        let identity = match gone.filter(|_| !in_use && self.random.chance(50)) {
            Some(identity) => identity,
            None => Identity { inode: inode + 1, birth_ns: 0 },
        };
        self.inodes.push(Inode {
            identity,
            store: Store::new(Byte::Zero),
            linked: true,
            register: Register::new(),
            size: Some(0),
            resizing: Vec::new(),
            disturbed: false,
        });
        self.paths[path] = inode as usize;
    }

    /// The newest file may hold bytes that somebody else wrote before and that are not stable yet.
    pub fn write_before(&mut self) {
        if self.random.chance(50) {
            self.versions += 1;
            let (version, now, range) = (self.versions, self.now(), Range::new(0, 20_000));
            let new = self.inodes.last_mut().expect("just added");
            new.register.begin_write(range, version, false, now);
            new.register.end_write(range, version, now);
            new.store.write(vec![(range, Byte::Written { version, shift: 0 })]);
            new.size = Some(range.end());
        }
    }

    /// The slot of a thread.
    pub fn slot(&self, rank: usize) -> &Slot {
        &self.agents[self.agent_of(rank)].memory.slots[self.ranks[rank].slot]
    }

    /// Gives slots to the threads that have none; at first everybody gets the one of the same number.
    pub fn join(&mut self) {
        for rank in 0..RANKS {
            if self.ranks[rank].slot != NO_SLOT || self.agent_of(rank) != self.at {
                continue;
            }
            let free = |slot: &Slot| slot.owner_pid.load(Ordering::Relaxed) == 0;
            let index = self.agents[self.at]
                .memory
                .slots
                .iter()
                .position(free)
                .expect("enough slots for the dead and the living");
            let process = self.ranks[rank].process;
            let slot = &self.agents[self.at].memory.slots[index];
            assert_eq!(
                self.agents[self.at].memory.open_files[index].open.iter().count(),
                0,
                "a free slot has nothing open"
            );
            slot.state.store(STATE_FREE, Ordering::Relaxed);
            slot.owner_start.store(process.start_time, Ordering::Relaxed);
            slot.owner_pid.store(process.pid, Ordering::Relaxed);
            self.agents[self.at].memory.header.slots_used.fetch_max(index as u64 + 1, Ordering::Relaxed);
            self.ranks[rank].seq = slot.seq.load(Ordering::Relaxed);
            self.ranks[rank].slot = index;
            self.ranks[rank].connected = true;
            self.agents[self.at].overlay.on_join(index as u32, process);
        }
    }

    pub fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub fn violation(&mut self, result: Result<(), String>) {
        self.violations.extend(result.err());
    }

    /// The inode behind a number.
    fn inode(&self, file: u32) -> usize {
        self.agents[self.at].numbers[&file]
    }

    /// Sends a rank's request.
    pub fn request(&mut self, rank: usize, request: &Request<'static>) {
        let seq = self.slot(rank).seq.load(Ordering::Relaxed) + 1;
        self.slot(rank).seq.store(seq, Ordering::Relaxed);
        self.request_again(rank, request);
    }

    /// The same under the slot's number as it is: of a commit that was pushed.
    pub fn request_again(&mut self, rank: usize, request: &Request<'static>) {
        self.ranks[rank].seq = self.slot(rank).seq.load(Ordering::Relaxed);
        self.ranks[rank].answer = None;
        self.ranks[rank].pending = Some(*request);
        if self.ranks[rank].connected {
            self.send(rank, self.ranks[rank].seq, request);
        } else {
            self.reconnect(rank);
        }
    }

    /// Hands a message to the agent.
    pub fn send(&mut self, rank: usize, seq: u64, request: &Request<'_>) {
        let envelope = Envelope { slot: self.ranks[rank].slot as u32, seq };
        let now = self.now();
        if let Request::Open { inode, birth_ns, size, writable, path } = *request {
            let identity = Identity { inode, birth_ns };
            // The runtime looks at the file whenever it is asked: an open that is sent again says what it did before.
            let now = self.inodes.iter().rfind(|inode| inode.identity == identity).map(|inode| inode.store.size());
            let observed = crate::Fingerprint { size: now.unwrap_or(size), modified_ns: 0 };
            let opening = Opening { identity, observed, writable, path };
            self.agents[self.at].overlay.on_open(self.agents[self.at].memory.view(), envelope, opening);
            if let Some(number) = self.agents[self.at].overlay.find(identity) {
                let newest = self.inodes.iter().rposition(|inode| inode.identity == identity);
                self.agents[self.at].numbers.insert(number, newest.expect("a file that is opened has an inode"));
            }
        } else if let Request::Unlinked { inode } = *request {
            self.agents[self.at].overlay.on_unlinked(self.agents[self.at].memory.view(), envelope, inode, |_| false);
        } else {
            self.agents[self.at].overlay.on_request(self.agents[self.at].memory.view(), now, envelope, request);
        }
        self.carry_out();
    }

    /// What the runtime does after every verb: the journal first, then the outputs in order.
    pub fn carry_out(&mut self) {
        loop {
            if self.dies() {
                return;
            }
            let (records, outputs) =
                (self.agents[self.at].overlay.take_journal(), self.agents[self.at].overlay.take_outputs());
            self.agents[self.at].journal.bytes.extend(records);
            if self.dies() {
                return;
            }
            self.agents[self.at].overlay.on_appended(self.agents[self.at].memory.view());
            for output in outputs {
                if self.dies() {
                    return;
                }
                self.carry_out_one(output);
            }
            if self.agents[self.at].overlay.is_settled() {
                return;
            }
        }
    }

    fn carry_out_one(&mut self, output: Output) {
        match output {
            Output::Reply(envelope, answer) => self.deliver(envelope, answer),
            Output::Copy(order) => self.agents[self.at].tasks.push(Task::Copy {
                inode: self.inode(order.file),
                order,
                bytes: Vec::new(),
                written: false,
            }),
            Output::Extend { file, size, growth } => {
                let inode = self.inode(file);
                self.agents[self.at].tasks.push(Task::Extend { file, inode, size, growth, found: None });
            }
            Output::Barrier { data_files, slow_files, directories } => {
                self.agents[self.at].left_directories.extend(directories);
                let slow = slow_files.iter().map(|file| self.inode(*file)).collect();
                self.agents[self.at].tasks.push(Task::Barrier { data: data_files, slow });
            }
            Output::SyncJournal => self.agents[self.at].tasks.push(Task::SyncJournal),
            Output::Grow { data_file, .. } => {
                self.agents[self.at].data.entry(data_file).or_insert_with(|| Store::new(Byte::Garbage));
            }
            Output::Punch(run) => {
                let store = self.agents[self.at].data.get_mut(&run.data_file).expect("a punched data file exists");
                store.write(vec![(run.bytes(), Byte::Garbage)]);
            }
            Output::RemoveDataFile(data_file) => {
                self.agents[self.at].data.remove(&data_file);
            }
            Output::Show { slot, at, page } => {
                self.agents[self.at].overlay.show_slab(self.agents[self.at].memory.view(), slot, at, page);
            }
            Output::List(index) => self.agents[self.at].overlay.list(self.agents[self.at].memory.view(), index),
            Output::Send(envelope) => self.send_to_member(envelope),
            Output::Unsynced(_) | Output::Forget(_) | Output::Deadline(_) => {}
            Output::ReadLog(member) => self.read_log(member),
            Output::Salvage { file, of } => self.salvage(file, of),
            Output::Expelled => unreachable!("who is expelled is dead"),
        }
    }

    fn deliver(&mut self, envelope: Envelope, answer: Answer) {
        let has_slot =
            |rank: &usize| self.ranks[*rank].slot == envelope.slot as usize && self.agent_of(*rank) == self.at;
        let Some(index) = (0..RANKS).find(has_slot) else {
            // Its thread is dead, of which the agent has not heard.
            assert!(
                self.agents[self.at].overlay.owner(envelope.slot).is_some(),
                "{answer:?} for slot {}, which is nobody's",
                envelope.slot
            );
            return;
        };
        if envelope.seq == 0 {
            return self.check_reopened(index, &answer);
        }
        let rank = &mut self.ranks[index];
        if envelope.seq == rank.seq && rank.answer.is_none() {
            rank.answer = Some(answer);
            rank.pending = None;
        } else {
            self.violations.push(format!("an answer to {envelope:?} that nobody awaits: {answer:?}"));
        }
    }

    /// Lets writes of dead threads land, or vanish: those to one inode, or all.
    pub fn land_late(&mut self, only: Option<usize>) {
        for late in std::mem::take(&mut self.late) {
            if only.is_some_and(|only| !matches!(late, Late::Slow { inode, .. } if inode == only)) {
                self.late.push(late);
                continue;
            }
            if self.random.chance(80) {
                self.land(late);
            }
        }
    }

    /// Lets all of them land.
    pub fn land_all_late(&mut self) {
        std::mem::take(&mut self.late).into_iter().for_each(|late| self.land(late));
    }

    pub fn land(&mut self, late: Late) {
        match late {
            Late::Slow { inode, bytes } => {
                self.inodes[inode].store.write(bytes);
                self.inodes[inode].size = None;
                self.inodes[inode].disturbed |= !self.inodes[inode].resizing.is_empty();
            }
            Late::Flash { agent, data_file, bytes } => {
                if let Some(store) = self.agents[agent].data.get_mut(&data_file) {
                    store.write(bytes);
                }
            }
        }
    }

    /// One step of anybody.
    pub fn step(&mut self, begin: bool) {
        if self.cluster.is_some() && self.step_between() {
            return;
        }
        if self.cluster.is_none() && self.agents.len() > 1 {
            self.at = self.random.below(self.agents.len() as u64) as usize;
        }
        let choice = self.random.below(100);
        if self.agents[self.at].is_lost {
            return;
        }
        if self.agents[self.at].is_dead {
            return self.step_without_agent(choice, begin);
        }
        if choice < 60 {
            let rank = self.random.below(RANKS as u64) as usize;
            ranks::step(self, rank, begin);
        } else if choice < 90 {
            if !self.agents[self.at].tasks.is_empty() {
                let at = self.random.below(self.agents[self.at].tasks.len() as u64) as usize;
                self.step_task(at);
            }
        } else if choice < 96 {
            self.poll();
        } else if choice < 97 {
            if begin {
                self.choose_regions();
            }
        } else if self.whims.measures && choice < 98 {
            let disk_ns = self.random.pick(&[1000, 1000, 1_000_000]);
            let known: Vec<u32> = self.agents[self.at].numbers.keys().copied().collect();
            if !known.is_empty() {
                let file = self.random.pick(&known);
                self.measure(file as usize, disk_ns);
            }
        } else {
            self.land_one();
        }
        self.check_sizes();
        self.check_listings();
        self.check_left_alone();
        self.check_one_has_it();
    }

    /// Threads say that reads of the file took so long on the disks, and 200 microseconds on flash.
    pub fn measure(&mut self, file: usize, disk_ns: u64) {
        for _ in 0..40 {
            self.agents[self.at].memory.files[file].read_times.add(Side::Disk, 4096, disk_ns);
            self.agents[self.at].memory.files[file].read_times.add(Side::Flash, 4096, 200_000);
        }
    }

    /// Regions of a file that has a name become others, and are placed or not.
    fn choose_regions(&mut self) {
        if !self.whims.regions {
            return;
        }
        let inode = self.random.pick(&self.paths);
        let Inode { identity, linked, ref store, .. } = self.inodes[inode];
        let observed = crate::Fingerprint { size: store.size(), modified_ns: 0 };
        if !linked {
            return;
        }
        let Ok(number) =
            self.agents[self.at].overlay.know(self.agents[self.at].memory.view(), identity, b"/slow/x", observed)
        else {
            return;
        };
        self.agents[self.at].numbers.insert(number, inode);
        let regions = (0..5u64).filter_map(|at| {
            let range = Range::new(at * 8192, self.random.pick(&[4096, 8192, 5000]));
            let gain_ns = self.random.below(1000);
            self.random.chance(40).then_some(Wanted { range, benefit_ns: 1 + gain_ns, gain_ns })
        });
        let regions = Regions::new(regions.collect::<Vec<_>>());
        self.agents[self.at].overlay.set_regions(self.agents[self.at].memory.view(), number, regions);
        if self.random.chance(20) {
            let costs = self.random.chance(80).then(Costs::of_a_test);
            self.agents[self.at].overlay.follow(self.agents[self.at].memory.view(), costs);
        }
        let on = self.random.chance(70);
        self.agents[self.at].overlay.place(self.agents[self.at].memory.view(), on);
        self.carry_out();
    }

    pub fn poll(&mut self) {
        if self.agents[self.at].is_dead {
            return;
        }
        // Time goes by in polls alone: programs that do nothing during three of them pause.
        self.agents[self.at].polls += 1;
        self.agents[self.at].overlay.set_time(self.agents[self.at].polls * POLL_NS);
        self.agents[self.at].overlay.poll(self.agents[self.at].memory.view());
        self.carry_out();
        // What a barrier has covered counts with the next look.
        if self.whims.policy == Policy::Commits && !self.agents[self.at].is_dead {
            self.look();
        }
    }

    /// Runs until nobody is under way; the number of steps is bounded.
    pub fn quiesce(&mut self) {
        for _ in 0..200_000 {
            let works = |agent: &Agent| !agent.tasks.is_empty() || (agent.is_dead && !agent.is_lost);
            let busy = self.ranks.iter().any(Rank::is_busy) || self.agents.iter().any(works);
            if !busy && !self.is_between() {
                for at in 0..self.agents.len() {
                    self.at = at;
                    self.poll();
                }
                if self.agents.iter().all(|agent| agent.tasks.is_empty()) && !self.is_between() {
                    return;
                }
            }
            self.step(false);
            if !self.violations.is_empty() {
                return;
            }
        }
        let stuck: Vec<_> = self.ranks.iter().filter(|rank| rank.is_busy()).collect();
        let pending: Vec<_> = self.agents.iter().map(|agent| &agent.overlay.pending).collect();
        let sharing: Vec<_> = self.agents.iter().map(|agent| &agent.overlay.sharing).collect();
        self.violations.push(format!("no end is reached: {stuck:?}\n{pending:#?}\n{sharing:?}"));
    }

    /// Kills a process: its threads hang up; what they had under way may land later.
    pub fn kill(&mut self, process: usize) {
        self.at = self.agent_of(2 * process);
        for rank in [2 * process, 2 * process + 1] {
            ranks::die(self, rank);
        }
        self.open[process].clear();
        self.writable[process].clear();
        let slots = [2 * process, 2 * process + 1].map(|rank| self.ranks[rank].slot);
        for rank in [2 * process, 2 * process + 1] {
            let start_time = self.ranks[rank].process.start_time + 1;
            self.ranks[rank] = Rank::new(rank);
            self.ranks[rank].process.start_time = start_time;
        }
        for slot in slots.into_iter().filter(|slot| *slot != NO_SLOT) {
            if self.agents[self.at].is_dead {
                return; // the next one sees that its owners are gone
            }
            let Agent { overlay, memory, .. } = &mut self.agents[self.at];
            overlay.collect_pushes(memory.view());
            let cell = &self.agents[self.at].memory.slots[slot];
            if !cell.is_free() {
                self.agents[self.at].leaked_pages += self.agents[self.at].overlay.slab_pages(slot as u32);
            }
            let cut = self.agents[self.at].overlay.truncates(slot as u32).filter(|_| !self.whims.blind);
            let size = cut.map(|file| self.inodes[self.agents[self.at].numbers[&file]].store.size());
            self.agents[self.at].overlay.on_hang_up(self.agents[self.at].memory.view(), slot as u32, size);
            self.carry_out();
        }
        if !self.agents[self.at].is_dead {
            self.join();
        }
    }

    /// The agent dies with all threads, or the power fails; then recovery.
    pub fn crash(&mut self, power: bool) {
        for rank in 0..RANKS {
            ranks::die(self, rank);
        }
        self.land_late(None);
        if power {
            self.agents[self.at].journal.lose_power(&mut self.random);
            for inode in &mut self.inodes {
                inode.store.lose_power(&mut self.random);
            }
            for store in self.agents[self.at].data.values_mut() {
                store.lose_power(&mut self.random);
            }
        }
        // A file under an identity used before is there for us from its open on, which waits until the old
        // one's removal is durable. One nobody has opened yet is as good as created after the crash.
        for inode in 0..self.inodes.len() {
            let known = self.agents[self.at]
                .overlay
                .find(self.inodes[inode].identity)
                .is_some_and(|number| self.agents[self.at].numbers[&number] == inode);
            let opened = self.open.iter().any(|open| open.get(&inode).is_some_and(Option::is_some));
            let earlier = self.inodes[..inode].iter().any(|old| old.identity == self.inodes[inode].identity);
            if earlier && !known && !opened {
                self.inodes[inode].identity.birth_ns = inode as u64 + 1;
            }
        }
        self.agents[self.at].tasks.clear();
        self.late.clear();
        self.open = Default::default();
        self.writable = Default::default();
        self.agents[self.at].leaked_pages = 0;
        self.agents[self.at].ghosts.clear();
        for rank in &mut self.ranks {
            // Slots may still name the processes that were killed.
            let process = crate::Process { start_time: rank.process.start_time + 1, ..rank.process };
            *rank = Rank { process, ..Rank::new(0) };
        }
        if power {
            self.agents[self.at].memory = Memory::new(FILES, SLOTS, COPIES);
        }
        self.recover(power);
        self.settle(power);
    }

    fn recover(&mut self, power: bool) {
        let replay = if power { Replay::ToLastBarrier } else { Replay::Everything };
        let recovered = Recovered::replay(&self.agents[self.at].journal.bytes[HEADER_BYTES..], replay);
        let find = |identity| self.inodes.iter().rposition(|inode| inode.identity == identity && inode.linked);
        let found: BTreeMap<u32, Option<usize>> =
            recovered.files.iter().map(|(&number, file)| (number, find(file.identity))).collect();
        self.adopt_overlay(recovered, &found, &BTreeSet::new());
        for (number, inode) in found {
            match inode {
                Some(inode) => drop(self.agents[self.at].numbers.insert(number, inode)),
                None => self.agents[self.at].overlay.disown(self.agents[self.at].memory.view(), number),
            }
        }
        let checkpoint = self.checkpoint_adopted();
        self.replace_journal(checkpoint);
        self.join();
        // The dead agent has no threads left.
        self.agents[self.at].overlay.on_old_copies_landed(self.agents[self.at].memory.view());
        self.carry_out();
    }

    /// What an agent that has just started finds on flash came there before.
    pub fn count_as_before(&mut self) {
        let counters = self.agents[self.at].overlay.counters();
        let left = self.mapped_bytes() + counters.dropped_bytes();
        self.agents[self.at].mapped_before = left.saturating_sub(counters.absorbed_bytes_total);
    }

    /// Everybody reads the same from now on: checks it, and makes it the only allowed contents.
    fn settle(&mut self, power: bool) {
        let now = self.now();
        for inode in 0..self.inodes.len() {
            if !self.inodes[inode].linked {
                continue;
            }
            let bytes = self.visible(inode);
            self.inodes[inode].resizing.clear();
            self.inodes[inode].disturbed = false;
            self.inodes[inode].size = None;
            for (range, byte) in bytes {
                let result = self.inodes[inode].register.settle(range, byte, power, now);
                self.violation(result.map_err(|text| format!("inode {inode}: {text}")));
            }
        }
    }
}
