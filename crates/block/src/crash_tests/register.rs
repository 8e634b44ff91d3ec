//! The reference model: every sector of the disk is an atomic register.
//!
//! A value is *dead* once something newer was seen: a write that began after it had taken effect has
//! completed or been read. No read that begins later may return it (V1). One that an answered write had
//! replaced when a completed FLUSH began must not come back after a crash (V2); of a write that was only read
//! before it was answered, FLUSH promises nothing. What is found after a crash is the only value from then on
//! (V3).

use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;

/// The version of zeros that nobody wrote.
pub const NEVER: u32 = 0;
/// What the disk held when the volume was created.
pub const FIRST: u32 = 1;

#[derive(Clone, Debug)]
struct Candidate {
    version: u32,
    zero: bool,
    begun: u64,
    done: Option<u64>,
    dead: Option<u64>,
    /// When a write that replaced it was answered.
    replaced: Option<u64>,
    dead_after_crash: bool,
}

#[derive(Clone, Debug)]
pub struct Register {
    sectors: Vec<Vec<Candidate>>,
}

fn settled(version: u32, zero: bool, now: u64) -> Candidate {
    Candidate { version, zero, begun: now, done: Some(now), dead: None, replaced: None, dead_after_crash: false }
}

/// Bytes of a sector of the disk as written by `version`.
pub fn sector_bytes(version: u32, sector: u64) -> Vec<u8> {
    let word = u64::from(version) << 32 | sector;
    (0..64u64).flat_map(|index| (word ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()).collect()
}

/// Which version a sector holds; zeros are [`NEVER`]. None: bytes that no write made.
pub fn version_of(bytes: &[u8], sector: u64) -> Option<u32> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(NEVER);
    }
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let version = (word >> 32) as u32;
    (bytes == sector_bytes(version, sector)).then_some(version)
}

fn sectors(range: Range) -> std::ops::Range<usize> {
    (range.offset / SECTOR_BYTES) as usize..(range.end() / SECTOR_BYTES) as usize
}

fn seen(candidates: &mut [Candidate], index: usize, since: u64, now: u64, is_answered: bool) {
    let newer = &mut candidates[index];
    newer.done = Some(newer.done.map_or(now, |done| done.min(now)));
    let (since, version) = (since.max(newer.begun), newer.version);
    for older in candidates.iter_mut().filter(|candidate| candidate.version != version) {
        if older.done.is_some_and(|done| done < since) {
            older.dead.get_or_insert(now);
            if is_answered {
                older.replaced.get_or_insert(now);
            }
        }
    }
}

impl Register {
    pub fn new(disk_bytes: u64) -> Register {
        Register { sectors: vec![vec![settled(FIRST, false, 0)]; (disk_bytes / SECTOR_BYTES) as usize] }
    }

    pub fn begin_write(&mut self, range: Range, version: u32, zero: bool, now: u64) {
        for sector in &mut self.sectors[sectors(range)] {
            sector.push(Candidate { done: None, ..settled(version, zero, now) });
        }
    }

    pub fn end_write(&mut self, range: Range, version: u32, now: u64) {
        for sector in &mut self.sectors[sectors(range)] {
            let index = sector.iter().position(|candidate| candidate.version == version).expect("it began");
            seen(sector, index, 0, now, true);
        }
    }

    /// A FUA write has returned: what it replaced must not come back.
    pub fn written_through(&mut self, range: Range, version: u32) {
        for sector in &mut self.sectors[sectors(range)] {
            let Some(newer) = sector.iter().find(|candidate| candidate.version == version) else { continue };
            let begun = newer.begun;
            for older in sector.iter_mut().filter(|candidate| candidate.version != version) {
                older.dead_after_crash |= older.done.is_some_and(|done| done < begun);
            }
        }
    }

    /// A FLUSH that began at `begun` has returned.
    pub fn flushed(&mut self, range: Range, begun: u64) {
        for sector in &mut self.sectors[sectors(range)] {
            for candidate in sector.iter_mut() {
                candidate.dead_after_crash |= candidate.replaced.is_some_and(|replaced| replaced <= begun);
            }
            sector.retain(|candidate| {
                !candidate.dead_after_crash || candidate.dead.is_none_or(|dead| dead + 5000 > begun)
            });
        }
    }

    /// A read that began at `begun` and ends `now` returned these bytes of a sector.
    pub fn read(&mut self, sector: u64, bytes: &[u8], begun: u64, now: u64) -> Result<(), String> {
        let version = version_of(bytes, sector);
        let candidates = &mut self.sectors[sector as usize];
        let fits =
            |candidate: &Candidate| matches(candidate, version) && candidate.dead.is_none_or(|dead| dead > begun);
        let found: Vec<usize> = (0..candidates.len()).filter(|index| fits(&candidates[*index])).collect();
        match found[..] {
            [] => return Err(format!("V1: sector {sector} reads as {version:?}; allowed: {candidates:?}")),
            [index] => seen(candidates, index, begun, now, false),
            _ => {}
        }
        Ok(())
    }

    /// After a crash these bytes are what everybody will read: checked, and from now on the only value.
    pub fn settle(&mut self, sector: u64, bytes: &[u8], now: u64, rotten: bool) -> Result<(), String> {
        let version = version_of(bytes, sector);
        let candidates = &mut self.sectors[sector as usize];
        if let (true, Some(version)) = (rotten, version) {
            // Rot in the last records looks like a torn end: any value of its own may come back.
            *candidates = vec![settled(version, version == NEVER, now)];
            return Ok(());
        }
        let fits = |c: &&Candidate| matches(c, version) && !c.dead_after_crash;
        match candidates.iter().find(fits) {
            None => Err(format!("V2/V3: sector {sector} holds {version:?} after the crash; allowed: {candidates:?}")),
            Some(found) => {
                *candidates = vec![settled(found.version, found.zero, now)];
                Ok(())
            }
        }
    }
}

fn matches(candidate: &Candidate, version: Option<u32>) -> bool {
    match version {
        None => false,
        Some(NEVER) => candidate.zero,
        Some(version) => !candidate.zero && candidate.version == version,
    }
}
