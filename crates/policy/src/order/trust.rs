//! Whether what looks like a stream is worth a fetch: as often as those before it went on.
//!
//! Random requests to a hot range look like streams for a few reads. A fetch for such a one takes the disk
//! from others and brings what nobody reads. So a first window is judged some time after it was fetched, by
//! whether a second one was wanted; while most were not, only one of several new streams is fetched for.

use std::collections::VecDeque;

/// So many reads later a first window is judged (assumed; reads that were not read ahead: a stream has few of them).
const JUDGED_AFTER_READS: u64 = 256;
/// Fewer than so many say nothing. This and what follows is chosen on Zipf reads of 8 KiB (`compose/zipf-read`): 18.4
/// instead of 16.0 MB/s, the disk alone 18.7.
const JUDGED_MIN: u32 = 8;
/// The older half counts half from so many on.
const JUDGED_MAX: u32 = 64;
/// Trusted while one of so many goes on,
const GOOD_PART_MIN: u32 = 4;
/// else one of so many is tried.
const TRIED_PART: u32 = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// When those first windows were fetched that are not judged yet, in reads.
    opened: VecDeque<u64>,
    judged: u32,
    good: u32,
    refused: u32,
}

impl Trust {
    /// Whether a first window may be fetched now, after so many reads.
    pub(crate) fn opens(&mut self, reads: u64) -> bool {
        while self.opened.front().is_some_and(|at| at + JUDGED_AFTER_READS <= reads) {
            self.opened.pop_front();
            self.judged += 1;
        }
        if self.judged >= JUDGED_MAX {
            (self.judged, self.good) = (self.judged / 2, self.good / 2);
        }
        if self.judged >= JUDGED_MIN && self.good * GOOD_PART_MIN < self.judged {
            self.refused += 1;
            if !self.refused.is_multiple_of(TRIED_PART) {
                return false;
            }
        }
        self.opened.push_back(reads);
        true
    }

    /// A second window is wanted.
    pub(crate) fn goes_on(&mut self) {
        self.good += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_never_go_on_are_tried_now_and_then_until_some_do() {
        let mut trust = Trust::default();
        let opened = (0..10_000).filter(|turn| trust.opens(turn * 10)).count();
        assert!((600..700).contains(&opened), "those of the first reads, then one of sixteen: {opened}");
        for _ in 0..40 {
            trust.goes_on();
        }
        assert!((10_000..10_020).all(|turn| trust.opens(turn * 10)));
    }

    #[test]
    fn as_many_streams_as_there_are_begin_before_the_first_of_them_goes_on() {
        let mut trust = Trust::default();
        assert!((0..200).all(|stream| trust.opens(stream)));
        (0..200).for_each(|_| trust.goes_on());
        assert!((0..200).all(|stream| trust.opens(3000 + stream)));
    }
}
