//! Records of several sources, each ordered by start, as one sequence ordered by start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::Record;

/// Holds one record of each source. Of equal starts the source that was given first goes first.
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    heads: Vec<Option<Record>>,
}

impl<S: Iterator<Item = Record>> Merge<S> {
    /// Merges them.
    pub fn new(sources: Vec<S>) -> Merge<S> {
        let mut merge = Merge { heads: vec![None; sources.len()], heap: BinaryHeap::new(), sources };
        (0..merge.sources.len()).for_each(|source| merge.advance(source));
        merge
    }

    fn advance(&mut self, source: usize) {
        self.heads[source] = self.sources[source].next();
        if let Some(record) = self.heads[source] {
            self.heap.push(Reverse((record.start.0, source)));
        }
    }
}

impl<S: Iterator<Item = Record>> Iterator for Merge<S> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let Reverse((_, source)) = self.heap.pop()?;
        let record = self.heads[source].take();
        self.advance(source);
        record
    }
}
