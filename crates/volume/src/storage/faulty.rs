//! Another storage whose devices fail, forget, and answer in any order, as a test wants it; and power cuts.
//!
//! What was written and not flushed is remembered with what it replaced. A cut takes the power away at an
//! operation: neither it nor any that is under way is answered, and [`Faults::crash`] then leaves of what was
//! not flushed some, all or none, whole or torn, in any order. A flush covers what was answered when it was
//! given, and nothing else.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headstart_block::devices::{Device, Devices};
use headstart_units::chance::Random;

use super::{Action, Completion, Operation, Storage};

const SECTOR: usize = 512;

/// What goes wrong. Operations are counted from 1, those of both devices together.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// This one fails.
    pub fails: Option<u64>,
    /// One in so many fails; zero: none.
    pub fails_one_in: u64,
    /// From this operation on everything of the device fails.
    pub is_gone: Option<(Device, u64)>,
    /// The power fails when this operation is given.
    pub cut: Option<u64>,
    /// A bit of one in so many reads of flash is wrong; zero: of none.
    pub flips_one_in: u64,
    /// Turns of the loop by which the completions of disk and flash are late at most. Those that are there
    /// together come in any order.
    pub late_turns: [u64; 2],
}

/// A write that may be lost.
struct Unflushed {
    id: u64,
    device: Device,
    offset: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    answered: bool,
}

struct State {
    plan: Plan,
    random: Random,
    operations: u64,
    is_cut: bool,
    unflushed: Vec<Unflushed>,
    media: Box<dyn Devices + Send>,
}

/// The test's end of a faulty storage. Clones are the same.
#[derive(Clone)]
pub struct Faults {
    state: Arc<(Mutex<State>, Condvar)>,
}

/// `Devices` as a trait object is lent.
struct Lent<'a>(&'a mut (dyn Devices + Send));

impl Faults {
    /// Faults of these media, which the storage's operations reach as well.
    pub fn new(plan: Plan, seed: u64, media: Box<dyn Devices + Send>) -> Faults {
        let state = State { plan, random: Random(seed), operations: 0, is_cut: false, unflushed: Vec::new(), media };
        Faults { state: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations were given.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Another plan from now on.
    pub fn set(&self, plan: Plan) {
        self.lock().plan = plan;
    }

    /// Whether the power has failed.
    pub fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Waits so long at most for the power to fail; whether it has.
    pub fn wait_for_cut(&self, at_most: Duration) -> bool {
        let waited = self.state.1.wait_timeout_while(self.lock(), at_most, |state| !state.is_cut);
        waited.map_or_else(|poisoned| poisoned.into_inner().0.is_cut, |(state, _)| state.is_cut)
    }

    /// What the media hold once the power is back. The storage is no longer used.
    pub fn crash(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        let mut writes = std::mem::take(&mut state.unflushed);
        let mut media = Lent(&mut *state.media);
        for write in writes.iter().rev() {
            media.put(write.device, write.offset, &write.before);
        }
        let mood = state.random.below(5);
        if mood == 4 {
            for index in (1..writes.len()).rev() {
                writes.swap(index, state.random.below(index as u64 + 1) as usize);
            }
        }
        for Unflushed { device, offset, after, .. } in writes {
            match mood {
                0 => {}
                1 => media.put(device, offset, &after),
                2 if state.random.chance(50) => media.put(device, offset, &after),
                2 => {}
                _ => media.tear(device, offset, &after, &mut state.random),
            }
        }
    }
}

impl Lent<'_> {
    fn put(&mut self, device: Device, offset: u64, bytes: &[u8]) {
        self.0.write(device, offset, bytes).expect("the media of a faulty storage do not fail");
    }

    fn tear(&mut self, device: Device, offset: u64, bytes: &[u8], random: &mut Random) {
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            if random.chance(60) {
                self.put(device, offset + (index * SECTOR) as u64, sector);
            }
        }
    }
}

impl State {
    fn fails(&mut self, device: Device) -> bool {
        let gone = self.plan.is_gone.is_some_and(|(gone, from)| gone == device && self.operations >= from);
        let one = self.plan.fails == Some(self.operations);
        let chance = self.plan.fails_one_in > 0 && self.random.below(self.plan.fails_one_in) == 0;
        gone || one || chance
    }

    /// Remembers a write before it is carried out.
    fn remember(&mut self, id: u64, device: Device, offset: u64, after: Vec<u8>) {
        let mut before = vec![0; after.len()];
        let known = self.media.read(device, offset, &mut before);
        known.expect("the media of a faulty storage do not fail");
        self.unflushed.push(Unflushed { id, device, offset, before, after, answered: false });
    }

    /// Some sectors of a write that fails.
    fn tear(&mut self, id: u64, device: Device, offset: u64, bytes: &[u8]) {
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            if self.random.chance(50) {
                let offset = offset + (index * SECTOR) as u64;
                self.remember(id, device, offset, sector.to_vec());
                Lent(&mut *self.media).put(device, offset, sector);
            }
        }
    }
}

/// A storage with faults.
pub struct Faulty {
    inner: Box<dyn Storage>,
    faults: Faults,
    /// Device of operations under way; of flushes, the writes they cover; reads of flash may come back wrong.
    under_way: Vec<UnderWay>,
    /// What was carried out, with the turns until it is answered.
    held: Vec<(u64, Completion)>,
}

struct UnderWay {
    id: u64,
    device: Device,
    is_read: bool,
    covers: Vec<u64>,
}

impl Faulty {
    /// In front of `inner`.
    pub fn new(inner: Box<dyn Storage>, faults: Faults) -> Faulty {
        Faulty { inner, faults, under_way: Vec::new(), held: Vec::new() }
    }

    fn hold(&mut self, device: Device, completion: Completion) {
        let mut state = self.faults.lock();
        let late = state.plan.late_turns[device as usize];
        let turns = state.random.below(late + 1);
        drop(state);
        self.held.push((turns, completion));
    }

    /// What the device has done is done; what it says may be wrong.
    fn on_completion(&mut self, mut completion: Completion) {
        let index = self.under_way.iter().position(|one| one.id == completion.id).expect("it is under way");
        let UnderWay { device, is_read, covers, .. } = self.under_way.swap_remove(index);
        let mut state = self.faults.lock();
        if completion.result.is_ok() {
            state.unflushed.retain(|write| write.device != device || !covers.contains(&write.id));
        }
        let flips = state.plan.flips_one_in;
        if let Ok(bytes) = &mut completion.result
            && is_read
            && device == Device::Flash
            && flips > 0
            && state.random.below(flips) == 0
        {
            let bit = state.random.below(8 * bytes.len() as u64);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        drop(state);
        self.hold(device, completion);
    }
}

impl Storage for Faulty {
    fn submit(&mut self, operation: Operation) {
        let (id, device, offset) = (operation.id, operation.device, operation.offset);
        let mut state = self.faults.lock();
        state.operations += 1;
        if state.plan.cut == Some(state.operations) {
            state.is_cut = true;
            self.faults.state.1.notify_all();
        }
        let fails = state.fails(device);
        let mut written = Vec::new();
        if let Action::Write(slices) = &operation.action {
            slices.iter().for_each(|slice| written.extend_from_slice(slice.bytes()));
        }
        if let Action::Zero(length) = operation.action {
            written.resize(length as usize, 0);
        }
        if state.is_cut {
            // It may have reached the medium or not.
            if !written.is_empty() {
                state.remember(id, device, offset, written);
            }
            return;
        }
        if fails {
            if !written.is_empty() {
                state.tear(id, device, offset, &written);
            }
            drop(state);
            self.hold(device, Completion { id, result: Err(io::Error::from_raw_os_error(libc::EIO)) });
            return;
        }
        let mut covers = Vec::new();
        if let Action::Flush = operation.action {
            let answered = state.unflushed.iter().filter(|write| write.device == device && write.answered);
            covers.extend(answered.map(|write| write.id));
        }
        if !written.is_empty() {
            state.remember(id, device, offset, written);
        }
        drop(state);
        let is_read = matches!(operation.action, Action::Read(_));
        self.under_way.push(UnderWay { id, device, is_read, covers });
        self.inner.submit(operation);
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let timeout = if self.held.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.inner.wait(timeout);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let mut arrived = Vec::new();
        self.inner.reap(&mut arrived);
        arrived.into_iter().for_each(|completion| self.on_completion(completion));
        let mut state = self.faults.lock();
        if state.is_cut {
            self.held.clear();
            return;
        }
        let first = completions.len();
        for (turns, completion) in std::mem::take(&mut self.held) {
            match turns.checked_sub(1) {
                Some(left) => self.held.push((left, completion)),
                None => completions.push(completion),
            }
        }
        let new = &mut completions[first..];
        for index in (1..new.len()).rev() {
            new.swap(index, state.random.below(index as u64 + 1) as usize);
        }
        for completion in new {
            state
                .unflushed
                .iter_mut()
                .filter(|write| write.id == completion.id)
                .for_each(|write| write.answered = true);
        }
    }

    fn description(&self) -> String {
        format!("faulty {}", self.inner.description())
    }
}
