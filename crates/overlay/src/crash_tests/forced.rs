//! Interleavings forced step by step, each for a rule that was broken once or that the harness must be able
//! to see broken.

mod adoption;
mod counting;
mod cut_short;
mod deaths;
mod fetching;
mod frozen;
mod held_up;
mod in_place;
mod leaps;
mod left_alone;
mod lengthening;
mod listings;
mod node_deaths;
mod online;
mod regions;
mod rings;
mod sharing;
mod sooner;
mod truncations;

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

#[test]
fn a_direct_write_cancels_the_fetch_under_way() {
    let mut w = world();
    half_done_fetch(&mut w);
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    while w.ranks[0].is_busy() {
        ranks::step(&mut w, 0, false); // the copy stands still
    }
    w.quiesce();
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
    assert_eq!(w.agents[0].overlay.counters().fetches_cancelled_total, 1);
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 0);
}

#[test]
fn a_write_that_bypasses_slot_and_agent_makes_the_fetch_publish_old_bytes_and_the_model_sees_it() {
    let mut w = world();
    half_done_fetch(&mut w);
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    ranks::write_without_asking(&mut w, 0);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.counters().fetches_total, 1, "nobody told the agent");
    other(&mut w, 2, Kind::Read, A);
    assert!(w.violations.iter().any(|text| text.contains("a read of")), "{:?}", w.violations);
}

#[test]
fn a_cheap_write_seen_before_the_bit_is_waited_for_by_a_commit() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, false);
    ranks::step(&mut w, 0, false);
    ranks::step(&mut w, 0, false); // it has seen the bit clear
    ranks::begin_write(&mut w, 2, 0, A, true);
    for _ in 0..20 {
        ranks::step(&mut w, 2, false);
        w.poll();
    }
    assert!(w.ranks[2].is_busy(), "the commit waits");
    run(&mut w, 0);
    run(&mut w, 2);
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_file_is_forgotten_only_when_a_barrier_has_made_the_removal_of_its_dirty_bytes_durable() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    write(&mut w, 0, A, false); // drops them, not durable yet
    w.agents[0].overlay.barrier.forget_wish();
    for rank in [0, 2] {
        ranks::begin_other(&mut w, rank, Kind::Close, 0, A);
        while w.ranks[rank].is_busy() {
            ranks::step(&mut w, rank, false);
        }
    }
    w.agents[0].tasks.clear(); // no barrier ends
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    ranks::step(&mut w, 0, false);
    let shared = w.agents[0].memory.view();
    assert!(!shared.all_clear(0, A), "an fsync of the file opened again must ask the agent");
}

#[test]
fn slow_bytes_written_back_are_synced_before_the_file_may_be_forgotten() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    drain(&mut w);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    w.poll();
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    for _ in 0..3 {
        barrier(&mut w);
    }
    assert!(w.agents[0].overlay.find(w.inodes[0].identity).is_none(), "it is forgotten");
    w.crash(true);
    no_violation(&w);
}

#[test]
fn an_extension_that_a_truncation_made_needless_ends() {
    let mut w = world();
    write(&mut w, 0, A, false);
    let file = w.open[0][&0].unwrap();
    // A truncation to 3 pages is under way while bytes of the second page are committed.
    let size = 3 * 4096;
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(size, u64::MAX));
    for _ in 0..2 {
        ranks::step(&mut w, 2, false);
    }
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    run(&mut w, 2);
    run(&mut w, 0);
    w.quiesce();
    assert_eq!(w.agents[0].memory.view().files[file as usize].size_bit.load(Ordering::Relaxed), 0);
    drain(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn the_file_is_made_long_enough_although_the_committing_thread_died() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    let extends = w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(
        w.ranks[0].is_busy() && w.agents[0].overlay.dirty_bytes() > 0 && extends,
        "mapped, and not long enough yet"
    );
    w.kill(0);
    w.poll();
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), 8192);
    drain(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn a_write_that_extends_since_the_file_shrank_is_waited_for_though_its_slot_does_not_say_so() {
    let mut w = world();
    let far = Range::new(GRANULE_BYTES, 4096); // another granule, so that the commit need not wait for that
    write(&mut w, 0, far, false);
    other(&mut w, 0, Kind::Truncate, Range::new(far.end(), u64::MAX)); // now the agent knows the size
    let file = w.open[0][&0].unwrap();
    other(&mut w, 2, Kind::Truncate, Range::new(0, u64::MAX));
    // It looked at the size before.
    w.agents[0].memory.view().slots[3].publish_cheap(KIND_WRITE, file, far);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
        w.poll();
    }
    let extends = |w: &World| w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(!extends(&w) && w.ranks[0].is_busy(), "an extension now could cut off what that write appends");
    w.agents[0].memory.view().slots[3].free();
    run(&mut w, 0);
    no_violation(&w);
}

#[test]
fn that_an_open_file_has_no_name_is_known_to_the_next_agent_whoever_found_out() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let (file, identity) = (w.open[0][&0].unwrap(), w.inodes[0].identity);
    w.agents[0].overlay.disown(w.agents[0].memory.view(), file);
    w.carry_out();
    // Who removed it says so as well.
    let removed = Request::Unlinked { inode: identity.inode };
    w.request(0, &removed);
    let replay = Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..], Replay::Everything);
    assert!(replay.files[&file].unlinked, "it would be taken for one that was renamed, and its bytes kept for ever");
}

#[test]
fn the_new_name_of_a_file_whose_dirty_bytes_were_synced_becomes_durable_by_itself() {
    for synced in [false, true] {
        let mut w = world();
        write(&mut w, 0, A, true);
        if synced {
            other(&mut w, 0, Kind::Fsync, A);
        }
        w.quiesce();
        let old = w.agents[0].overlay.files[&w.open[0][&0].unwrap()].names.path().to_vec();
        let paths: &'static [u8] = [old.as_slice(), b"/slow/new"].concat().leak();
        w.request(0, &Request::Renamed { old_length: old.len() as u32, exchanged: false, paths });
        assert_eq!(!w.agents[0].tasks.is_empty(), synced, "a barrier has begun");
        w.quiesce();
        no_violation(&w);
    }
}

#[test]
fn the_first_commit_in_a_new_shared_file_is_not_taken_for_one_of_before() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let seq = w.agents[0].overlay.threads.last_commit(0).unwrap();
    barrier(&mut w);
    w.crash(true);
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    run(&mut w, 0);
    w.slot(0).seq.store(seq - 2, Ordering::Relaxed); // slab, commit
    write(&mut w, 0, A, true);
    assert_eq!(w.ranks[0].seq, seq);
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_fetched_extent_counts_only_after_its_slow_file_was_synced() {
    let mut w = world();
    half_done_fetch(&mut w);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.counters().fetches_total, 1);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    barrier(&mut w);
    let replay = Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..], Replay::ToLastBarrier);
    assert_eq!(replay.files[&0].map.len(), 1, "the clean extent is kept: no writer is left");
    w.random.0 = 3; // unsynced changes are lost
    w.crash(true);
    no_violation(&w);
    w.check_clean();
    no_violation(&w);
}

#[test]
fn a_commit_does_not_take_away_slabs_that_the_thread_is_about_to_commit() {
    let mut w = world();
    let file = w.open[0][&0].unwrap();
    // Every entry of the table is in use: one slab of three pages, seven of one.
    for length in [3, 1, 1, 1, 1, 1, 1, 1] {
        w.request(0, &Request::Slab { file, offset: 0, length: length * 4096 });
    }
    let place = |w: &World, k: usize| {
        let slab = &w.agents[0].memory.view().slots[0].slabs[k];
        (slab.data_file.load(Ordering::Relaxed), slab.place.load(Ordering::Relaxed), slab.read().length)
    };
    let held: Vec<_> = (0..8).map(|k| place(&w, k)).filter(|slab| slab.2 > 0).collect();
    assert_eq!(held.len(), 8);
    // The thread has written to the first and the last and commits them one after the other. The rest of the
    // first is too short for another such write.
    for (offset, length, (data_file, place, _)) in [(0, 8192, held[0]), (8192, 4096, held[7])] {
        w.request(0, &Request::Commit { file, data_file, offset, length, place });
        w.quiesce();
        assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    }
}

#[test]
fn places_a_reader_holds_become_free_when_it_ends_without_another_barrier() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    while !matches!(w.ranks[2].answer, Some(Answer::Flash { .. })) {
        ranks::step(&mut w, 2, false);
    }
    write(&mut w, 0, A, true);
    barrier(&mut w);
    let barriers = w.agents[0].overlay.counters().barriers_total;
    assert_eq!(w.agents[0].overlay.space.removed_bytes(), 4096, "the reader holds it");
    w.agents[0].overlay.set_capacity(Capacity::Bytes(3 * 4096)); // space is short
    for _ in 0..50 {
        w.poll();
        while !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    assert_eq!(w.agents[0].overlay.counters().barriers_total, barriers, "no barrier can help");
    run(&mut w, 2);
    w.poll();
    assert_eq!(w.agents[0].overlay.space.removed_bytes(), 0);
    no_violation(&w);
}

#[test]
fn a_critical_read_that_waited_for_room_is_fetched_when_there_is_room() {
    let mut w = world();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(2 * 4096));
    half_done_fetch(&mut w);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 4096, "the room is taken by bytes of little benefit");
    let better = Range::new(8192, 4096);
    write(&mut w, 0, better, false);
    w.agents[0].memory.view().hint(2, 0, better, 1 << 40, FetchTurn::Soon);
    for _ in 0..5 {
        w.poll();
        w.quiesce();
    }
    assert_eq!(w.agents[0].overlay.counters().fetches_total, 2);
    no_violation(&w);
}

#[test]
fn the_open_of_a_file_with_a_durable_intent_waits_for_no_barrier() {
    let mut w = world();
    write(&mut w, 0, A, true);
    barrier(&mut w);
    ranks::begin_other(&mut w, 1, Kind::Open(true), 0, A);
    ranks::step(&mut w, 1, false);
    assert!(w.ranks[1].answer.is_some());
    assert!(w.agents[0].tasks.is_empty(), "nor does it start one");
}

#[test]
fn a_new_file_with_an_inode_number_used_before_outlives_the_news_that_the_old_one_is_gone() {
    let mut w = world();
    let old = w.open[0][&0].unwrap();
    w.inodes[0].linked = false;
    w.create(0);
    let new = w.paths[0];
    // The file system gave the number away at once, and knows when a file was born.
    w.inodes[new].identity = Identity { birth_ns: 7, ..w.inodes[0].identity };
    other_file(&mut w, 2, Kind::Open(true), new, A);
    ranks::begin_write(&mut w, 2, new, A, true);
    run(&mut w, 2);
    let number = w.open[1][&new].unwrap();
    let Identity { inode, .. } = w.inodes[0].identity;
    let envelope = Envelope { slot: w.ranks[0].slot as u32, seq: w.ranks[0].seq + 1 };
    w.ranks[0].seq += 1;
    w.agents[0].overlay.on_unlinked(w.agents[0].memory.view(), envelope, inode, |file| file == number);
    w.carry_out();
    assert!(
        w.agents[0].overlay.files[&old].names.is_unlinked() && !w.agents[0].overlay.files[&number].names.is_unlinked()
    );
    other_file(&mut w, 2, Kind::Close, new, A);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length, "what was written is kept for the new file");
    no_violation(&w);
}

/// A file that both processes have open and that bytes on flash are of; `inherited`: one of them has forked.
fn left_open(inherited: bool) -> (World, u32) {
    let mut w = world();
    write(&mut w, 0, A, true);
    let file = w.open[0][&0].unwrap();
    if inherited {
        w.agents[0].memory.view().files[file as usize].bequeath();
    }
    (w, file)
}

fn remove_name(w: &mut World) {
    let Identity { inode, .. } = w.inodes[0].identity;
    w.inodes[0].linked = false;
    w.request(0, &Request::Unlinked { inode });
}

#[test]
fn before_bytes_that_a_program_synced_are_given_up_with_a_name_its_directory_is_synced() {
    for (synced, written_back) in [(true, false), (true, true), (false, false)] {
        let mut w = world();
        write(&mut w, 0, A, true);
        if synced {
            other(&mut w, 0, Kind::Fsync, A);
        }
        if written_back {
            drain(&mut w);
        }
        remove_name(&mut w);
        close_both(&mut w);
        barrier(&mut w);
        let expected: &[&[u8]] = if synced { &[b"/slow"] } else { &[] };
        assert_eq!(w.agents[0].left_directories, expected, "synced {synced}, written back {written_back}");
        no_violation(&w);
    }
}

#[test]
fn a_directory_that_a_barrier_could_not_sync_is_synced_by_the_next() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    w.agents[0].overlay.hold_barriers(true);
    remove_name(&mut w);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    w.agents[0].overlay.hold_barriers(false);
    w.agents[0].overlay.request_barrier();
    w.poll();
    assert_eq!(w.agents[0].left_directories.len(), 1);
    w.agents[0].tasks.retain(|task| !matches!(task, Task::Barrier { .. }));
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    barrier(&mut w);
    assert_eq!(w.agents[0].left_directories.len(), 2);
}

#[test]
fn bytes_of_a_file_without_a_name_are_written_back_for_whoever_may_have_inherited_it_and_for_nobody_else() {
    for (inherited, removed_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut w, _) = left_open(inherited);
        if removed_first {
            remove_name(&mut w);
        }
        for rank in [0, 2] {
            other(&mut w, rank, Kind::Close, A);
        }
        if !removed_first {
            remove_name(&mut w);
        }
        w.quiesce();
        barrier(&mut w);
        let written_back = w.agents[0].overlay.counters().written_back_bytes_total;
        assert_eq!(written_back, if inherited { A.length } else { 0 }, "removed first: {removed_first}");
        assert!(w.agents[0].overlay.find(w.inodes[0].identity).is_none(), "it is forgotten");
        if inherited {
            // A child that never said so reads what its parent wrote.
            other(&mut w, 2, Kind::Open(false), A);
            other(&mut w, 2, Kind::Read, A);
        }
        no_violation(&w);
    }
}

#[test]
fn whoever_inherited_a_file_without_a_name_opens_the_same_file_while_it_is_written_back() {
    let (mut w, file) = left_open(true);
    remove_name(&mut w);
    let alone = |w: &mut World, rank: usize, kind: Kind| {
        ranks::begin_other(w, rank, kind, 0, A);
        for _ in 0..20 {
            ranks::step(w, rank, false);
        }
        assert!(!w.ranks[rank].is_busy());
    };
    alone(&mut w, 0, Kind::Close);
    alone(&mut w, 2, Kind::Close);
    assert!(w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. })), "a write-back has begun");
    // For reading: one that may write waits for a barrier.
    alone(&mut w, 2, Kind::Open(false));
    assert_eq!(w.open[1][&0], Some(file));
    alone(&mut w, 2, Kind::Read);
    w.quiesce();
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_new_file_under_an_identity_used_before_gets_nothing_of_the_old_one_after_power_loss() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    let identity = w.inodes[0].identity;
    w.inodes[0].linked = false;
    w.create(0);
    let new = w.paths[0];
    w.inodes[new].identity = identity;
    let request = Request::Unlinked { inode: identity.inode };
    w.request(0, &request);
    // The barrier that would make the removal durable has not ended: the open of the new file waits.
    ranks::begin_other(&mut w, 0, Kind::Open(true), new, A);
    ranks::step(&mut w, 0, false);
    assert!(w.ranks[0].answer.is_none());
    w.quiesce();
    no_violation(&w);
    w.crash(true);
    no_violation(&w);
}

#[test]
fn absorbed_bytes_beyond_the_end_found_at_a_start_extend_the_file() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.inodes[0].store.truncate(0); // as if the power had failed before the new size was stable
    w.crash(false);
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), 4096);
}

#[test]
fn a_barrier_that_failed_still_covers_what_it_took_next_time() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    other(&mut w, 0, Kind::Fsync, A);
    w.crash(true);
    no_violation(&w);
}

/// A process was killed while a write of it to the disk was under way, over bytes that are clean on flash.
fn world_with_a_dead_writer() -> World {
    let mut w = world();
    write(&mut w, 2, A, true);
    drain(&mut w);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), false);
    for _ in 0..4 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0);
    w
}

#[test]
fn a_quarantine_whose_barrier_failed_is_lifted_by_the_next_one_that_nobody_else_asks_for() {
    let mut w = world_with_a_dead_writer();
    w.poll();
    assert!(w.agents[0].overlay.leases.quarantined() == 1 && w.agents[0].overlay.is_barrier_running());
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    w.quiesce();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 0);
    no_violation(&w);
}

#[test]
fn a_dead_writers_range_is_fetched_again_once_its_slow_file_was_synced() {
    let mut w = world_with_a_dead_writer();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 1);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 0);
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 0, "clean bytes under a write that landed late are dropped");
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
    let closed = |bytes: &[u8]| records(bytes).any(|(record, _)| matches!(record, Record::Closed { .. }));
    assert!(!closed(&w.agents[0].journal.bytes[HEADER_BYTES..]), "the other process writes it still");
    assert!(!w.ranks.iter().any(Rank::is_busy));
    assert_eq!(w.inodes[0].store.read(Range::new(4095, 1))[0].1, Byte::Written { version: 1, shift: 0 });
}

#[test]
fn write_back_goes_on_below_the_size_while_the_file_is_being_extended() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    while !w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. })) {
        ranks::step(&mut w, 0, false);
    }
    w.agents[0].overlay.drain(true);
    w.poll();
    let copied = w.agents[0].tasks.iter().find_map(|task| match task {
        Task::Copy { order, .. } => Some(order.range),
        _ => None,
    });
    assert_eq!(copied, Some(A));
}

#[test]
fn an_extension_waits_for_a_write_back_beyond_the_known_size() {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    // A thread dies after its truncation and before it could say so, and the slow file cannot be looked at:
    // the dirty bytes lie beyond the end.
    w.whims.blind = true;
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(0, u64::MAX));
    while w.inodes[0].store.size() > 0 {
        ranks::step(&mut w, 2, false);
    }
    w.kill(1);
    w.agents[0].overlay.drain(true);
    w.poll();
    let copies = |w: &World| w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. }));
    assert!(copies(&w));
    ranks::begin_write(&mut w, 0, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    let extends = w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(copies(&w) && !extends, "the extension might cut off what the write-back adds");
    run(&mut w, 0);
    w.quiesce();
    w.check_clean();
    no_violation(&w);
}

#[test]
fn a_commit_waits_for_a_slow_read_under_a_lease() {
    let mut w = world();
    write(&mut w, 0, Range::new(8192, 4096), true); // the bit is set: reads ask
    starve(&mut w, 2, A);
    ranks::begin_write(&mut w, 0, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    assert!(w.ranks[0].is_busy(), "else the read could return bytes older than another read has seen");
    run(&mut w, 2);
    run(&mut w, 0);
    no_violation(&w);
}

#[test]
fn bytes_written_back_after_the_last_close_count_as_clean_only_once_the_slow_file_was_synced() {
    for seed in 0..8 {
        let mut w = world();
        write(&mut w, 0, A, true);
        for rank in [0, 2] {
            other(&mut w, rank, Kind::Close, A);
        }
        barrier(&mut w);
        drain(&mut w);
        w.agents[0].overlay.barrier.want(); // as when space runs short
        w.poll();
        w.quiesce();
        w.random.0 = seed; // some of these lose what was not synced
        w.crash(true);
        w.check_clean();
        no_violation(&w);
    }
}

#[test]
fn a_size_seen_by_an_open_during_an_extension_is_not_believed() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, true);
    let extends = |w: &World| w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. }));
    while extends(&w).is_none() {
        ranks::step(&mut w, 0, false);
    }
    let at = extends(&w).unwrap();
    w.step_task(at); // it has seen an empty file
    w.kill(0);
    w.kill(1);
    w.inodes[0].store.write(vec![(Range::new(8192, 10), Byte::Zero)]); // a dead thread's write lands
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    run(&mut w, 0);
    w.quiesce();
    assert!(w.agents[0].overlay.files[&0].length.size() <= w.inodes[0].store.size());
    no_violation(&w);
}

#[test]
fn a_write_back_that_a_dead_thread_may_have_overwritten_does_not_count() {
    let mut w = world();
    write(&mut w, 2, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), false);
    for _ in 0..4 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0); // under its direct-write lease
    w.agents[0].tasks.retain(|task| matches!(task, Task::Barrier { .. }));
    w.agents[0].overlay.drain(true);
    w.poll();
    let find =
        |w: &World| w.agents[0].tasks.iter().position(|task| matches!(task, Task::Copy { .. })).expect("a write-back");
    for _ in 0..2 {
        let at = find(&w);
        w.step_task(at); // read, written, not reported yet
    }
    w.land_all_late();
    while let Some(at) = w.agents[0].tasks.iter().position(|task| !matches!(task, Task::Copy { .. })) {
        w.step_task(at); // the barrier lifts the quarantine
    }
    assert!(w.agents[0].overlay.leases.quarantined() == 0);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    w.check_clean();
    no_violation(&w);
}

#[test]
fn a_file_written_by_means_nobody_sees_leaves_flash_until_that_process_ends() {
    let mut w = world();
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    assert_eq!(
        (w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()),
        (0, 0),
        "the bytes went back and left"
    );
    write(&mut w, 2, A, true);
    w.agents[0].memory.view().hint(2, 0, A, 1 << 30, FetchTurn::Soon);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.extents(), 0, "neither a write nor a critical read brings bytes back");
    w.kill(0);
    w.quiesce();
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    no_violation(&w);
}

#[test]
fn while_a_program_that_nobody_sees_lives_every_file_is_off_flash_and_nothing_comes_there() {
    let mut w = world();
    write(&mut w, 2, A, true);
    w.agents[0].memory.view().hint(2, 0, Range::new(8192, 4096), 1 << 30, FetchTurn::Soon);
    w.agents[0].overlay.keep_off(w.agents[0].memory.view(), true);
    let file = w.agents[0].overlay.files_on_flash().collect::<Vec<_>>();
    assert_eq!(file, [w.open[0][&0].unwrap()]);
    // Of no request that the world knows: it reports the answer.
    let envelope = Envelope { slot: w.ranks[0].slot as u32, seq: 1 << 40 };
    w.agents[0].overlay.take_off(w.agents[0].memory.view(), envelope, file[0]);
    w.carry_out();
    w.quiesce();
    let answers = std::mem::take(&mut w.violations);
    assert!(matches!(&answers[..], [answer] if answer.contains("awaits: Done")), "{answers:?}");
    assert_eq!(
        (w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()),
        (0, 0),
        "the bytes went back and left"
    );
    for rank in [0, 2] {
        write(&mut w, rank, A, true);
    }
    w.quiesce();
    assert_eq!(w.agents[0].overlay.extents(), 0, "neither a write nor a critical read brings bytes back");
    assert_eq!(w.agents[0].memory.view().header.free_bytes.load(Ordering::Relaxed), 0, "nobody needs to ask");
    w.agents[0].overlay.keep_off(w.agents[0].memory.view(), false);
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    no_violation(&w);
}

#[test]
fn a_file_only_read_by_means_nobody_sees_keeps_its_clean_bytes_on_flash() {
    let mut w = world();
    write(&mut w, 2, A, true);
    other(&mut w, 0, Kind::Bypass(false), Range::default());
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()), (0, 1));
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.extents(), 0, "a newer write went to disk, where the reader looks");
    no_violation(&w);
}

#[test]
fn a_file_is_known_by_a_name_that_stays_when_another_goes_and_if_there_is_none_its_bytes_go_back_before() {
    for told in [true, false] {
        let mut w = world();
        write(&mut w, 0, A, true);
        w.quiesce();
        let (file, identity) = (w.open[0][&0].unwrap(), w.inodes[0].identity);
        let path: &'static [u8] = w.agents[0].overlay.files[&file].names.path().to_vec().leak();
        let name = |stays, path| Request::Name { inode: identity.inode, stays, path };
        if told {
            w.request(0, &name(true, b"/slow/d/second"));
            // Of a directory above it, too.
            w.request(0, &Request::Renamed { old_length: 7, exchanged: false, paths: b"/slow/d/slow/e" });
        }
        w.request(0, &name(false, path));
        w.quiesce();
        assert_eq!(w.agents[0].overlay.dirty_bytes() > 0, told);
        let known = if told { b"/slow/e/second" } else { path };
        assert_eq!(w.agents[0].overlay.files[&file].names.path(), known);
        let replay = Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..], Replay::Everything);
        assert_eq!(replay.files[&file].path, known);
        // Nothing that nobody would find comes to flash, until somebody opens it by a name.
        write(&mut w, 0, A, true);
        assert_eq!(w.agents[0].overlay.dirty_bytes() > 0, told);
        w.request(0, &name(true, b"/slow/third"));
        write(&mut w, 0, A, true);
        assert!(w.agents[0].overlay.dirty_bytes() > 0);
        assert_eq!(w.agents[0].overlay.files[&file].names.path() == b"/slow/third", !told);
        no_violation(&w);
    }
}
