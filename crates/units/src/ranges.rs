//! Values of ranges of the disk that do not overlap: a newer one cuts those before it.

use std::collections::BTreeMap;

use crate::request::Range;

/// Ranges with a value each, by address.
#[derive(Clone, Debug)]
pub struct Ranges<V> {
    by_offset: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Ranges<V> {
    fn default() -> Ranges<V> {
        Ranges { by_offset: BTreeMap::new() }
    }
}

impl<V: Copy> Ranges<V> {
    /// Those that share a byte with `range`, whole, in address order.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = (Range, V)> + '_ {
        let before = self.by_offset.range(..range.offset).next_back().map_or(range.offset, |(offset, _)| *offset);
        self.by_offset
            .range(before..range.end().max(before))
            .map(|(offset, (end, value))| (Range::between(*offset, *end), *value))
            .filter(move |(held, _)| held.overlaps(range))
    }

    /// Takes every byte of `range` out; what it held, cut to it.
    pub fn carve(&mut self, range: Range) -> Vec<(Range, V)> {
        let held: Vec<(Range, V)> = self.overlapping(range).collect();
        for (old, value) in &held {
            self.by_offset.remove(&old.offset);
            for rest in [Range::between(old.offset, range.offset), Range::between(range.end(), old.end())] {
                if !rest.is_empty() {
                    self.by_offset.insert(rest.offset, (rest.end(), *value));
                }
            }
        }
        held.into_iter().map(|(old, value)| (old.intersection(range), value)).collect()
    }

    /// Gives every byte of `range` this value.
    pub fn insert(&mut self, range: Range, value: V) {
        self.carve(range);
        if !range.is_empty() {
            self.by_offset.insert(range.offset, (range.end(), value));
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Range, V)> + '_ {
        self.by_offset.iter().map(|(offset, (end, value))| (Range::between(*offset, *end), *value))
    }

    /// Takes out the first.
    pub fn pop_first(&mut self) -> Option<(Range, V)> {
        self.by_offset.pop_first().map(|(offset, (end, value))| (Range::between(offset, end), value))
    }

    /// Whether any byte of `range` has a value.
    pub fn touches(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_offset.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }
}

impl<V: Copy + PartialEq> Ranges<V> {
    /// Gives every byte of `range` this value, as one with what touches it and has the same.
    pub fn join(&mut self, range: Range, value: V) {
        if range.is_empty() {
            return;
        }
        self.carve(range);
        let (mut offset, mut end) = (range.offset, range.end());
        let before = self.by_offset.range(..offset).next_back().map(|(begin, held)| (*begin, *held));
        if let Some((begin, held)) = before
            && held == (offset, value)
        {
            offset = begin;
        }
        if let Some((behind, held)) = self.by_offset.get(&end).copied()
            && held == value
        {
            self.by_offset.remove(&end);
            end = behind;
        }
        self.by_offset.insert(offset, (end, value));
    }
}

impl Ranges<u64> {
    /// Gives every byte of `range` this value, but for those that have a greater one.
    pub fn raise(&mut self, range: Range, value: u64) {
        let greater: Vec<(Range, u64)> = self.carve(range).into_iter().filter(|(_, held)| *held > value).collect();
        self.join(range, value);
        greater.into_iter().for_each(|(part, held)| self.insert(part, held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cuts_those_before_it_and_only_a_greater_one_is_raised() {
        let mut ranges = Ranges::default();
        ranges.insert(Range::new(10, 20), 5u64);
        ranges.raise(Range::new(0, 15), 3);
        ranges.raise(Range::new(20, 2), 9);
        let held = |offset, end, value| (Range::between(offset, end), value);
        assert_eq!(
            ranges.iter().collect::<Vec<_>>(),
            [held(0, 10, 3), held(10, 15, 5), held(15, 20, 5), held(20, 22, 9), held(22, 30, 5)]
        );
        assert_eq!(ranges.carve(Range::new(21, 3)), [held(21, 22, 9), held(22, 24, 5)]);
        assert_eq!(ranges.overlapping(Range::between(21, 99)).next(), Some(held(24, 30, 5)));
    }

    #[test]
    fn what_is_raised_piece_by_piece_to_the_same_value_is_one() {
        let mut ranges = Ranges::default();
        for offset in [30, 0, 20, 10, 45] {
            ranges.raise(Range::new(offset, 10), 4u64);
        }
        ranges.raise(Range::new(40, 5), 7);
        let held = |offset, end, value| (Range::between(offset, end), value);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [held(0, 40, 4), held(40, 45, 7), held(45, 55, 4)]);
    }
}
