//! Values of ranges of bytes.

use std::collections::BTreeMap;

use headstart_units::request::Range;

/// Disjoint ranges, each with a value.
#[derive(Clone, Debug)]
pub struct Ranges<T> {
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { by_start: BTreeMap::new() }
    }
}

impl<T: Clone> Ranges<T> {
    /// The parts of `range` in order, with their values where there are any.
    pub fn parts(&self, range: Range) -> Vec<(Range, Option<&T>)> {
        let mut parts = Vec::new();
        let mut at = range.offset;
        let first = self.by_start.range(..=range.offset).next_back().map_or(range.offset, |(start, _)| *start);
        for (&start, (end, value)) in self.by_start.range(first..range.end()) {
            let (start, end) = (start.max(range.offset), (*end).min(range.end()));
            if start >= end {
                continue;
            }
            if at < start {
                parts.push((Range::between(at, start), None));
            }
            parts.push((Range::between(start, end), Some(value)));
            at = end;
        }
        if at < range.end() {
            parts.push((Range::between(at, range.end()), None));
        }
        parts
    }

    /// All that has a value.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.by_start.iter().map(|(start, (end, _))| Range::between(*start, *end))
    }

    /// Gives `range` a value, in place of those it has; `cut` moves a value's begin by so many bytes.
    pub fn set(&mut self, range: Range, value: T, cut: impl Fn(&T, u64) -> T) {
        if range.is_empty() {
            return;
        }
        self.split(range.offset, &cut);
        self.split(range.end(), &cut);
        let gone: Vec<u64> = self.by_start.range(range.offset..range.end()).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| drop(self.by_start.remove(start)));
        self.by_start.insert(range.offset, (range.end(), value));
    }

    /// Changes the values within `range`, which may begin with `default`.
    pub fn update(&mut self, range: Range, default: &T, mut change: impl FnMut(&mut T)) {
        let same = |value: &T, _: u64| value.clone();
        self.split(range.offset, &same);
        self.split(range.end(), &same);
        let missing: Vec<Range> =
            self.parts(range).iter().filter(|(_, value)| value.is_none()).map(|(part, _)| *part).collect();
        for part in missing {
            self.by_start.insert(part.offset, (part.end(), default.clone()));
        }
        self.by_start.range_mut(range.offset..range.end()).for_each(|(_, (_, value))| change(value));
    }

    fn split(&mut self, at: u64, cut: &impl Fn(&T, u64) -> T) {
        let Some((&start, &mut (end, ref value))) = self.by_start.range_mut(..at).next_back() else { return };
        if end > at {
            let rest = cut(value, at - start);
            self.by_start.get_mut(&start).expect("it was just seen").0 = at;
            self.by_start.insert(at, (end, rest));
        }
    }
}

impl<T> Ranges<T> {
    /// Where the range that holds `at` begins.
    pub fn start_of(&self, at: u64) -> u64 {
        self.by_start.range(..=at).next_back().map_or(at, |(start, _)| *start)
    }
}
