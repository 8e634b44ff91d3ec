//! The reference model: every byte of a file is an atomic register.
//!
//! A value is *dead* once something newer was seen: a write that began after it had taken effect has
//! completed or been read, or a read that began after it had taken effect returned another value. No read
//! that begins later may return it (I1, I2). A value that was dead when a completed fsync began must not come
//! back after power loss either (I3). Truncation writes zeros. A write whose writer died may take effect at
//! any later time.

use super::storage::{Byte, Cells};
use headstart_units::request::Range;

#[derive(Clone, Debug)]
struct Candidate {
    version: u32,
    zero: bool,
    begun: u64,
    done: Option<u64>,
    dead: Option<u64>,
    dead_on_power_loss: bool,
}

/// The registers of one file.
#[derive(Clone, Debug)]
pub struct Register {
    bytes: Cells<Vec<Candidate>>,
}

fn initial(version: u32, zero: bool, now: u64) -> Candidate {
    Candidate { version, zero, begun: now, done: Some(now), dead: None, dead_on_power_loss: false }
}

/// `version` took effect at `now` at the latest; values done before `since`, or before it began, are dead.
fn seen(candidates: &mut [Candidate], version: u32, since: u64, now: u64) {
    let Some(newer) = candidates.iter_mut().find(|candidate| candidate.version == version) else { return };
    newer.done = Some(newer.done.map_or(now, |done| done.min(now)));
    let since = since.max(newer.begun);
    for older in candidates.iter_mut().filter(|candidate| candidate.version != version) {
        if older.done.is_some_and(|done| done < since) && older.dead.is_none() {
            older.dead = Some(now);
        }
    }
}

impl Register {
    pub fn new() -> Register {
        Register { bytes: Cells::new(vec![initial(0, true, 0)]) }
    }

    pub fn begin_write(&mut self, range: Range, version: u32, zero: bool, now: u64) {
        self.bytes.update(range, |candidates| {
            candidates.push(Candidate { done: None, ..initial(version, zero, now) });
        });
    }

    pub fn end_write(&mut self, range: Range, version: u32, now: u64) {
        self.bytes.update(range, |candidates| seen(candidates, version, 0, now));
    }

    /// An fsync that began at `begun` has returned.
    pub fn synced(&mut self, begun: u64) {
        self.bytes.update(Range::new(0, u64::MAX), |candidates| {
            for candidate in candidates.iter_mut() {
                candidate.dead_on_power_loss |= candidate.dead.is_some_and(|dead| dead <= begun);
            }
        });
    }

    /// A read that began at `begun` and ends `now` returned `byte` all over `range`.
    pub fn read(&mut self, range: Range, byte: Byte, begun: u64, now: u64) -> Result<(), String> {
        let mut result = Ok(());
        self.bytes.update(range, |candidates| {
            let fits =
                |candidate: &Candidate| matches(candidate, byte) && candidate.dead.is_none_or(|dead| dead > begun);
            let found: Vec<u32> = candidates.iter().filter(|c| fits(c)).map(|c| c.version).collect();
            match found[..] {
                [] => result = Err(format!("a read of {range:?} returned {byte:?}; allowed: {candidates:?}")),
                [version] => seen(candidates, version, begun, now),
                _ => {}
            }
        });
        result
    }

    /// After a crash `byte` is what everybody will read in `range`: checked, and from now on the only value.
    pub fn settle(&mut self, range: Range, byte: Byte, power: bool, now: u64) -> Result<(), String> {
        let mut result = Ok(());
        self.bytes.update(range, |candidates| {
            let lost = |c: &Candidate| if power { c.dead_on_power_loss } else { c.dead.is_some() };
            match candidates.iter().find(|c| matches(c, byte) && !lost(c)) {
                None => result = Err(format!("{range:?} holds {byte:?} after the crash; allowed: {candidates:?}")),
                Some(found) => *candidates = vec![initial(found.version, found.zero, now)],
            }
        });
        result
    }
}

fn matches(candidate: &Candidate, byte: Byte) -> bool {
    match byte {
        Byte::Zero => candidate.zero,
        Byte::Garbage => false,
        Byte::Written { version, shift } => !candidate.zero && candidate.version == version && shift == 0,
    }
}
