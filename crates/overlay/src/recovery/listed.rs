//! What a journal says of files that other members use: the log that their owners are told of.
//!
//! `Epoch` and `Ordered` say the next record's place in the order of its file. A record without them is one of a file
//! that the node had to itself: no entry of the log.

use std::collections::BTreeMap;

use headstart_cluster::{Entry, FileId, Intent, Order, Record as Listed, Stamp, What};
use headstart_units::request::Range;

use super::Recovered;
use crate::journal::{Extent, Record};
use crate::parts::sharing::Cluster;
use crate::sharing::records::place_of;

/// Where the replay stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    epochs: BTreeMap<u32, Stamp>,
    /// The number that the next record was ordered with.
    ordered: Option<u64>,
    /// Copies that have not ended.
    copying: BTreeMap<(FileId, Order), Intent>,
}

impl Recovered {
    /// Takes an entry of the log out of a record. Call it before the record is applied.
    pub(super) fn list(&mut self, record: &Record) {
        match *record {
            Record::Epoch { file, epoch } => drop(self.listing.epochs.insert(file, epoch)),
            Record::Ordered { seq } => self.listing.ordered = Some(seq),
            Record::Map { file, offset, length, data_file, place, slot, seq } => {
                let what = What::Map { place: place_of(data_file, place) };
                self.list_one(file, Range::new(offset, length), what, Some((slot, seq)));
            }
            Record::Extents { file, data_file, ref extents } => {
                for Extent { offset, length, place, .. } in extents {
                    let what = What::Map { place: place_of(data_file, *place) };
                    self.list_one(file, Range::new(*offset, *length), what, None);
                }
            }
            Record::Drop { file, offset, length } => {
                self.list_one(file, Range::new(offset, length), What::Drop, None);
            }
            Record::LastCommit { slot, seq } => self.log.set_answered(Cluster::id_of(slot, seq)),
            Record::Copying { file, copy, order, range } => {
                let Some(of) = self.file_id(file) else { return };
                let intent = Intent { file: of, copy, order, range };
                self.listing.copying.insert((of, copy), intent);
                self.log.append(Entry::Intent(intent));
            }
            Record::Copied { file, copy } => {
                let intent = self.file_id(file).and_then(|of| self.listing.copying.remove(&(of, copy)));
                if let Some(intent) = intent {
                    self.log.append(Entry::Ended(intent));
                }
            }
            Record::Gone { file, order } => self.forget(file, order),
            _ => {}
        }
    }

    fn file_id(&self, file: u32) -> Option<FileId> {
        self.files.get(&file).map(|known| FileId(known.identity.inode))
    }

    fn list_one(&mut self, number: u32, range: Range, what: What, by: Option<(u32, u64)>) {
        let Some(seq) = self.listing.ordered.take() else { return };
        let (Some(file), Some(epoch)) = (self.file_id(number), self.listing.epochs.get(&number).copied()) else {
            return;
        };
        let by = by.map(|(slot, seq)| Cluster::id_of(slot, seq));
        self.log.append(Entry::Record(Listed { file, order: Order { epoch, seq }, range, what, by }));
    }

    /// A record counts for nothing any more: what the map has of it goes.
    fn forget(&mut self, number: u32, order: Order) {
        let Some(file) = self.file_id(number) else { return };
        let record = self.log.record(file, order);
        self.log.append(Entry::Forgot(file, order));
        let Some(Listed { range, what: What::Map { place }, .. }) = record else { return };
        let Some(known) = self.files.get_mut(&number) else { return };
        let own: Vec<Range> = known
            .map
            .overlapping(range)
            .filter(|mapped| {
                let at = mapped.place.wrapping_sub(mapped.range.offset).wrapping_add(range.offset);
                place_of(mapped.data_file, at) == place
            })
            .map(|mapped| mapped.range.intersection(range))
            .collect();
        own.into_iter().for_each(|part| drop(known.map.carve(part)));
    }
}
