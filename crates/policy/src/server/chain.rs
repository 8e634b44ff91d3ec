//! The policies of a volume together: a class of requests goes to one of them.
//!
//! | | liu | itransformer | both | none |
//! |---|---|---|---|---|
//! | write within a lifted head | log (1) | by itransformer | log, or by itransformer | by size |
//! | other writes | disk | by itransformer | by itransformer | by size |
//! | read of a strong segment | load | - | load; not a fetch as well | - |
//! | read of a stream among others | where it lies | fetch | load ahead, or fetch | where it lies |
//! | other reads | where they lie | where they lie | where they lie | where they lie |
//! | write-back | half full, idle | by itransformer | by itransformer | half full |
//! | who has the disk | everybody | turns | turns; loads are foreground | everybody |
//!
//! (1) Unless writes follow each other closely. A write to the disk is answered when it is there.
//!
//! With both, what lies ahead of a stream in its segment is loaded before anything is known of the segment's
//! locality, as long as the buffer has room for a segment of each stream: it comes in one long run and needs
//! no flash.
//!
//! With `auto`, sequential writes that keep the disk busy are absorbed as well while the log has room: flash
//! takes in what comes while the disk turns.
//!
//! With both, a large or lone sequential write (a client's write-back) bypasses the log as with iTransformer
//! alone, within a head only if others like it keep the disk busy.

use super::address_order::AddressOrder;
use super::itransformer::{self, ITransformer};
use super::liu::{self, Liu};
pub use super::names::Names;
use super::policy::{Load, Policy, SegmentCounts, SegmentRead, Turn};
use crate::order::Heading;
use crate::server::segments::Segments;
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// The least that is loaded ahead of a stream, in reads: less is not worth a load of its own (assumed).
const AHEAD_READS_MIN: u64 = 2;

/// Settings of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// LiU's.
    pub liu: liu::Settings,
    /// iTransformer's.
    pub itransformer: itransformer::Settings,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Chain {
    liu: Option<(Liu, Segments)>,
    itransformer: Option<ITransformer>,
    rest: AddressOrder,
}

impl Chain {
    /// Those of a volume with these segments. Without any LiU does nothing.
    pub fn new(names: Names, segments: Segments, settings: Settings) -> Chain {
        let has_liu = names.has_liu() && !segments.is_none();
        Chain {
            liu: has_liu.then(|| (Liu::new(segments, settings.liu), segments)),
            itransformer: names.has_itransformer().then(|| {
                let leaves_streams = settings.itransformer.leaves_streams && names != Names::Auto;
                ITransformer::new(itransformer::Settings { leaves_streams, ..settings.itransformer })
            }),
            rest: if names == Names::Liu { AddressOrder::of_nothing() } else { AddressOrder::default() },
        }
    }

    /// Whether a range lies in the head of a lifted segment.
    fn is_head(&self, range: Range) -> bool {
        let Some((liu, segments)) = &self.liu else { return false };
        let segment = range.offset / segments.segment_bytes();
        let within = range.end() <= segment * segments.segment_bytes() + segments.head_bytes();
        within && liu.takes_writes(segment)
    }

    /// What lies ahead in its segment of a stream among others, if the buffer has room for a segment of each.
    fn ahead(&self, read: SegmentRead) -> Option<Range> {
        let ((liu, segments), itransformer) = (self.liu.as_ref()?, self.itransformer.as_ref()?);
        if liu.holds(read.segment, read.part) {
            return None;
        }
        let bytes = segments.segment_bytes();
        let range = Range::new(read.segment * bytes + read.part.offset, read.part.length);
        let ahead = match itransformer.heading(range)? {
            Heading::Up => Range::between(read.part.offset / BLOCK_BYTES * BLOCK_BYTES, bytes),
            Heading::Down => Range::between(0, read.part.end().next_multiple_of(BLOCK_BYTES)),
        };
        let is_long = ahead.length >= AHEAD_READS_MIN * range.length;
        (is_long && itransformer.streams_active() <= liu.loaded_max()).then_some(ahead)
    }
}

impl Policy for Chain {
    fn absorbs(&mut self, range: Range, load: &Load) -> bool {
        let wanted = match &mut self.itransformer {
            Some(itransformer) => itransformer.absorbs(range, load),
            None => self.rest.absorbs(range, load),
        };
        if let Some((liu, segments)) = &mut self.liu {
            liu.on_write(range, load.written_bytes);
            for (segment, part) in segments.parts(range) {
                liu.on_segment_write(segment, part);
            }
        }
        wanted || self.is_head(range)
    }

    fn waits_for_room(&self, load: &Load) -> Nanos {
        self.itransformer.as_ref().map_or(Nanos::ZERO, |policy| policy.waits_for_room(load))
    }

    fn paces(&self, load: &Load) -> Nanos {
        self.itransformer.as_ref().map_or(Nanos::ZERO, |policy| policy.paces(load))
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        match &mut self.itransformer {
            Some(policy) => policy.next_write_back(load),
            None => self.rest.next_write_back(load),
        }
    }

    fn write_back_bytes_max(&self) -> u64 {
        self.itransformer.as_ref().map_or(self.rest.write_back_bytes_max(), Policy::write_back_bytes_max)
    }

    fn on_write_back(&mut self, now: Nanos, range: Range) {
        match &mut self.itransformer {
            Some(policy) => policy.on_write_back(now, range),
            None => self.rest.on_write_back(now, range),
        }
    }

    fn on_zeroing(&mut self, range: Range) {
        match &mut self.itransformer {
            Some(policy) => policy.on_zeroing(range),
            None => self.rest.on_zeroing(range),
        }
    }

    fn on_segment_read(&mut self, read: SegmentRead) -> Option<Range> {
        let ahead = self.ahead(read);
        self.liu.as_mut()?.0.on_segment_read(read, ahead)
    }

    fn next_eviction(&mut self) -> Option<u64> {
        self.liu.as_mut()?.0.next_eviction()
    }

    fn on_buffer_emptied(&mut self) {
        if let Some((liu, _)) = &mut self.liu {
            liu.forget();
        }
    }

    fn next_lift(&mut self, load: &Load) -> Option<u64> {
        self.liu.as_mut()?.0.next_lift(load)
    }

    fn on_lift_refused(&mut self, now: Nanos, segment: u64, again: bool) {
        if let Some((liu, _)) = &mut self.liu {
            liu.on_lift_refused(now, segment, again);
        }
    }

    fn on_lifted(&mut self, segment: u64) {
        if let Some((liu, _)) = &mut self.liu {
            liu.on_lifted(segment);
        }
    }

    fn on_head_lost(&mut self, segment: u64, again: bool) {
        if let Some((liu, _)) = &mut self.liu {
            liu.on_head_lost(segment, again);
        }
    }

    fn next_de_lift(&mut self, newcomer: u64) -> Option<u64> {
        self.liu.as_mut()?.0.next_de_lift(newcomer)
    }

    fn segment_counts(&self) -> SegmentCounts {
        self.liu.as_ref().map_or(SegmentCounts::default(), |(liu, _)| liu.counts())
    }

    fn on_read(&mut self, range: Range, load: &Load) -> Option<Range> {
        // What is in the buffer, or on its way there, is not read ahead as well.
        let is_held = self
            .liu
            .as_ref()
            .is_some_and(|(liu, segments)| segments.parts(range).all(|(segment, part)| liu.holds(segment, part)));
        let itransformer = self.itransformer.as_mut()?;
        if is_held {
            itransformer.on_held_read(range);
            return None;
        }
        itransformer.on_read(range, load)
    }

    fn on_disk_read(&mut self, range: Range, took: Nanos) {
        if let Some(policy) = &mut self.itransformer {
            policy.on_disk_read(range, took);
        }
    }

    fn begins_fetch(&mut self, range: Range, load: &Load) -> bool {
        self.itransformer.as_mut().is_none_or(|policy| policy.begins_fetch(range, load))
    }

    fn on_background_end(&mut self, now: Nanos, range: Range) {
        if let Some(policy) = &mut self.itransformer {
            policy.on_background_end(now, range);
        }
    }

    fn turn(&mut self, load: &Load) -> Turn {
        self.itransformer.as_mut().map_or(Turn::Shared, |policy| policy.turn(load))
    }

    fn next_timer(&self, load: &Load) -> Option<Nanos> {
        let of_liu = self.liu.as_ref().and_then(|(liu, _)| liu.next_timer(load));
        let of_rest = match &self.itransformer {
            Some(policy) => policy.next_timer(load),
            None => self.rest.next_timer(load),
        };
        of_liu.into_iter().chain(of_rest).min()
    }
}

#[cfg(test)]
mod tests;
