//! What lies over which bytes: a map by offset, whose values are short lists in order.
//!
//! Neighbours with the same list are one span, so that equal contents are equal maps.

use std::collections::BTreeMap;

use headstart_units::request::Range;

/// What lies over the bytes up to `end`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Span<T> {
    end: u64,
    over: Vec<T>,
}

/// Spans by their first bytes; none has an empty list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spans<T>(BTreeMap<u64, Span<T>>);

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans(BTreeMap::new())
    }
}

impl<T: Copy + Ord> Spans<T> {
    /// Whether nothing lies anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What lies over bytes of a range, by parts of it; parts with nothing are left out.
    pub(crate) fn over(&self, range: Range) -> impl Iterator<Item = (Range, &[T])> {
        let first = self.0.range(..=range.offset).next_back().map_or(range.offset, |(start, _)| *start);
        let near = self.0.range(first..range.end().max(first));
        near.map(move |(start, span)| (Range::between(*start, span.end).intersection(range), span.over.as_slice()))
            .filter(|(part, _)| !part.is_empty())
    }

    /// Whether something lies over a byte of a range.
    pub(crate) fn touches(&self, range: Range) -> bool {
        self.over(range).next().is_some()
    }

    /// Whether something lies over every byte of a range.
    pub(crate) fn covers(&self, range: Range) -> bool {
        let mut upto = range.offset;
        for (part, _) in self.over(range) {
            if part.offset != upto {
                return false;
            }
            upto = part.end();
        }
        upto >= range.end()
    }

    /// Everything that lies over a byte of a range, each once, in order.
    pub(crate) fn of(&self, range: Range) -> Vec<T> {
        let mut all: Vec<T> = self.over(range).flat_map(|(_, over)| over.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Puts something over a range.
    pub(crate) fn add(&mut self, range: Range, what: T) {
        self.edit(range, |over| {
            if let Err(at) = over.binary_search(&what) {
                over.insert(at, what);
            }
        });
    }

    /// Takes from a range what `keep` does not want there.
    pub(crate) fn retain(&mut self, range: Range, keep: impl Fn(&T) -> bool) {
        self.edit(range, |over| over.retain(&keep));
    }

    /// Changes the lists of a range, those of bytes with nothing too.
    fn edit(&mut self, range: Range, mut change: impl FnMut(&mut Vec<T>)) {
        if range.is_empty() {
            return;
        }
        self.split(range.offset);
        self.split(range.end());
        let mut at = range.offset;
        while at < range.end() {
            let (end, mut over) = match self.0.range(at..range.end()).next() {
                Some((start, span)) if *start == at => (span.end, self.0.remove(&at).expect("it was found").over),
                Some((start, _)) => (*start, Vec::new()),
                None => (range.end(), Vec::new()),
            };
            change(&mut over);
            if !over.is_empty() {
                self.0.insert(at, Span { end, over });
                self.join(at);
            }
            at = end;
        }
        self.join(range.end());
    }

    /// Makes a span end where `at` is.
    fn split(&mut self, at: u64) {
        if let Some((_, span)) = self.0.range_mut(..at).next_back()
            && span.end > at
        {
            let behind = Span { end: std::mem::replace(&mut span.end, at), over: span.over.clone() };
            self.0.insert(at, behind);
        }
    }

    /// Makes one span of the one at `at` and the one that ends there, if they have the same list.
    fn join(&mut self, at: u64) {
        let Some(span) = self.0.get(&at) else {
            return;
        };
        let end = span.end;
        let before = self.0.range(..at).next_back().filter(|(_, before)| before.end == at && before.over == span.over);
        if let Some(start) = before.map(|(start, _)| *start) {
            self.0.remove(&at);
            self.0.get_mut(&start).expect("it was found").end = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each byte what lies over it.
    fn bytes(spans: &Spans<u8>) -> Vec<Vec<u8>> {
        (0..20).map(|byte| spans.of(Range::new(byte, 1))).collect()
    }

    #[test]
    fn spans_are_lists_by_byte_and_join_where_those_are_equal() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut spans = Spans::default();
        let mut model = vec![Vec::new(); 20];
        for _ in 0..20_000 {
            let (range, what) = (Range::between(next(20), 1 + next(20)), next(4) as u8);
            let adds = next(2) == 0;
            if adds {
                spans.add(range, what);
            } else {
                spans.retain(range, |other| *other != what);
            }
            for over in &mut model[range.offset as usize..range.end().max(range.offset) as usize] {
                over.retain(|other| *other != what);
                over.extend(adds.then_some(what));
                over.sort_unstable();
            }
            assert_eq!(bytes(&spans), model);
            let parts: Vec<_> = spans.over(Range::new(0, 20)).collect();
            assert!(parts.windows(2).all(|two| two[0].0.end() < two[1].0.offset || two[0].1 != two[1].1));
            let probe = Range::between(next(20), next(21));
            let within = &model[probe.offset as usize..probe.end().max(probe.offset) as usize];
            assert_eq!(spans.touches(probe), within.iter().any(|over| !over.is_empty()));
            assert_eq!(spans.covers(probe), within.iter().all(|over| !over.is_empty()));
        }
    }
}
