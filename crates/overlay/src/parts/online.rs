//! D-CARL ([`headstart_policy::client::d_carl`]) and what it has under way.

use headstart_policy::client::d_carl::{DCarl, Move, Settings};
use headstart_policy::cost::region::Costs;
use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

/// Regions of the known files, about. CARL's figures had 640.
const REGIONS: u64 = 512;
/// A region is worth a seek, and a matter of moments.
const REGION_BYTES_MIN: u64 = 256 << 10;
const REGION_BYTES_MAX: u64 = 64 << 20;
/// When the files have become so many times as long, regions of another length are chosen (assumed).
const GROWTH: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Online {
    costs: Costs,
    region_bytes: u64,
    d_carl: DCarl,
    /// Regions on their way to flash.
    placing: Vec<Move>,
}

fn region_bytes(known_bytes: u128) -> u64 {
    let length = u64::try_from(known_bytes).unwrap_or(u64::MAX) / REGIONS;
    length.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX).next_power_of_two()
}

impl Online {
    /// At these costs, for files that are so long together.
    pub(crate) fn new(costs: Costs, known_bytes: u128, now: Nanos) -> Online {
        let region_bytes = region_bytes(known_bytes);
        let settings = Settings { region_bytes, ..Settings::new(costs.clone()) };
        Online { costs, region_bytes, d_carl: DCarl::new(now, settings), placing: Vec::new() }
    }

    /// The costs, if the files have become so long that regions should be longer.
    pub(crate) fn outgrown(&self, known_bytes: u128) -> Option<Costs> {
        let outgrown = region_bytes(known_bytes) >= self.region_bytes.saturating_mul(GROWTH);
        outgrown.then(|| self.costs.clone())
    }

    /// Whether it is time to decide.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.d_carl.next_timer()
    }

    /// A program reads of a file that is so long.
    pub(crate) fn note_read(&mut self, now: Nanos, file: u32, size: u64, range: Range) {
        self.d_carl.on_size(file, size);
        self.d_carl.on_request(now, file, Direction::Read, range);
    }

    /// The file is forgotten, and with it what was to be moved of it.
    pub(crate) fn forget_file(&mut self, file: u32) {
        self.d_carl.remove_file(file);
        self.placing.retain(|one| one.id.0 != file);
    }

    /// Takes the regions on their way out; each is on its way [still](Online::keep) or [over](Online::complete).
    pub(crate) fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.placing)
    }

    /// A region is on its way.
    pub(crate) fn keep(&mut self, one: Move) {
        self.placing.push(one);
    }

    /// A move is over: it was made, or came to nothing.
    pub(crate) fn complete(&mut self, now: Nanos, one: Move, made: bool) {
        self.d_carl.on_completion(now, one, made);
    }

    /// What to move now, if flash has so much room for regions.
    pub(crate) fn decide(&mut self, now: Nanos, room_bytes: u64) -> Vec<Move> {
        self.d_carl.on_timer(now, room_bytes)
    }

    /// Whether any region is on its way.
    pub(crate) fn has_moves(&self) -> bool {
        !self.placing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_chosen_anew_when_the_files_are_four_times_as_long() {
        assert_eq!((region_bytes(0), region_bytes(u128::MAX)), (REGION_BYTES_MIN, REGION_BYTES_MAX));
        let known_bytes = u128::from(REGIONS << 20);
        let online = Online::new(Costs::of_a_test(), known_bytes, Nanos(0));
        assert_eq!(online.region_bytes, 1 << 20);
        assert!(online.outgrown(2 * known_bytes).is_none());
        assert_eq!(online.outgrown(4 * known_bytes), Some(Costs::of_a_test()));
    }
}
