//! Calls for many ranges at once.
//!
//! Without flash they go out as PVFS2's list I/O, unless the scenario says that there is none: each server
//! gets messages of at most 64 pairs, one after another; servers do not wait for each other. Pairs that are
//! neighbours on a server are one request there. Otherwise the ranges go one after another, each as a request
//! of its own, as a library beneath such calls sees them.

use headstart_units::request::Range;

use crate::check::Event as Check;
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::list::List;
use crate::simulation::Simulation;
use crate::tier::{Part, TierName};

/// Pairs of a message (PVFS2: regions of a flow step).
pub const PAIRS_MAX: usize = 64;

impl Simulation<'_> {
    /// Whether a call for many ranges goes out as lists.
    pub(crate) fn sends_lists(&self) -> bool {
        self.rules.list_io && matches!(self.client, Client::Stock)
    }

    /// Starts a rank's list on all disk servers; false if it has no byte.
    pub(crate) fn start_list(&mut self, rank: u32) -> bool {
        let servers = self.fabric.tier(TierName::Disk).servers.len();
        let list = self.ranks[rank as usize].list.as_mut().expect("the rank's request is a list");
        (list.cursors, list.left) = (vec![0; servers], 0);
        let mut left = 0;
        for column in 0..servers as u32 {
            left += u32::from(self.next_message(rank, column));
        }
        self.list_of(rank).left = left;
        left > 0
    }

    fn list_of(&mut self, rank: u32) -> &mut List {
        self.ranks[rank as usize].list.as_mut().expect("the rank's request is a list")
    }

    /// A server has served a message; true if that was the last of the call.
    pub(crate) fn on_list_message(&mut self, rank: u32, column: u32) -> bool {
        if self.next_message(rank, column) {
            return false;
        }
        let list = self.list_of(rank);
        list.left -= 1;
        list.left == 0
    }

    /// Sends the next message of a list to a server; false if there is none.
    fn next_message(&mut self, rank: u32, column: u32) -> bool {
        let current = self.ranks[rank as usize].current;
        let place = self.files[current.file as usize].place;
        let mut parts: Vec<Part> = Vec::new();
        let list = self.ranks[rank as usize].list.as_mut().expect("the rank's request is a list");
        let tier = self.fabric.tier(TierName::Disk);
        let (mut pairs, mut next) = (0, list.cursors[column as usize]);
        while pairs < PAIRS_MAX && next < list.ranges.len() {
            let range = list.ranges[next];
            next += 1;
            let Some(part) = tier.part_of(place, column, range.offset, range.length) else { continue };
            pairs += 1;
            match parts.last_mut() {
                Some(last) if last.address + last.length == part.address => last.length += part.length,
                _ => parts.push(part),
            }
        }
        list.cursors[column as usize] = next;
        if parts.is_empty() {
            return false;
        }
        let order = Order {
            owner: Owner::List(rank, column),
            tier: TierName::Disk,
            operation: current.direction.into(),
            ..self.order_of(rank, current.file)
        };
        self.fabric.start_parts(self.now, &mut self.queue, order, &parts);
        true
    }

    /// Tells the checker that a list begins or ends: each range is a request, whose bytes are read or written
    /// as a whole.
    pub(crate) fn tell_list(&mut self, rank: u32, ends: bool) {
        let Some(checker) = &mut self.checker else { return };
        let rank = &self.ranks[rank as usize];
        let (current, list) = (rank.current, rank.list.as_ref().expect("the rank's request is a list"));
        let spot =
            |range: &Range| crate::check::Spot { space: crate::check::Space::Disk(current.file), offset: range.offset };
        let writes = current.direction == headstart_units::request::Direction::Write;
        for (id, range) in (current.id..).zip(&list.ranges) {
            if !ends {
                checker.on(&Check::Began { id, writes, file: current.file, range: *range });
            }
            match writes {
                true if ends => checker.on(&Check::Wrote { id, range: *range, spot: spot(range) }),
                true => {}
                false => checker.on(&Check::Read { id, range: *range, spot: spot(range) }),
            }
            if ends {
                checker.on(&Check::Ended { id });
            }
        }
    }
}
