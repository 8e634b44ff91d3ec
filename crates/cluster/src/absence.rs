//! Of which bytes of a file nothing is on flash, as a member was told: all of them or none of nearly every file.

use headstart_units::request::Range;

use crate::guest::ALL;
use crate::spans::Spans;

/// See the module. Equal bytes are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Absence {
    /// Of none.
    #[default]
    Nowhere,
    /// Of all.
    Everywhere,
    /// Of some.
    Of(Box<Spans<()>>),
}

impl Absence {
    /// Whether it is of no byte.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Absence::Nowhere)
    }

    /// Whether it is of every byte of a range.
    pub(crate) fn covers(&self, range: Range) -> bool {
        match self {
            Absence::Nowhere => range.is_empty(),
            Absence::Everywhere => true,
            Absence::Of(spans) => spans.covers(range),
        }
    }

    /// Of a range as well.
    pub(crate) fn add(&mut self, range: Range) {
        if range == ALL {
            *self = Absence::Everywhere;
        }
        self.change(range, |spans| spans.add(range, ()));
    }

    /// Of a range no more.
    pub(crate) fn end(&mut self, range: Range) {
        if range == ALL {
            *self = Absence::Nowhere;
        }
        self.change(range, |spans| spans.retain(range, |()| false));
    }

    fn change(&mut self, range: Range, change: impl FnOnce(&mut Spans<()>)) {
        if range == ALL || range.is_empty() {
            return;
        }
        let mut spans = match std::mem::take(self) {
            Absence::Nowhere => Box::default(),
            Absence::Everywhere => {
                let mut all = Spans::default();
                all.add(ALL, ());
                Box::new(all)
            }
            Absence::Of(spans) => spans,
        };
        change(&mut spans);
        *self = match spans.is_empty() {
            true => Absence::Nowhere,
            false if spans.covers(ALL) => Absence::Everywhere,
            false => Absence::Of(spans),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_of_the_bytes_that_spans_say_and_equal_where_those_are() {
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Bytes of these ranges, the last of which goes to the end of all.
        let ends = [0, 5, 9, 20, u64::MAX];
        let (mut absence, mut model) = (Absence::default(), Spans::default());
        for _ in 0..20_000 {
            let (from, to) = (next(4) as usize, next(5) as usize);
            let range = Range::between(ends[from], ends[to.max(from)]);
            match next(2) {
                0 => {
                    absence.add(range);
                    model.add(range, ());
                }
                _ => {
                    absence.end(range);
                    model.retain(range, |()| false);
                }
            }
            assert_eq!((absence.is_empty(), absence == Absence::Everywhere), (model.is_empty(), model.covers(ALL)));
            for probe in ends.windows(2).map(|two| Range::between(two[0], two[1])).chain([ALL]) {
                assert_eq!(absence.covers(probe), model.covers(probe));
            }
            let anew = match model.is_empty() {
                true => Absence::Nowhere,
                false if model.covers(ALL) => Absence::Everywhere,
                false => Absence::Of(Box::new(model.clone())),
            };
            assert!(absence == anew);
        }
    }
}
