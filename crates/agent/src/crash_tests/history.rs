//! The reference model: what happened to each file and when, so that for any moment it can be said which
//! bytes may be there.
//!
//! Files consist of cells of 256 bytes, written whole; a cell names the write it came from, its file and its
//! place, so that bytes that belong elsewhere are noticed. Time is counted in events, of which every storage
//! operation is one: a crash at an operation is a moment.

use std::ops::Range;

/// Bytes of a cell; sectors hold whole cells.
pub const CELL_BYTES: u64 = 256;

/// The bytes of a cell as write `version` of file `file` leaves them; version zero leaves zeros.
pub fn cell_bytes(file: usize, cell: u64, version: u32) -> Vec<u8> {
    if version == 0 {
        return vec![0; CELL_BYTES as usize];
    }
    let mut unit = [0; 16];
    unit[..4].copy_from_slice(&version.to_le_bytes());
    unit[4..8].copy_from_slice(&(file as u32 + 1).to_le_bytes());
    unit[8..].copy_from_slice(&cell.to_le_bytes());
    unit.repeat(CELL_BYTES as usize / 16)
}

/// Which write the bytes of a cell came from.
fn version_of(file: usize, cell: u64, bytes: &[u8]) -> Result<u32, String> {
    let version = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    if bytes == cell_bytes(file, cell, version) { Ok(version) } else { Err(format!("{:02x?}", &bytes[..16])) }
}

#[derive(Clone, Debug)]
struct Write {
    version: u32,
    cells: Range<u64>,
    /// It leaves zeros: a truncation.
    zero: bool,
    /// It goes to the slow file.
    direct: bool,
    begun: u64,
    done: Option<u64>,
}

impl Write {
    fn leaves(&self) -> u32 {
        if self.zero { 0 } else { self.version }
    }
}

/// What a crash took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The agent and all threads.
    Processes,
    /// Everything not synced.
    Power,
}

/// What happened to one file.
#[derive(Clone, Debug, Default)]
pub struct History {
    file: usize,
    initial: Vec<u32>,
    /// What power loss may bring back of each cell until the next sync.
    older: Vec<Vec<u32>>,
    writes: Vec<Write>,
    /// Syncs that succeeded: begin and end.
    syncs: Vec<(u64, u64)>,
    /// Syncs of the slow file that failed: the kernel may have forgotten what was written to it and not synced before.
    pub doubts: Vec<u64>,
    /// From each moment on: the size, where it is certain.
    sizes: Vec<(u64, Option<u64>)>,
    resizing: u32,
    disturbed: bool,
}

impl History {
    pub fn new(file: usize) -> History {
        History { file, sizes: vec![(0, Some(0))], ..History::default() }
    }

    /// A write of cells begins; a truncation to `cells.start` if `zero`.
    pub fn begin_write(&mut self, version: u32, cells: Range<u64>, zero: bool, now: u64) {
        let truncated = self.writes.iter().any(|write| write.zero && write.done.is_none());
        self.disturbed |= self.resizing > 0 && (zero || truncated);
        self.resizing += 1;
        self.sizes.push((now, None));
        self.writes.push(Write { version, cells, zero, direct: zero, begun: now, done: None });
    }

    /// It goes to the slow file.
    pub fn go_direct(&mut self, version: u32) {
        self.writes.iter_mut().filter(|write| write.version == version).for_each(|write| write.direct = true);
    }

    /// It was acknowledged; or it failed, and may or may not have happened.
    pub fn end_write(&mut self, version: u32, done: bool, now: u64) {
        let Some(at) = self.writes.iter().position(|write| write.version == version) else { return };
        self.resizing -= 1;
        if done {
            self.writes[at].done = Some(now);
        } else {
            self.disturbed = true;
        }
        let Write { ref cells, zero, .. } = self.writes[at];
        if self.resizing > 0 {
            return;
        }
        let size = if zero && done && self.alone(at) {
            self.disturbed = false;
            Some(cells.start * CELL_BYTES)
        } else if self.disturbed {
            None
        } else {
            let before = self.sizes.iter().rev().find_map(|(_, size)| *size).unwrap_or(0);
            let since = self.sizes.iter().rev().take_while(|(_, size)| size.is_none()).map(|(begun, _)| *begun).min();
            let ends = self.writes.iter().filter(|write| Some(write.begun) >= since && !write.zero);
            Some(ends.map(|write| write.cells.end * CELL_BYTES).max().unwrap_or(0).max(before))
        };
        self.sizes.push((now, size));
    }

    fn alone(&self, at: usize) -> bool {
        let begun = self.writes[at].begun;
        !self
            .writes
            .iter()
            .enumerate()
            .any(|(other, write)| other != at && (write.begun > begun || write.done.is_none_or(|done| done > begun)))
    }

    pub fn synced(&mut self, begun: u64, now: u64) {
        self.syncs.push((begun, now));
    }

    /// Cells that were ever touched lie before this one.
    pub fn cells(&self) -> u64 {
        let written = self.writes.iter().filter(|write| !write.zero).map(|write| write.cells.end);
        written.max().unwrap_or(0).max(self.initial.len() as u64)
    }

    /// Whether `write` is known to have taken effect, for good, at moment `now`; `all` touch the same cell.
    /// What a program wrote over synced bytes on the slow file itself may be lost with them when that cannot
    /// be synced.
    fn counts(&self, write: &Write, all: &[&Write], now: u64, loss: Loss) -> bool {
        let Some(done) = write.done else { return false };
        let doubted = |from: u64, until: u64| self.doubts.iter().any(|doubt| (from..until).contains(doubt));
        let overwritten = || all.iter().any(|later| later.direct && later.begun > done && doubted(later.begun, now));
        let covered = || {
            let by = |&(begun, ended): &(u64, u64)| done < begun && ended < now && !doubted(write.begun, ended);
            self.syncs.iter().any(by) && !overwritten()
        };
        match loss {
            Loss::Power => covered(),
            Loss::Processes => done < now && (!doubted(write.begun, now) || covered()),
        }
    }

    /// The versions a cell may hold when everything at moment `now` was lost that `loss` takes. `begun` is
    /// when the look began.
    fn allowed(&self, cell: u64, begun: u64, now: u64, loss: Loss) -> Vec<u32> {
        let touching: Vec<&Write> = self.writes.iter().filter(|write| write.cells.contains(&cell)).collect();
        let last =
            touching.iter().filter(|write| self.counts(write, &touching, begun, loss)).map(|write| write.begun).max();
        let alive = |done: Option<u64>| done.is_none_or(|done| last.is_none_or(|last| last <= done));
        let initial = alive(Some(0)).then(|| self.initial.get(cell as usize).copied().unwrap_or(0));
        let written = touching.iter().copied().filter(|write| write.begun < now && alive(write.done));
        let synced = self.syncs.iter().any(|(_, ended)| *ended < now);
        let older = self.older.get(cell as usize).filter(|_| loss == Loss::Power && !synced && last.is_none());
        initial.into_iter().chain(older.into_iter().flatten().copied()).chain(written.map(Write::leaves)).collect()
    }

    /// Whether these bytes may be what a look between `begun` and `now` finds at `first` and after; the versions seen.
    pub fn check(&self, first: u64, bytes: &[u8], begun: u64, now: u64, loss: Loss) -> Result<Vec<u32>, String> {
        let mut versions = Vec::new();
        for (bytes, cell) in bytes.chunks(CELL_BYTES as usize).zip(first..) {
            let allowed = self.allowed(cell, begun, now, loss);
            let place = format!("file {} cell {cell}", self.file);
            let version = version_of(self.file, cell, bytes)
                .map_err(|found| format!("{place} holds foreign bytes {found}; allowed {allowed:?}"))?;
            if !allowed.contains(&version) {
                let touching: Vec<&Write> = self.writes.iter().filter(|write| write.cells.contains(&cell)).collect();
                return Err(format!(
                    "{place} holds version {version}; allowed {allowed:?} at {begun} to {now}; writes \
                     {touching:?}, syncs {:?}, doubts {:?}",
                    self.syncs, self.doubts
                ));
            }
            versions.push(version);
        }
        Ok(versions)
    }

    /// Whether this may be the size after a crash at `now`.
    pub fn check_size(&self, size: u64, now: u64, loss: Loss) -> Result<(), String> {
        let at = |moment: u64| self.sizes.iter().rev().find(|(from, _)| *from < moment).and_then(|(_, size)| *size);
        let expected = match loss {
            Loss::Processes => at(now),
            Loss::Power => {
                let sync = self.syncs.iter().filter(|(_, ended)| *ended < now).map(|(begun, _)| *begun).max();
                let quiet = |sync: &u64| !self.sizes.iter().any(|(from, _)| (*sync..now).contains(from));
                sync.filter(quiet).and_then(at)
            }
        };
        match expected.filter(|expected| *expected != size && self.doubts.is_empty()) {
            Some(expected) => Err(format!("file {} is {size} bytes long, not {expected}: {self:?}", self.file)),
            None => Ok(()),
        }
    }

    /// What was seen after a crash at `now` is all there is from then on; unless the power failed, more may
    /// be lost with it.
    pub fn settle(&mut self, versions: Vec<u32>, size: u64, now: u64, loss: Loss) {
        let older = match loss {
            Loss::Processes => (0..self.cells()).map(|cell| self.allowed(cell, now, now, Loss::Power)).collect(),
            Loss::Power => Vec::new(),
        };
        let sizes = vec![(0, Some(size))];
        *self = History { file: self.file, initial: versions, older, sizes, ..History::default() };
    }
}
