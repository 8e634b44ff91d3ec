//! The threads that move bytes between the tiers.

use std::io::{self, IoSliceMut};
use std::sync::Mutex;

use headstart_overlay::{CopyKind, CopyOrder};
use headstart_units::request::Range;

use crate::error::errno_of;
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::storage::FileRef;

/// A copy with its files open.
#[derive(Debug)]
pub(crate) struct CopyJob {
    /// What to copy.
    pub order: CopyOrder,
    /// The slow file.
    pub slow: FileRef,
    /// The data file of each piece.
    pub data: Vec<FileRef>,
}

/// Buffers of finished copies, for the next ones: one that is used again costs no page faults, and may still
/// be in the processor's cache. There are hundreds of copiers, of which few work at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The last one given back is the last.
    free: Mutex<Vec<Vec<u8>>>,
}

/// Buffers beyond this many bytes are freed instead.
const FREE_BYTES_MAX: usize = 32 << 20;

impl Buffers {
    /// One of at least `length` bytes, of any content.
    fn take(&self, length: usize) -> Vec<u8> {
        let mut free = self.free.lock().expect("no thread panics with the lock");
        match free.iter().rposition(|buffer| buffer.len() >= length) {
            Some(index) => free.remove(index),
            None => vec![0; length],
        }
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut free = self.free.lock().expect("no thread panics with the lock");
        free.push(buffer);
        // The oldest go first: were it the new one, small ones would stay and large ones never come.
        let mut bytes: usize = free.iter().map(Vec::len).sum();
        let too_many = free.iter().take_while(|buffer| {
            let over = bytes > FREE_BYTES_MAX;
            bytes -= buffer.len();
            over
        });
        let too_many = too_many.count();
        free.drain(..too_many);
    }
}

/// Takes copies until the queue is closed.
pub(crate) fn run(jobs: &Jobs<CopyJob>, buffers: &Buffers, mailbox: &Mailbox<Completion>) {
    while let Some(job) = jobs.take() {
        let mut buffer = buffers.take(job.order.range.length as usize);
        let completion = job.run(&mut buffer);
        buffers.give_back(buffer);
        // Its files are closed before anybody hears of it: one of them may be about to be executed.
        drop(job);
        mailbox.post(completion);
    }
}

impl CopyJob {
    /// Makes the copy by way of `buffer`, which is at least as long.
    pub(crate) fn run(&self, buffer: &mut [u8]) -> Completion {
        let CopyOrder { id, file, kind, range, .. } = self.order;
        let result = copy(self, buffer);
        if let Err(error) = &result {
            tracing::warn!(file, ?kind, offset = range.offset, %error, "a copy failed");
        }
        Completion::Copied { id, file, kind, result: result.map_err(|error| errno_of(&error)) }
    }
}

fn copy(job: &CopyJob, buffer: &mut [u8]) -> io::Result<()> {
    let order = &job.order;
    let bytes = &mut buffer[..order.range.length as usize];
    match order.kind {
        CopyKind::WriteBack => {
            let mut data = job.data.iter();
            let mut parts = parts_of(order, bytes).into_iter();
            for run in order.flash_runs() {
                let mut parts: Vec<IoSliceMut<'_>> = parts.by_ref().take(run.len()).collect();
                let file = data.nth(run.len() - 1).expect("each piece has its file");
                file.read_vectored_at(&mut parts, run[0].place)?;
            }
            job.slow.write_at(bytes, order.range.offset)
        }
        CopyKind::Fetch => {
            // A file that shrank meanwhile is an error: nothing is published.
            job.slow.read_at(bytes, order.range.offset)?;
            for (piece, data) in order.pieces.iter().zip(&job.data) {
                let start = (piece.range.offset - order.range.offset) as usize;
                data.write_at(&bytes[start..start + piece.range.length as usize], piece.place)?;
            }
            Ok(())
        }
    }
}

/// Where each piece of a copy goes in `bytes`, which are those of its range.
fn parts_of<'a>(order: &CopyOrder, mut bytes: &'a mut [u8]) -> Vec<IoSliceMut<'a>> {
    let mut in_file: Vec<(usize, Range)> = order.pieces.iter().map(|piece| piece.range).enumerate().collect();
    in_file.sort_by_key(|(_, range)| range.offset);
    let mut parts: Vec<(usize, IoSliceMut<'a>)> = Vec::with_capacity(in_file.len());
    for (index, range) in in_file {
        let (part, rest) = bytes.split_at_mut(range.length as usize);
        parts.push((index, IoSliceMut::new(part)));
        bytes = rest;
    }
    parts.sort_by_key(|(index, _)| *index);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use headstart_overlay::CopyPiece;

    use super::*;
    use crate::storage::{Access, RealStorage, Storage};

    #[test]
    fn buffers_are_used_again_and_those_beyond_the_limit_freed_the_oldest_first() {
        let buffers = Buffers::default();
        let free = || buffers.free.lock().unwrap().iter().map(Vec::len).collect::<Vec<_>>();
        buffers.give_back(buffers.take(4096));
        buffers.give_back(buffers.take(8192));
        assert_eq!(free(), [4096, 8192], "the first was too short");
        assert_eq!(buffers.take(100).len(), 8192, "the last one given back");
        assert_eq!(free(), [4096]);
        (0..16)
            .map(|_| buffers.take(4 << 20))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|buffer| buffers.give_back(buffer));
        assert_eq!(free(), [4 << 20; FREE_BYTES_MAX >> 22]);
        buffers.give_back(vec![0; FREE_BYTES_MAX + 1]);
        assert!(free().is_empty(), "one alone may be too much");
    }

    fn run(job: &CopyJob) -> Result<(), i32> {
        match job.run(&mut vec![0; job.order.range.length as usize]) {
            Completion::Copied { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_are_copied_to_and_from_flash_in_whatever_order_they_lie_there() {
        const PIECE: u64 = 10;
        // More than one call reads.
        const PIECES: u64 = 3000;
        let directory = tempfile::tempdir().unwrap();
        let storage = RealStorage::below(directory.path()).unwrap();
        let open = |name: &str| storage.open(&directory.path().join(name), Access::Create).unwrap();
        let (flash, back, slow) = (open("flash"), open("back"), open("slow"));
        let bytes: Vec<u8> = (0..PIECE * PIECES).map(|at| (at % 251) as u8).collect();
        slow.write_at(&bytes, 100).unwrap();
        // A hole on flash after each 500.
        let place = |rank: u64| rank * PIECE + rank / 500;
        let pieces: Vec<CopyPiece> = (0..PIECES)
            .map(|rank| {
                let range = Range::new(100 + rank * 7 % PIECES * PIECE, PIECE);
                CopyPiece { range, data_file: 0, place: place(rank) }
            })
            .collect();
        let range = Range::new(100, PIECE * PIECES);
        for (kind, slow) in [(CopyKind::Fetch, &slow), (CopyKind::WriteBack, &back)] {
            let order = CopyOrder { id: 1, kind, file: 0, range, pieces: pieces.clone() };
            assert_eq!(order.flash_runs().count(), 6);
            let job = CopyJob { data: vec![flash.clone(); pieces.len()], slow: slow.clone(), order };
            assert_eq!(run(&job), Ok(()), "{kind:?}");
        }
        let mut found = vec![0; bytes.len()];
        back.read_at(&mut found, 100).unwrap();
        assert!(found == bytes);
        flash.set_size(place(PIECES - 1) + PIECE - 1).unwrap();
        let order = CopyOrder { id: 2, kind: CopyKind::WriteBack, file: 0, range, pieces };
        let job = CopyJob { data: vec![flash; PIECES as usize], slow: back, order };
        assert!(run(&job).is_err(), "flash ends before what was promised");
    }
}
