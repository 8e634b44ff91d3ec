//! A volume, its devices, its users, and the chance that drives them.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::chaos::{Chaos, Tested};
use super::register::{FIRST, NEVER, sector_bytes, version_of};
use super::storage::{Pair, Storage, Unflushed};
use super::users::{Users, What};
use crate::devices::Device;
use crate::engine::{Engine, Settings};
use crate::order::{Action, Order, OrderId, Output, Part, Request, Tag};
use crate::recovery;
use crate::recovery::{Given, Refusal};
use crate::superblock::{Found, Serving, Superblock};
use headstart_policy::server::segments::Segments;
use headstart_units::Nanos;
use headstart_units::chance::Random;
use headstart_units::request::Range;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

pub const UUID: [u8; 16] = *b"volume under tst";
/// One of them for copies.
pub const GUARD_BLOCKS: u64 = 2;

thread_local! {
    static ZEROED: Cell<u64> = const { Cell::new(0) };
}

/// Orders by which the disk made zeros, in this test.
pub fn zeroed() -> u64 {
    ZEROED.get()
}

#[derive(Clone)]
struct InFlight {
    order: Order,
    bytes: Vec<u8>,
    mark: usize,
}

impl InFlight {
    /// What the order makes of its device, if anything.
    fn unflushed(&self) -> Option<Unflushed> {
        let is_zeroing = match self.order.action {
            Action::Write(_) => false,
            Action::Zero => true,
            Action::Read | Action::Flush => return None,
        };
        Some(Unflushed { offset: self.order.offset, bytes: self.bytes.clone(), is_zeroing })
    }
}

#[derive(Clone)]
pub struct World {
    pub random: Random,
    pub disk: Storage,
    pub flash: Storage,
    pub given: Given,
    pub engine: Engine<Tested>,
    orders: Vec<InFlight>,
    buffers: BTreeMap<OrderId, Vec<u8>>,
    users: Users,
    /// The engine's clock.
    pub time: Nanos,
    policy: Tested,
    settings: Settings,
    /// One of so many operations fails; zero: none.
    pub failures: u64,
    pub rotten: bool,
    pub violations: Vec<String>,
    pub errors: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let disk_bytes = 8192 * (3 + random.below(5)) + SECTOR_BYTES * random.below(3);
        let ring_blocks = 18 + random.below(60);
        let segments = if random.chance(70) {
            let head_blocks = 1 + random.below(2) as u32;
            let segment_blocks = head_blocks + 1 + random.below(3) as u32;
            Segments { segment_blocks, head_blocks, slots: 1 + random.below(3) as u32 }
        } else {
            Segments::default()
        };
        let flash_bytes = (2 + 2 * GUARD_BLOCKS + 5 + segments.area_blocks() + ring_blocks * 3 / 2) * BLOCK_BYTES;
        let given = Given { disk: [7; 32], disk_bytes, flash_bytes, uuid: Some(UUID), absorbs: true };
        let bytes = (0..disk_bytes / SECTOR_BYTES).flat_map(|sector| sector_bytes(FIRST, sector)).collect();
        let mut disk = Storage::new(bytes);
        let mut flash = Storage::new((0..flash_bytes).map(|_| random.next() as u8).collect());
        let mut pair = Pair::new(&mut disk, &mut flash);
        let serving = Serving { segments, ..Serving::default() };
        assert_eq!(recovery::create(&mut pair, &given, UUID, GUARD_BLOCKS, serving), Ok(true));
        let policy = Tested::new(&mut random, segments);
        let settings = Settings {
            records_max: random.pick(&[1, 2, 4, 16]),
            checkpoint_every_blocks: random.pick(&[4, 16, 1000]),
            owed_max: random.pick(&[1, 4, 1000]),
            checkpoint_chunk_bytes: 4096,
            disk_orders_max: random.pick(&[1, 3, 100]),
            disk_bytes_max: random.pick(&[1, 1 << 14, 1 << 20]),
            disk_orders_min: random.pick(&[1, 2, 8]),
            staging_slot_blocks: random.pick(&[1, 2]),
            zero_bytes_max: random.pick(&[0, BLOCK_BYTES, 1 << 20]),
        };
        let recovered = recovery::attach(&mut pair, &given).expect("a new volume is attached");
        World {
            engine: Engine::new(recovered, policy.clone(), settings),
            users: Users::new(disk_bytes),
            random,
            disk,
            flash,
            given,
            orders: Vec::new(),
            buffers: BTreeMap::new(),
            time: Nanos::ZERO,
            policy,
            settings,
            failures: 0,
            rotten: false,
            violations: Vec::new(),
            errors: 0,
        }
    }

    fn storage(&mut self, device: Device) -> &mut Storage {
        match device {
            Device::Disk => &mut self.disk,
            Device::Flash => &mut self.flash,
        }
    }

    fn range(&mut self) -> Range {
        let sectors = self.given.disk_bytes / SECTOR_BYTES;
        let length = match self.random.below(10) {
            0..=4 => 8,
            5..=7 => 1 + self.random.below(8),
            8 => 1 + self.random.below(24),
            _ => 8 * (1 + self.random.below(4)),
        };
        let aligned = self.random.chance(60);
        let hot = if self.random.chance(60) { sectors.min(32) } else { sectors };
        let first = self.random.below(hot) / if aligned { 8 } else { 1 } * if aligned { 8 } else { 1 };
        Range::new(first * SECTOR_BYTES, length.min(sectors - first) * SECTOR_BYTES)
    }

    /// A user asks for something.
    pub fn ask(&mut self) {
        let range = self.range();
        match self.random.below(100) {
            0..=14 => self.read(range),
            15..=24 => self.read_on(range.length),
            25..=79 => {
                let fua = self.random.chance(8);
                self.write(range, false, fua);
            }
            80..=87 => {
                let fua = self.random.chance(10);
                self.write(range, true, fua);
            }
            _ => self.flush(),
        }
    }

    pub fn read(&mut self, range: Range) {
        self.request(range, What::Read, Vec::new());
    }

    /// One of two readers goes on, forwards or backwards.
    fn read_on(&mut self, length: u64) {
        let reader = self.random.below(2) as usize;
        let range = self.users.read_on(reader, length);
        self.read(range);
    }

    /// Time goes by.
    pub fn tick(&mut self) {
        self.time += Nanos(self.random.below(10_000_000));
        if self.engine.next_timer().is_some_and(|at| at <= self.time) || self.random.chance(10) {
            self.engine.on_timer(self.time);
            self.carry_out();
        }
    }

    /// The time of the engine's timer comes; false if it has none.
    fn skip(&mut self) -> bool {
        let Some(at) = self.engine.next_timer() else { return false };
        self.time = self.time.max(at);
        self.engine.on_timer(self.time);
        true
    }

    pub fn flush(&mut self) {
        self.request(Range::new(0, self.given.disk_bytes), What::Flush, Vec::new());
    }

    pub fn write(&mut self, range: Range, zero: bool, fua: bool) {
        let (what, data) = self.users.write(range, zero, fua);
        self.request(range, what, data);
    }

    fn request(&mut self, range: Range, what: What, data: Vec<u8>) {
        let (tag, asked) = self.users.ask(range, what, data);
        self.engine.on_request(self.time, tag, asked.request());
        self.carry_out();
    }

    /// Takes the engine's outputs in.
    pub fn carry_out(&mut self) {
        for output in self.engine.take_outputs() {
            match output {
                Output::Order(order) => {
                    let in_flight = self.take_order(order);
                    self.orders.push(in_flight);
                }
                Output::Reply { tag, result } => self.on_reply(tag, result.ok()),
                Output::Release(order) => {
                    self.buffers.remove(&order);
                }
            }
        }
    }

    fn take_order(&mut self, order: Order) -> InFlight {
        let mut bytes = match &order.action {
            Action::Write(parts) => self.gather(parts),
            Action::Zero => {
                let is_whole = (order.offset | order.length).is_multiple_of(BLOCK_BYTES);
                assert!(order.device == Device::Disk && order.session.is_none() && is_whole, "{order:?}");
                ZEROED.set(ZEROED.get() + 1);
                vec![0; order.length as usize]
            }
            Action::Read | Action::Flush => Vec::new(),
        };
        if let Action::Write(_) = order.action {
            assert_eq!(bytes.len() as u64, order.length, "parts make what is to be written");
            order.transform(&mut bytes);
        }
        let mark = self.storage(order.device).mark();
        InFlight { order, bytes, mark }
    }

    fn gather(&self, parts: &[Part]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(own) => bytes.extend_from_slice(own),
                Part::Zeros(length) => bytes.resize(bytes.len() + *length as usize, 0),
                Part::Request { tag, offset, length } => {
                    bytes.extend_from_slice(&self.users.data(*tag)[*offset as usize..(offset + length) as usize]);
                }
                Part::Buffer { order, offset, length } => {
                    bytes.extend_from_slice(&self.buffers[order][*offset as usize..(offset + length) as usize]);
                }
            }
        }
        bytes
    }

    fn on_reply(&mut self, tag: Tag, parts: Option<Vec<Part>>) {
        let asked = self.users.end(tag);
        let Some(parts) = parts else {
            self.errors += 1;
            let may_fail = self.failures > 0 || self.rotten;
            if !may_fail {
                self.violations.push(format!("{asked:?} failed"));
            }
            return;
        };
        if asked.what == What::Read {
            let bytes = self.gather(&parts);
            self.violations.extend(self.users.check_read(&asked, &bytes));
        }
        self.users.note_success(&asked);
    }

    /// The log takes what it may, and nothing is written back unless it must be.
    pub fn absorb_all(&mut self) {
        let random = Random(self.random.next());
        self.policy = Tested::Chaos(Chaos::absorbing(random));
        self.recover().expect("nothing has happened yet");
    }

    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Requests whose users wait.
    pub fn waiting(&self) -> usize {
        self.users.asked().count()
    }

    /// Some order completes.
    pub fn complete_any(&mut self) {
        if self.rotten && self.random.chance(2) {
            let (byte, bit) = (self.random.below(self.given.flash_bytes), self.random.below(8) as u32);
            self.flash.flip(byte, bit);
        }
        self.tick();
        let index = self.random.below(self.orders.len() as u64) as usize;
        let fails = self.failures > 0 && self.random.below(self.failures) == 0;
        self.complete(index, fails);
    }

    pub fn complete(&mut self, index: usize, fails: bool) {
        let in_flight = self.orders.remove(index);
        let made = in_flight.unflushed();
        let InFlight { order, bytes, mark } = in_flight;
        let mut random = self.random.clone();
        self.random.next();
        let storage = self.storage(order.device);
        let mut data = Vec::new();
        match order.action {
            Action::Read => {
                data = storage.read(order.offset, order.length).to_vec();
                order.transform(&mut data);
            }
            Action::Write(_) | Action::Zero if fails => storage.tear(order.offset, &bytes, &mut random),
            Action::Write(_) | Action::Zero => storage.take(made.expect("it changes the device")),
            Action::Flush if !fails => storage.flush(mark),
            Action::Flush => {}
        }
        if order.action == Action::Read {
            self.buffers.insert(order.id, data.clone());
        }
        self.engine.on_completion(self.time, order.id, if fails { Err(()) } else { Ok(&data) });
        self.carry_out();
    }

    /// Everything that waits comes to an end (V4).
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.orders.is_empty() {
                // Whoever still waits, waits for time.
                if self.users.are_done() || !self.skip() {
                    break;
                }
                self.carry_out();
            } else {
                self.complete_any();
            }
        }
        if !self.users.are_done() {
            let details = std::env::var_os("DETAILS").map(|_| format!("{:?}", self.engine));
            let asked: Vec<_> = self.users.asked().collect();
            self.violations.push(format!("V4: {asked:?} wait for ever; {details:?}"));
        }
    }

    /// The power fails; what is in flight may be on the media or not.
    pub fn crash(&mut self) {
        for device in [Device::Disk, Device::Flash] {
            let given = self.orders.iter().filter(|in_flight| in_flight.order.device == device);
            let in_flight: Vec<Unflushed> = given.filter_map(InFlight::unflushed).collect();
            let mut random = Random(self.random.next());
            self.storage(device).crash(in_flight, &mut random);
        }
        self.orders.clear();
        self.buffers.clear();
        self.users.leave();
    }

    /// The server is killed: what is in flight may still reach the devices, whose caches live on.
    pub fn kill(&mut self) {
        for in_flight in std::mem::take(&mut self.orders) {
            if let Some(made) = in_flight.unflushed()
                && self.random.chance(60)
            {
                self.storage(in_flight.order.device).take(made);
            }
        }
        self.buffers.clear();
        self.users.leave();
    }

    /// Where both superblocks are whole one of them rots, sometimes.
    fn rot_a_superblock(&mut self) {
        let whole = |place: u64| {
            let bytes = self.flash.read(place * BLOCK_BYTES, BLOCK_BYTES);
            matches!(Superblock::decode(bytes), Found::Valid(_))
        };
        if whole(0) && whole(1) && self.random.chance(30) {
            let (byte, bit) = (self.random.below(2 * BLOCK_BYTES), self.random.below(8) as u32);
            self.flash.flip(byte, bit);
        }
    }

    /// A start, which the power may cut short once.
    pub fn recover(&mut self) -> Result<(), Refusal> {
        self.rot_a_superblock();
        if self.random.chance(40) {
            let mut pair = Pair::new(&mut self.disk, &mut self.flash);
            pair.operations_left = self.random.below(20);
            pair.writes = self.random.below(2);
            if recovery::attach(&mut pair, &self.given).is_err() {
                let mut random = Random(self.random.next());
                self.disk.crash(Vec::new(), &mut random);
                self.flash.crash(Vec::new(), &mut random);
            }
        }
        let mut pair = Pair::new(&mut self.disk, &mut self.flash);
        let recovered = recovery::attach(&mut pair, &self.given)?;
        let again = Random(self.random.next());
        self.engine = Engine::new(recovered, self.policy.started(again), self.settings);
        Ok(())
    }

    /// Everything is read, and checked against what may be there after a crash.
    pub fn check_after_crash(&mut self) {
        let failures = std::mem::take(&mut self.failures);
        let now = self.users.tick();
        for sector in 0..self.given.disk_bytes / SECTOR_BYTES {
            let tag = self.users.tag();
            self.engine.on_request(self.time, tag, Request::Read(Range::new(sector * SECTOR_BYTES, SECTOR_BYTES)));
            let result = self.answer(tag);
            match result {
                Some(bytes) => {
                    let settled = self.users.register.settle(sector, &bytes, now, self.rotten);
                    self.violations.extend(settled.err());
                    let range = Range::new(sector * SECTOR_BYTES, SECTOR_BYTES);
                    if self.rotten && self.engine.map().heads.iter_live().any(|head| head.range.overlaps(range)) {
                        // Rot in the last records may have brought a head back that they ended, and the disk is newer.
                        let version = version_of(self.disk.read(range.offset, range.length), sector);
                        version.iter().for_each(|it| self.users.register.begin_write(range, *it, *it == NEVER, now));
                    }
                }
                None if self.rotten => self.errors += 1,
                None => self.violations.push(format!("sector {sector} cannot be read after the crash")),
            }
        }
        self.failures = failures;
    }

    /// Completes orders until a request of the checker's own is answered.
    fn answer(&mut self, tag: Tag) -> Option<Vec<u8>> {
        loop {
            let mut answer = None;
            for output in self.engine.take_outputs() {
                match output {
                    Output::Order(order) => {
                        let in_flight = self.take_order(order);
                        self.orders.push(in_flight);
                    }
                    Output::Reply { tag: replied, result } if replied == tag => {
                        answer = Some(result.ok().map(|parts| self.gather(&parts)));
                    }
                    Output::Reply { .. } => {}
                    Output::Release(order) => {
                        self.buffers.remove(&order);
                    }
                }
            }
            if let Some(answer) = answer {
                return answer;
            }
            if self.orders.is_empty() {
                assert!(self.skip(), "a read of the checker waits for ever: {:?}", self.engine);
                continue;
            }
            let in_flight = self.orders.remove(0);
            let made = in_flight.unflushed();
            let InFlight { order, mark, .. } = in_flight;
            let storage = self.storage(order.device);
            let mut data = Vec::new();
            match order.action {
                Action::Read => {
                    data = storage.read(order.offset, order.length).to_vec();
                    order.transform(&mut data);
                    self.buffers.insert(order.id, data.clone());
                }
                Action::Write(_) | Action::Zero => storage.take(made.expect("it changes the device")),
                Action::Flush => storage.flush(mark),
            }
            self.engine.on_completion(self.time, order.id, Ok(&data));
        }
    }

    /// The volume stops; the raw disk, guard off, holds what its users would have read.
    pub fn stop(&mut self) {
        self.engine.stop(self.time, false);
        self.carry_out();
        self.settle();
        if !self.engine.has_stopped() {
            let engine = std::env::var_os("DETAILS").map(|_| format!("{:?}", self.engine));
            self.violations.push(format!("V4: the volume does not stop {engine:?}"));
            return;
        }
        if !self.buffers.is_empty() {
            self.violations.push(format!("buffers are kept for ever: {:?}", self.buffers.keys()));
        }
        let (mut superblock, is_empty) = self.engine.clone().into_superblock();
        if !is_empty {
            self.violations.push(format!("V4: the log is not drained: {:?}", self.engine.has_failed()));
            return;
        }
        let detached = self.random.chance(50);
        let mut pair = Pair::new(&mut self.disk, &mut self.flash);
        assert_eq!(recovery::release(&mut pair, &mut superblock, is_empty, detached), Ok(true));
        for sector in 0..self.given.disk_bytes / SECTOR_BYTES {
            let bytes = self.disk.read(sector * SECTOR_BYTES, SECTOR_BYTES).to_vec();
            let result = self.users.register.read(sector, &bytes, self.users.now(), self.users.now());
            self.violations.extend(result.err().map(|error| format!("raw disk: {error}")));
        }
        // A volume that has gone its own way can be attached again, as long as it did nothing.
        if let Err(refusal) = self.recover() {
            self.violations.push(format!("refused after a clean stop: {refusal}"));
            return;
        }
        self.check_after_crash();
    }
}
