//! A call for many ranges at once; what becomes of it is in `list_requests.rs`.

use headstart_units::request::Range;

/// A call under way.
#[derive(Clone, Debug)]
pub struct List {
    /// Its ranges.
    pub ranges: Vec<Range>,
    /// The range under way, where they go one after another.
    pub next: usize,
    /// Of each server, by column: the first range that it was not asked for yet.
    pub cursors: Vec<usize>,
    /// Servers that have ranges to come or under way.
    pub left: u32,
}

impl List {
    /// A call that has not begun.
    pub fn new(ranges: Vec<Range>) -> List {
        List { ranges, next: 0, cursors: Vec::new(), left: 0 }
    }

    /// Bytes of all ranges.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.length).sum()
    }
}
