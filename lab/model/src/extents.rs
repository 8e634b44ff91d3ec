//! A set of dirty byte ranges, sorted and without overlap.
//!
//! Each range has an *epoch*, the number of flushes that had been asked for when its bytes became dirty. Ranges that
//! touch are one range only if they share the epoch, so that a flush waits for no byte that came after it.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    epoch: u64,
}

/// Dirty ranges by their first byte.
#[derive(Debug, Default)]
pub struct Extents {
    by_start: BTreeMap<u64, Extent>,
    bytes: u64,
}

impl Extents {
    /// Bytes in all ranges.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if nothing is dirty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds `start..end`; bytes that are dirty already keep their epoch. Returns how many became dirty.
    pub fn insert(&mut self, start: u64, end: u64, epoch: u64) -> u64 {
        let before = self.bytes;
        let mut position = self.covered_until(start).min(end);
        while position < end {
            let next = self.by_start.range(position..end).next().map(|(start, extent)| (*start, extent.end));
            let gap_end = next.map_or(end, |(start, _)| start);
            if gap_end > position {
                self.insert_gap(position, gap_end, epoch);
            }
            position = next.map_or(end, |(_, end)| end);
        }
        self.bytes - before
    }

    fn insert_gap(&mut self, start: u64, end: u64, epoch: u64) {
        self.bytes += end - start;
        let mut joined = Extent { end, epoch };
        if let Some(after) = self.by_start.get(&end).copied().filter(|after| after.epoch == epoch) {
            self.by_start.remove(&end);
            joined.end = after.end;
        }
        if let Some((_, before)) = self.by_start.range_mut(..start).next_back()
            && before.end == start
            && before.epoch == epoch
        {
            before.end = joined.end;
            return;
        }
        self.by_start.insert(start, joined);
    }

    /// The first byte at or after `position` that is not dirty.
    pub fn covered_until(&self, position: u64) -> u64 {
        let mut until = position;
        if let Some((_, extent)) = self.by_start.range(..=position).next_back() {
            until = until.max(extent.end);
        }
        while until > position
            && let Some(extent) = self.by_start.get(&until)
        {
            until = extent.end;
        }
        until
    }

    /// The first dirty run at or after `cursor` (a range that `cursor` lies in counts from `cursor`), neighbours
    /// coalesced, at most `bytes_max` long.
    pub fn run_from(&self, cursor: u64, bytes_max: u64) -> Option<(u64, u64)> {
        let inside = self.by_start.range(..=cursor).next_back().is_some_and(|(_, extent)| extent.end > cursor);
        let start = if inside { cursor } else { *self.by_start.range(cursor..).next()?.0 };
        Some((start, self.covered_until(start).min(start.saturating_add(bytes_max))))
    }

    /// Ranges of epochs up to `epoch`, as (start, end): from the first at or after `cursor` on, and around.
    pub fn around_up_to(&self, cursor: u64, epoch: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let around = self.by_start.range(cursor..).chain(self.by_start.range(..cursor));
        around.filter(move |(_, extent)| extent.epoch <= epoch).map(|(&start, extent)| (start, extent.end))
    }

    /// Removes every byte of `start..end`; `removed` is told the epoch and size of each piece.
    pub fn remove(&mut self, start: u64, end: u64, mut removed: impl FnMut(u64, u64)) {
        while let Some((first, extent)) =
            self.by_start.range(..end).next_back().map(|(first, extent)| (*first, *extent))
        {
            if extent.end <= start {
                return;
            }
            self.by_start.remove(&first);
            if extent.end > end {
                self.by_start.insert(end, extent);
            }
            if first < start {
                self.by_start.insert(first, Extent { end: start, epoch: extent.epoch });
            }
            let bytes = extent.end.min(end) - first.max(start);
            self.bytes -= bytes;
            removed(extent.epoch, bytes);
        }
    }

    /// Up to `count` ranges around `address`, as (start, end): half of them at or after it, the rest before.
    pub fn around(&self, address: u64, count: usize) -> impl Iterator<Item = (u64, u64)> + '_ {
        let after = self.by_start.range(address..).take(count.div_ceil(2));
        let before = self.by_start.range(..address).rev().take(count / 2);
        after.chain(before).map(|(start, extent)| (*start, extent.end))
    }
}

#[cfg(test)]
mod tests;
