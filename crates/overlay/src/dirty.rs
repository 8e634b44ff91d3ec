//! What would be lost with the flash, and giving it up.

use crate::errno;
use crate::extent_map::Mapped;
use crate::journal::{Identity, Record};
use crate::output::Answer;
use crate::overlay::Overlay;
use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

/// A file that has dirty bytes, or may have some at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyFile<'a> {
    /// Its number.
    pub file: u32,
    /// Who it is.
    pub identity: Identity,
    /// Where it was last.
    pub path: &'a [u8],
    /// Bytes the disk does not have.
    pub dirty_bytes: u64,
    /// A process has it open for writing.
    pub open_for_writing: bool,
}

impl Overlay {
    /// The files that have dirty bytes or are open for writing.
    pub fn dirty_files(&self) -> impl Iterator<Item = DirtyFile<'_>> {
        let known = self.files.iter().map(|(&number, file)| DirtyFile {
            file: number,
            identity: file.identity(),
            path: file.names.path(),
            dirty_bytes: file.dirty_bytes,
            open_for_writing: file.users.may_write(),
        });
        known.filter(|file| file.dirty_bytes > 0 || file.open_for_writing)
    }

    /// Whether the disks have everything, synced: flash could be lost.
    pub fn is_on_disk(&self) -> bool {
        self.dirty_bytes() == 0 && self.barrier.slow_files_are_synced()
    }

    /// The dirty ranges of a file in order, neighbours joined. At most `steps` extents are looked at: what is
    /// left is covered by one more range, up to the end of the last extent, and the second value says that
    /// the ranges are exact.
    pub fn dirty_ranges(&self, file: u32, steps: usize) -> (Vec<Range>, bool) {
        let Some(known) = self.files.get(&file) else { return (Vec::new(), true) };
        let mut ranges: Vec<Range> = Vec::new();
        let mut from = 0;
        for _ in 0..steps {
            let Some(mapped) = known.map.next_dirty(from) else { return (ranges, true) };
            from = mapped.range.end();
            match ranges.last_mut().filter(|last| last.end() == mapped.range.offset) {
                Some(last) => last.length += mapped.range.length,
                None => ranges.push(mapped.range),
            }
        }
        let Some(next) = known.map.next_dirty(from) else { return (ranges, true) };
        ranges.push(Range::between(next.range.offset, known.map.end()));
        (ranges, false)
    }

    /// Gives up what is on flash of a file that nobody has open; returns how many bytes the disk will never
    /// have, or nothing if it is open. A write-back under way may still land.
    pub fn discard(&mut self, shared: Shared<'_>, number: u32) -> Option<u64> {
        let file = self.files.get_mut(&number).filter(|file| !file.users.are_there())?;
        let dirty_bytes = file.dirty_bytes;
        file.write_back_error = None;
        self.drop_all(number, Dropped::Discarded);
        self.forget_if_done(shared, number);
        self.poll(shared);
        Some(dirty_bytes)
    }

    /// A thread could not read `range` from flash: clean bytes are dropped, so that the disk answers; dirty
    /// ones are the only ones there are.
    pub(crate) fn flash_failed(&mut self, number: u32, range: Range) -> Answer {
        let found: Vec<Mapped> = self.files[&number].map.overlapping(range).collect();
        if let Some(dirty) = found.iter().find(|mapped| mapped.dirty) {
            let lost = dirty.range.intersection(range);
            let path = self.files[&number].names.shown().into_owned();
            return Answer::Error {
                errno: errno::EIO,
                text: format!(
                    "{path}: bytes {} to {} are newer on flash than on disk, and flash cannot be read there; 'headstart check' \
                     names everything so",
                    lost.offset,
                    lost.end()
                ),
            };
        }
        for mapped in found {
            self.append(&Record::Drop { file: number, offset: mapped.range.offset, length: mapped.range.length });
            self.carve(number, mapped.range, Dropped::FlashFailed);
        }
        Answer::Done
    }
}
