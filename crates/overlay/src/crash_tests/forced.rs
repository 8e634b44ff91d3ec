//! Interleavings forced step by step, each for a rule that was broken once or that the harness must be able
//! to see broken.

mod adoption;
mod commits;
mod counting;
mod cut_short;
mod dead_writers;
mod deaths;
mod extensions;
mod fetching;
mod forgetting;
mod frozen;
mod held_up;
mod in_place;
mod leaps;
mod left_alone;
mod lengthening;
mod listings;
mod names;
mod node_deaths;
mod online;
mod regions;
mod rings;
mod sharing;
mod sooner;
mod truncations;
mod unseen;

use std::sync::atomic::Ordering;

use super::ranks::{self, Kind, Rank};
use super::storage::Byte;
use super::world::{Task, World};
use crate::journal::{HEADER_BYTES, Identity, Record, records};
use crate::output::{Answer, CopyKind, NotSynced};
use crate::recovery::{Recovered, Replay};
use crate::settings::Settings;
use headstart_policy::client::FetchTurn;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::{GRANULES_PER_FILE, KIND_EXTEND, KIND_WRITE, STATE_READING};
use headstart_units::Capacity;
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

pub(crate) const A: Range = Range { offset: 0, length: 4096 };

/// Longer than anybody waits for a thread that does not go on, in polls.
const LONG: usize = 30;

/// A granule that has the word of the first.
const FAR: Range = Range { offset: GRANULES_PER_FILE as u64 * GRANULE_BYTES, length: 4096 };

/// A policy that copies only what a test asks for, with flash for 32 slabs of so many bytes.
fn quiet(slab_bytes: u64) -> Settings {
    Settings {
        capacity: Capacity::Bytes(32 * slab_bytes),
        dirty_high: 1.0,
        dirty_low: 1.0,
        dirty_full: 1.0,
        slab_bytes_max: slab_bytes,
        ..Settings::default()
    }
}

/// A world with one file open for reading and writing in both processes, and a policy that copies only what a
/// test asks for.
pub(crate) fn world() -> World {
    let mut w = World::with(1, quiet(4096));
    open_file(&mut w);
    w
}

fn open_file(w: &mut World) {
    for rank in [0, 2] {
        ranks::begin_other(w, rank, Kind::Open(true), 0, Range::default());
        w.quiesce();
    }
}

pub(crate) fn write(w: &mut World, rank: usize, range: Range, absorbed: bool) {
    ranks::begin_write(w, rank, 0, range, absorbed);
    run(w, rank);
}

fn other_file(w: &mut World, rank: usize, kind: Kind, inode: usize, range: Range) {
    ranks::begin_other(w, rank, kind, inode, range);
    run(w, rank);
}

pub(crate) fn other(w: &mut World, rank: usize, kind: Kind, range: Range) {
    other_file(w, rank, kind, 0, range);
}

fn remove_name(w: &mut World) {
    let Identity { inode, .. } = w.inodes[0].identity;
    w.inodes[0].linked = false;
    w.request(0, &Request::Unlinked { inode });
}

/// Lets one thread run to the end of its operation, the runtime helping.
pub(crate) fn run(w: &mut World, rank: usize) {
    for _ in 0..10_000 {
        if !w.ranks[rank].is_busy() {
            return;
        }
        ranks::step(w, rank, false);
        if w.agents[0].is_dead {
            w.restart();
        }
        if !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
        w.poll();
    }
    panic!("rank {rank} is stuck: {:?}", w.ranks[rank]);
}

/// A read of the slow file that was in vain again and again, and holds a lease.
pub(crate) fn starve(w: &mut World, rank: usize, range: Range) {
    ranks::begin_other(w, rank, Kind::Read, 0, range);
    for _ in 0..100 {
        if w.slot(rank).holds_slow_read() {
            return;
        }
        w.agents[0].memory.view().raise_generation(0, range);
        ranks::step(w, rank, false);
    }
    panic!("no lease: {:?}", w.ranks[rank]);
}

/// Whether the thread reads the slow file without a lease, or is about to look whether that counts.
pub(crate) fn reads_bare(w: &World, rank: usize) -> bool {
    w.slot(rank).state.load(Ordering::Relaxed) == STATE_READING
}

fn close_both(w: &mut World) {
    for rank in [0, 2] {
        other(w, rank, Kind::Close, A);
    }
    w.quiesce();
}

pub(crate) fn barrier(w: &mut World) {
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.quiesce();
}

pub(crate) fn drain(w: &mut World) {
    w.agents[0].overlay.drain(true);
    w.poll();
    w.quiesce();
    w.agents[0].overlay.drain(false);
}

pub(crate) fn no_violation(w: &World) {
    assert!(w.violations.is_empty(), "{}", w.violations.join("\n"));
}

/// A critical read is hinted at, and the fetch of it stands between reading the disk and writing flash.
pub(crate) fn half_done_fetch(w: &mut World) {
    write(w, 2, A, false);
    w.agents[0].memory.view().hint(2, 0, A, 1 << 30, FetchTurn::Soon);
    w.poll();
    let at = w.agents[0]
        .tasks
        .iter()
        .position(|task| matches!(task, Task::Copy { order, .. } if order.kind == CopyKind::Fetch));
    w.step_task(at.expect("the fetch has begun"));
}
