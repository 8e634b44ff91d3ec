//! What the journal of a member that is gone says to others: [`headstart_cluster::Log`] of its bytes.
//!
//! Counted is what a barrier covered. An entry's position is that of its record, in bytes that the member ever appended.
//! A record's place in the order is what the file's owner gave it, or else its position, in the first of all epochs; each extent of a checkpoint is a record of its own. Clean bytes are none: the slow file has them as well. What an
//! owner ordered says all that there is of a file: what its node recorded while it had the file alone is listed again
//! before, and is no record any more.

use std::collections::BTreeMap;

use headstart_cluster::{Entry, FileId, Intent, Log, MemberId, Order, RequestId, Stamp, What};
use headstart_units::request::Range;

use crate::journal::{Extent, HEADER_BYTES, Record, records};
use crate::recovery::{APPENDED_EVER_MAX, Recovered, Replay};
use crate::sharing::records::place_of;

/// How many bytes of a journal's body, which others may be reading too late, a barrier covered.
pub fn durable_bytes(body: &[u8]) -> usize {
    let end = |record: Record| match record {
        Record::Barrier { end } => end.checked_sub(HEADER_BYTES as u64),
        _ => None,
    };
    let covered = records(body).filter_map(|(record, _)| end(record)).last().unwrap_or(0);
    // It says no more than it has.
    covered.min(body.len() as u64) as usize
}

/// The position behind so many bytes of the body, as others are told it.
pub fn position_told(body: &[u8]) -> u64 {
    before(body).saturating_add(body.len() as u64)
}

/// Bytes that the member had appended before.
fn before(body: &[u8]) -> u64 {
    match records(body).next() {
        Some((Record::Origin { before, .. }, _)) => before.min(APPENDED_EVER_MAX),
        _ => 0,
    }
}

/// Whose journal it is, if it says so.
pub fn member_of(body: &[u8]) -> Option<MemberId> {
    match records(body).next() {
        Some((Record::Origin { member, .. }, _)) => Some(member),
        _ => None,
    }
}

/// What the body of a journal says, of which all counts.
pub fn log_of(body: &[u8]) -> Log {
    let (mut reading, before) = (Reading::default(), before(body));
    let mut start = HEADER_BYTES as u64;
    for (record, end) in records(body) {
        let told = before.saturating_add(start - HEADER_BYTES as u64);
        reading.read(record, told);
        start = end;
    }
    let mut log = reading.log;
    log.set_durable(u64::MAX);
    log
}

/// One file, as far as it was read.
#[derive(Debug)]
struct Known {
    file: FileId,
    epoch: Stamp,
    orders: Vec<Order>,
    /// Those that no owner gave.
    alone: Vec<Order>,
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    log: Log,
    files: BTreeMap<u32, Known>,
    /// The maps, which tell what a record does to those before.
    maps: Recovered,
    /// What the owner gave the next record.
    ordered: Option<u64>,
    copies: BTreeMap<(u32, Order), Intent>,
    /// The next position that no entry has.
    next: u64,
}

impl Reading {
    fn read(&mut self, record: Record, told: u64) {
        self.next = self.next.max(told);
        match &record {
            Record::File { file, identity, .. } => {
                let known =
                    Known { file: FileId(identity.inode), epoch: Stamp::FIRST, orders: Vec::new(), alone: Vec::new() };
                self.files.entry(*file).or_insert(known);
            }
            Record::Epoch { file, epoch } => {
                self.files.entry(*file).and_modify(|known| known.epoch = *epoch);
            }
            Record::Ordered { seq } => {
                self.ordered = Some(*seq);
                return;
            }
            Record::Map { file, offset, length, data_file, place, slot, seq } => {
                let by = Some(RequestId { slot: *slot, seq: *seq });
                let what = What::Map { place: place_of(*data_file, *place) };
                self.put(*file, Range::new(*offset, *length), what, by);
            }
            Record::Extents { file, data_file, extents } => {
                for Extent { offset, length, place, .. } in extents.iter().filter(|extent| extent.dirty) {
                    let what = What::Map { place: place_of(*data_file, *place) };
                    self.put(*file, Range::new(*offset, *length), what, None);
                }
            }
            Record::Clean { file, offset, length, data_file, place } => {
                let range = Range::new(*offset, *length);
                let mapped = self.maps.files.get(file).map(|known| known.map.overlapping(range));
                let same = mapped.into_iter().flatten().filter(|mapped| mapped.same_place(*data_file, *offset, *place));
                let written: Vec<Range> = same.filter(|mapped| mapped.dirty).map(|mapped| mapped.range).collect();
                written.into_iter().for_each(|range| self.put(*file, range, What::Drop, None));
            }
            Record::Drop { file, offset, length } => {
                self.put(*file, Range::new(*offset, *length), What::Drop, None);
            }
            Record::Truncate { file, size } => self.put(*file, Range::between(*size, u64::MAX), What::Drop, None),
            Record::Remove { file } => self.remove(*file),
            Record::Copying { file, copy, order, range } => {
                if let Some(known) = self.files.get(file) {
                    let intent = Intent { file: known.file, copy: *copy, order: *order, range: *range };
                    self.copies.insert((*file, *copy), intent);
                    self.append(Entry::Intent(intent));
                }
            }
            Record::Copied { file, copy } => {
                if let Some(intent) = self.copies.remove(&(*file, *copy)) {
                    self.append(Entry::Ended(intent));
                }
            }
            Record::Gone { file, order } => {
                if let Some(known) = self.files.get(file) {
                    self.append(Entry::Forgot(known.file, *order));
                }
            }
            _ => {}
        }
        self.ordered = None;
        self.maps.apply(record);
    }

    fn append(&mut self, entry: Entry) -> u64 {
        let at = self.next;
        self.log.put(entry, at);
        self.next = at + 1;
        at
    }

    fn put(&mut self, file: u32, range: Range, what: What, by: Option<RequestId>) {
        let (at, ordered) = (self.next, self.ordered.take());
        let Some(known) = self.files.get_mut(&file).filter(|_| !range.is_empty()) else { return };
        // What no owner gave comes before all that owners gave: when it was recorded there was nothing else.
        let alone = Order { epoch: Stamp::FIRST, seq: at };
        let order = ordered.map_or(alone, |seq| Order { epoch: known.epoch, seq });
        known.orders.push(order);
        let listed = match ordered {
            Some(_) => std::mem::take(&mut known.alone),
            None => {
                known.alone.push(order);
                Vec::new()
            }
        };
        let file = known.file;
        for order in listed {
            self.append(Entry::Forgot(file, order));
        }
        self.append(Entry::Record(headstart_cluster::Record { file, order, range, what, by }));
    }

    /// The file is gone: what was said under its number counts no more.
    fn remove(&mut self, file: u32) {
        let Some(known) = self.files.remove(&file) else { return };
        for order in known.orders {
            self.append(Entry::Forgot(known.file, order));
        }
    }
}

/// What is left to write back of a journal of which all counts.
pub fn maps_of(body: &[u8]) -> Recovered {
    Recovered::replay(body, Replay::Everything)
}

#[cfg(test)]
mod tests {
    use headstart_policy::client::carl::Wanted;

    use super::*;
    use crate::journal::{Identity, Journal};

    fn file(number: u32, inode: u64) -> Record {
        let identity = Identity { inode, birth_ns: 7 };
        Record::File { file: number, identity, path: format!("/slow/{inode}").into_bytes() }
    }

    fn map(file: u32, offset: u64, length: u64, place: u64) -> Record {
        Record::Map { file, offset, length, data_file: 3, place, slot: 1, seq: place }
    }

    fn body(before: u64, said: &[Record]) -> Vec<u8> {
        let mut journal = Journal::default();
        journal.append(&Record::Origin { member: MemberId { node: 1, life: 0 }, before });
        said.iter().for_each(|record| journal.append(record));
        journal.take()
    }

    /// All that a log says of a file: position, order, range, and where the bytes lie; none in the slow file.
    fn said(log: &Log, inode: u64) -> Vec<(u64, Order, Range, Option<u64>)> {
        let entries = log.of_file(FileId(inode)).into_iter().filter_map(|logged| match logged.entry {
            Entry::Record(record) => {
                assert!(logged.durable, "all of a cut counts");
                let place = match record.what {
                    What::Map { place } => Some(place),
                    What::Drop => None,
                };
                Some((logged.at, record.order, record.range, place))
            }
            _ => None,
        });
        entries.collect()
    }

    #[test]
    fn records_have_the_positions_of_their_bytes_as_order_where_no_owner_gave_one() {
        let (first, second) = (map(4, 0, 4096, 8192), map(4, 4096, 100, 0));
        let bytes = body(1000, &[file(4, 300), first, second]);
        let ends: Vec<u64> = records(&bytes).map(|(_, end)| 1000 + end - HEADER_BYTES as u64).collect();
        let alone = |seq| Order { epoch: Stamp::FIRST, seq };
        let expected = vec![
            (ends[1], alone(ends[1]), Range::new(0, 4096), Some(3 << 42 | 8192)),
            (ends[2], alone(ends[2]), Range::new(4096, 100), Some(3 << 42)),
        ];
        assert_eq!(said(&log_of(&bytes), 300), expected);
        assert_eq!(position_told(&bytes), ends[3]);
    }

    #[test]
    fn an_owners_order_and_epoch_are_those_of_the_records_that_follow_them() {
        let epoch = Stamp { view: 3, count: 2 };
        let ordered = |seq| Record::Ordered { seq };
        let bytes = body(
            0,
            &[
                file(4, 300),
                file(5, 301),
                Record::Epoch { file: 4, epoch },
                ordered(7),
                map(4, 0, 10, 0),
                map(4, 20, 10, 4096 + 20),
                map(5, 0, 10, 8192),
            ],
        );
        let log = log_of(&bytes);
        let orders: Vec<Order> = said(&log, 300).into_iter().map(|(_, order, ..)| order).collect();
        assert_eq!(orders[0], Order { epoch, seq: 7 });
        assert!(
            orders.len() == 2 && orders[1].epoch == Stamp::FIRST && orders[1].seq > 7,
            "the number is for one record"
        );
        assert_eq!(said(&log, 301)[0].1.epoch, Stamp::FIRST);
    }

    #[test]
    fn of_a_checkpoint_each_dirty_extent_is_a_record_and_what_went_back_is_dropped() {
        let extent = |page: u64, dirty| Extent { offset: page * 8192, length: 4096, place: page * 4096, dirty };
        let extents = vec![extent(0, true), extent(1, false), extent(2, true)];
        let clean = Record::Clean { file: 4, offset: 0, length: 4096, data_file: 3, place: 0 };
        let stale = Record::Clean { file: 4, offset: 16384, length: 4096, data_file: 3, place: 4096 };
        let cut = Record::Truncate { file: 4, size: 20000 };
        let bytes = body(0, &[file(4, 300), Record::Extents { file: 4, data_file: 3, extents }, clean, stale, cut]);
        let all: Vec<(Range, bool)> =
            said(&log_of(&bytes), 300).into_iter().map(|(_, _, range, place)| (range, place.is_some())).collect();
        let cut = Range::between(20000, u64::MAX);
        let expected =
            [(Range::new(0, 4096), true), (Range::new(16384, 4096), true), (Range::new(0, 4096), false), (cut, false)];
        assert_eq!(all, expected);
        let dirty: Vec<Range> = maps_of(&bytes).files[&4].map.iter().filter(|m| m.dirty).map(|m| m.range).collect();
        assert_eq!(dirty, [Range::between(16384, 20000)]);
    }

    #[test]
    fn a_removed_file_has_no_records_though_another_one_got_its_inode() {
        let bytes = body(
            0,
            &[file(4, 300), map(4, 0, 10, 0), file(5, 300), map(5, 50, 10, 4096 + 50), Record::Remove { file: 4 }],
        );
        let ranges: Vec<Range> = said(&log_of(&bytes), 300).into_iter().map(|(_, _, range, _)| range).collect();
        assert_eq!(ranges, [Range::new(50, 10)]);
        assert!(said(&log_of(&body(0, &[file(4, 300), map(4, 0, 10, 0), Record::Remove { file: 4 }])), 300).is_empty());
    }

    #[test]
    fn write_backs_that_have_not_ended_are_in_it() {
        let order = |seq| Order { epoch: Stamp { view: 1, count: 1 }, seq };
        let copying = |seq| Record::Copying { file: 4, copy: order(seq), order: order(1), range: Range::new(0, 10) };
        let ended = Record::Copied { file: 4, copy: order(2) };
        let log = log_of(&body(0, &[file(4, 300), copying(2), copying(3), ended]));
        let open: Vec<Order> = log
            .of_file(FileId(300))
            .into_iter()
            .filter_map(|logged| match logged.entry {
                Entry::Intent(intent) => Some(intent.copy),
                _ => None,
            })
            .collect();
        assert_eq!(open, [order(3)]);
    }

    #[test]
    fn what_no_barrier_covered_is_cut_off_and_a_torn_tail_is_nothing() {
        let mut journal = Journal::behind(HEADER_BYTES as u64, 0);
        [file(4, 300), map(4, 0, 10, 0)].iter().for_each(|record| journal.append(record));
        let end = journal.end();
        journal.append(&Record::Barrier { end });
        journal.append(&map(4, 20, 10, 4096 + 20));
        let whole = journal.take();
        let covered = (end - HEADER_BYTES as u64) as usize;
        assert_eq!(durable_bytes(&whole), covered);
        assert_eq!(said(&log_of(&whole[..covered]), 300).len(), 1);
        for cut in 0..whole.len() {
            let durable = durable_bytes(&whole[..cut]);
            assert!(durable == covered || durable == 0, "cut at {cut}");
            assert!(said(&log_of(&whole[..cut]), 300).len() <= 2);
        }
        let far = Record::Barrier { end: u64::MAX };
        let wanted = Wanted { range: Range::new(0, 10), benefit_ns: 1, gain_ns: 1 };
        let hostile =
            body(u64::MAX, &[far, file(4, 300), Record::Wanted { file: 4, region: wanted }, map(4, 0, 10, 0)]);
        assert!(durable_bytes(&hostile) <= hostile.len());
        log_of(&hostile);
    }
}
