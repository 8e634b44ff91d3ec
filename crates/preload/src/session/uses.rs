//! Which descriptor numbers the threads of this process are using, so that whoever closes or replaces one
//! waits until the calls under way on it have ended: the second half of such a call would use another file.
//!
//! ```text
//! call:   note the number | fence | does it mean the same file? -> yes: the call, then the note is taken back
//! close:  mark the number | fence | look at the notes           -> none: the kernel's close
//! ```
//!
//! Of two sequentially consistent fences one comes first: either the call sees the mark or the close sees the
//! note. A thread has the note of its slot; a call without a slot yet, and one in a handler that interrupted
//! another call, takes a spare one. Where those are all taken, a call goes without, and nobody waits for it.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use headstart_protocol::shared::SLOTS_MAX;
use libc::c_int;

use super::slots;
use super::threads::{THREAD, Thread};
use crate::files::descriptors::table::DESCRIPTORS_MAX;
use crate::kernel;

const NUMBER_BITS: u32 = 16;
const _: () = assert!(DESCRIPTORS_MAX <= 1 << NUMBER_BITS);
const SPARES_MAX: usize = 512;

/// A thread's address above the number it uses; zero: none. Each in a cache line of its own.
#[repr(align(64))]
struct Note(AtomicU64);

/// By the number of the thread's slot.
static NOTES: [Note; SLOTS_MAX] = [const { Note(AtomicU64::new(0)) }; SLOTS_MAX];
static SPARES: [AtomicU64; SPARES_MAX] = [const { AtomicU64::new(0) }; SPARES_MAX];
/// Spare ones that are taken, or about to be.
static SPARES_TAKEN: AtomicU32 = AtomicU32::new(0);

/// A call's use of a number, until it is dropped.
pub(crate) struct Use {
    note: Option<&'static AtomicU64>,
    spare: bool,
}

fn owner(thread: &Thread) -> u64 {
    (ptr::from_ref(thread).addr() as u64) << NUMBER_BITS
}

impl Use {
    /// Notes the number. Whether it still means the same file has to be asked after a fence.
    #[inline]
    pub(crate) fn begin(fd: c_int) -> Use {
        THREAD.with(|thread| {
            let (session, value) = (thread.session.get(), owner(thread) | fd as u64);
            if !session.is_null() {
                // SAFETY: the pointer is this thread's own; `index` never changes after `join`.
                let note = &NOTES[unsafe { (*session).index } as usize].0;
                // Only this thread writes it, and a handler in between leaves it as it was.
                if note.load(Ordering::Relaxed) == 0 {
                    note.store(value, Ordering::Relaxed);
                    return Use { note: Some(note), spare: false };
                }
            }
            Use::spare(value)
        })
    }

    #[cold]
    fn spare(value: u64) -> Use {
        SPARES_TAKEN.fetch_add(1, Ordering::SeqCst);
        let take = |note: &&AtomicU64| note.compare_exchange(0, value, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        Use { note: SPARES.iter().find(take), spare: true }
    }

    /// Whether those who close or replace the number wait for its end.
    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.note.is_some()
    }
}

impl Drop for Use {
    #[inline]
    fn drop(&mut self) {
        if let Some(note) = self.note {
            note.store(0, Ordering::Release);
        }
        if self.spare {
            SPARES_TAKEN.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The notes of this process's threads.
fn notes() -> impl Iterator<Item = &'static AtomicU64> {
    let of_threads = slots::owned().map(|index| &NOTES[index].0);
    let spares = if SPARES_TAKEN.load(Ordering::Acquire) == 0 { &SPARES[..0] } else { &SPARES[..] };
    of_threads.chain(spares)
}

/// Whether the calling thread is in a handler that interrupted a call of its own. It must wait for nobody:
/// what it waits for may wait for that call.
#[cold]
pub(crate) fn is_in_call() -> bool {
    THREAD.with(|thread| {
        let mine = |note: &AtomicU64| note.load(Ordering::Relaxed) >> NUMBER_BITS == owner(thread) >> NUMBER_BITS;
        thread.busy.load(Ordering::Relaxed) || notes().any(mine)
    })
}

/// Whether no call is under way on a number, which the caller marked.
pub(crate) fn is_unused(fd: c_int) -> bool {
    fence(Ordering::SeqCst);
    notes().all(|note| !uses(note, fd))
}

/// Waits until it looks so.
#[cold]
pub(crate) fn wait_for(fd: c_int) {
    for note in notes() {
        let mut tries = 0;
        while uses(note, fd) {
            tries += 1;
            if tries < 100 { std::thread::yield_now() } else { kernel::sleep_ms(1) }
        }
    }
}

fn uses(note: &AtomicU64, fd: c_int) -> bool {
    let value = note.load(Ordering::Acquire);
    value != 0 && value & ((1 << NUMBER_BITS) - 1) == fd as u64
}

/// A thread that leaves its slot uses nothing.
pub(super) fn end(slot: u32) {
    NOTES[slot as usize].0.store(0, Ordering::Release);
}

/// In a forked child: the parent's other threads are not there.
pub(super) fn abandon() {
    notes().for_each(|note| note.store(0, Ordering::Relaxed));
    SPARES_TAKEN.store(0, Ordering::Relaxed);
}
