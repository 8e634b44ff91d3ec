//! Reads that lie side by side though they come in any order: of many processes that read one stream together.
//!
//! Each of them continues another run than the one before, as if there were many streams. But the disk sorts
//! those that wait, and reads what they ask for in one sweep; fetched in pieces it would be read in as many.

use std::collections::VecDeque;

use headstart_units::request::Range;

/// So many reads show where the readers are (assumed: more than as many processes read together; with it the 48
/// readers of the volume's bench, `suite.test_read`, have 0.99 of the disk alone instead of 0.66).
const READS: usize = 128;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    /// Where the last of them began.
    offsets: VecDeque<u64>,
}

impl Crowd {
    /// A read has come; whether three quarters of the last ones are no farther from it than all of them
    /// together are long.
    pub(crate) fn gathers(&mut self, range: Range) -> bool {
        if self.offsets.len() == READS {
            self.offsets.pop_front();
        }
        self.offsets.push_back(range.offset);
        let reach = READS as u64 * range.length;
        let near = self.offsets.iter().filter(|offset| offset.abs_diff(range.offset) <= reach).count();
        near * 4 >= READS * 3
    }
}
