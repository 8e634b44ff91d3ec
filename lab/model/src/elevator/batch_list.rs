//! Waiting commands, sorted.

use std::collections::BTreeMap;

use super::part::{Batch, Part};

/// Commands of one direction, by address and by age.
#[derive(Debug)]
pub(super) struct BatchList<T> {
    by_address: BTreeMap<(u64, u64), Batch<T>>,
    /// Left empty by a list that nobody asks for its oldest.
    by_age: BTreeMap<u64, u64>,
    keeps_age: bool,
}

impl<T> Default for BatchList<T> {
    fn default() -> BatchList<T> {
        BatchList { by_address: BTreeMap::new(), by_age: BTreeMap::new(), keeps_age: true }
    }
}

impl<T: Copy> BatchList<T> {
    /// An empty list by address alone.
    pub(super) fn without_age() -> BatchList<T> {
        BatchList { keeps_age: false, ..BatchList::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn insert(&mut self, batch: Batch<T>) {
        if self.keeps_age {
            self.by_age.insert(batch.sequence, batch.address);
        }
        self.by_address.insert((batch.address, batch.sequence), batch);
    }

    fn remove(&mut self, address: u64, sequence: u64) -> Option<Batch<T>> {
        if self.keeps_age {
            self.by_age.remove(&sequence);
        }
        self.by_address.remove(&(address, sequence))
    }

    /// Appends `part` to a command that ends where it starts, or puts it before one that starts where it ends, up to
    /// `bytes_max` in all.
    pub(super) fn merge(&mut self, part: &Part<T>, bytes_max: u64) -> bool {
        let end = part.address + part.length;
        if let Some((_, batch)) = self.by_address.range_mut(..(part.address, 0)).next_back()
            && batch.end == part.address
            && end - batch.address <= bytes_max
        {
            batch.end = end;
            batch.merged.push(part.owner);
            return true;
        }
        let Some((&(address, sequence), batch)) = self.by_address.range((end, 0)..).next() else { return false };
        if address != end || batch.end - part.address > bytes_max {
            return false;
        }
        let mut batch = self.remove(address, sequence).expect("the command was just seen");
        batch.address = part.address;
        batch.merged.push(part.owner);
        self.insert(batch);
        true
    }

    pub(super) fn oldest(&self) -> Option<&Batch<T>> {
        let (sequence, address) = self.by_age.first_key_value()?;
        self.by_address.get(&(*address, *sequence))
    }

    pub(super) fn take_oldest(&mut self) -> Option<Batch<T>> {
        let (sequence, address) = self.by_age.pop_first()?;
        self.by_address.remove(&(address, sequence))
    }

    /// Takes the first command at or after `address`.
    pub(super) fn take_from(&mut self, address: u64) -> Option<Batch<T>> {
        let (&(address, sequence), _) = self.by_address.range((address, 0)..).next()?;
        self.remove(address, sequence)
    }
}
