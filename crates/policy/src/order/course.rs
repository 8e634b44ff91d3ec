//! Whether a process goes on in a file: how its requests lie to those before them.
//!
//! A process that goes through a file, beside others or leaving out what they use, begins each request behind the one
//! before. The disks serve that well where something beneath them joins neighbours or reads ahead; a calibration finds
//! out whether it does (`near_stays`), this says of which requests.

use std::collections::BTreeMap;

use headstart_units::request::{Access, Range};

use super::interleaving::Interleaving;

/// How a request lies to those of the same process before it in that file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distance {
    /// To the end of the last one, either way (S4D Table I, d).
    pub bytes: u64,
    /// So many in a row, this one included, have begun behind the one before, no farther than
    /// [`REACH_BYTES`]; at most [`AHEAD_MAX`], which the first has.
    pub ahead: u8,
    /// None was before it.
    pub is_first: bool,
    /// Processes go through the file together, each with the next piece ([`Interleaving`]); false where
    /// nobody wants to know.
    pub interleaved: bool,
}

impl Distance {
    /// Whether the process goes through the file, so that the next request is likely to be ahead as well.
    #[inline]
    pub fn goes_on(self) -> bool {
        self.ahead == AHEAD_MAX && !self.is_first
    }

    /// Whether it begins where the last one ended.
    #[inline]
    pub fn is_sequential(self) -> bool {
        self.bytes == 0 && !self.is_first
    }

    /// Whether the process goes through the file, or may begin to.
    #[inline]
    pub(crate) fn goes_on_or_begins(self) -> bool {
        self.goes_on() || self.is_first
    }

    /// Whether it stays on the disk servers whatever its benefit, where all requests of processes that go on
    /// do so, or those that are interleaved.
    pub fn stays(self, near_stays: bool, interleaved_stays: bool) -> bool {
        self.goes_on_or_begins() && (near_stays || (interleaved_stays && self.interleaved))
    }

    /// Of a request of which no more is known.
    pub fn far(bytes: u64) -> Distance {
        Distance { bytes, ..Distance::default() }
    }
}

/// A process that goes on in a file, beside others or past what it leaves out, begins its next request no
/// farther away (assumed: a round of 64 processes of 64 KiB). With it S4D over iTransformer wrote `compose/test-write`
/// at 1.0 of iTransformer alone instead of 0.41.
const REACH_BYTES: u64 = 4 << 20;
/// So many requests in a row tell a process that goes on from random ones, which a small distance alone does not:
/// chosen on `compose/ior-random-write`, of which random writes within 16 MiB lost 15 to 22 % by the distance. More are
/// not counted.
const AHEAD_MAX: u8 = 7;
const AHEAD_BITS: u32 = AHEAD_MAX.ilog2() + 1;

/// Where a process is in a file: the end of its last request, and below that how many went ahead. Zero at the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course(pub u64);

impl Course {
    /// Goes on to a request, which is so far away.
    #[inline]
    pub fn advance(&mut self, range: Range) -> Distance {
        let (course, distance) = self.to(range);
        *self = course;
        distance
    }

    /// After a request, which is so far away.
    #[inline]
    pub fn to(self, range: Range) -> (Course, Distance) {
        let (last, ahead) = (self.0 >> AHEAD_BITS, self.0 as u8 & AHEAD_MAX);
        let goes_on = range.offset.checked_sub(last).is_some_and(|gap| gap <= REACH_BYTES);
        let is_first = self == Course::default();
        let ahead = match goes_on {
            _ if is_first => AHEAD_MAX,
            true => AHEAD_MAX.min(ahead + 1),
            false => 0,
        };
        let course = Course(range.end() << AHEAD_BITS | u64::from(ahead));
        (course, Distance { bytes: last.abs_diff(range.offset), ahead, is_first, interleaved: false })
    }
}

/// Files of which a rank's course is known, at most (assumed: a program has few in use at a time).
const RECENT_FILES_MAX: usize = 16;

/// Where one rank is in the files that it used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Courses(Vec<(u32, Course)>);

impl Courses {
    /// Goes on to a request for bytes of a file; how it lies to the rank's last ones there.
    pub(crate) fn advance(&mut self, file: u32, range: Range) -> Distance {
        let known = self.0.iter().rposition(|(known, _)| *known == file);
        let place = known.unwrap_or_else(|| {
            if self.0.len() == RECENT_FILES_MAX {
                self.0.remove(0);
            }
            self.0.push((file, Course::default()));
            self.0.len() - 1
        });
        self.0[place].1.advance(range)
    }
}

/// Files of which it is known whether ranks go through them together, at most (assumed: 8 KiB each).
const FILES_MAX: usize = 1024;

/// Where all ranks are: how the requests of a program lie to those before them, as the ranks' libraries see it.
#[derive(Debug, Default)]
pub struct Tracks {
    ranks: BTreeMap<u32, Courses>,
    files: BTreeMap<u32, Box<Interleaving>>,
}

impl Tracks {
    /// Goes on to a request, in the order of their starts; how it lies to those before it.
    pub fn advance(&mut self, access: &Access) -> Distance {
        let Access { file, rank, direction, range, .. } = *access;
        if self.files.len() == FILES_MAX && !self.files.contains_key(&file) {
            self.files.clear();
        }
        let interleaved = self.files.entry(file).or_default().add(direction, range, rank);
        Distance { interleaved, ..self.ranks.entry(rank).or_default().advance(file, range) }
    }
}
