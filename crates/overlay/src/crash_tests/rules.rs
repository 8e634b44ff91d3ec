//! Rules of the protocol whose absence the random cases do not notice, one interleaving each.

use super::forced::{A, barrier, drain, half_done_fetch, no_violation, other, reads_bare, run, starve, world, write};
use super::ranks::{self, Kind};
use super::world::{Task, World};
use crate::output::{Answer, CopyKind, NotSynced};
use headstart_policy::client::FetchTurn;
use headstart_protocol::message::{Envelope, Request};
use headstart_units::Capacity;
use headstart_units::request::Range;

#[test]
fn a_commit_sent_again_is_answered_and_not_applied_again() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let seq = w.agents[0].overlay.threads.last_commit(0).unwrap();
    let first = w.agents[0].overlay.files[&0].map.at(0).expect("it is mapped");
    write(&mut w, 2, A, true);
    let (data_file, place) = (first.data_file, first.place);
    let again = Request::Commit { file: 0, data_file, offset: A.offset, length: A.length, place };
    w.ranks[0].answer = None;
    w.agents[0].overlay.on_request(w.agents[0].memory.view(), 1, Envelope { slot: 0, seq }, &again);
    w.carry_out();
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

fn fetches(w: &World) -> bool {
    w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { order, .. } if order.kind == CopyKind::Fetch))
}

#[test]
fn nothing_is_fetched_where_a_dead_thread_may_still_write() {
    let mut w = world();
    let dead = Range::new(8192, 4096);
    write(&mut w, 2, A, true); // the granule's bit is set: direct writes ask
    ranks::begin_write(&mut w, 0, 0, dead, false);
    for _ in 0..4 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0);
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 1);
    w.agents[0].memory.view().hint(2, 0, dead, 1 << 30, FetchTurn::Soon);
    w.poll();
    assert!(!fetches(&w), "what is fetched now would be older than the write that lands later");
    w.quiesce();
    assert!(w.agents[0].overlay.leases.quarantined() == 0);
    w.agents[0].memory.view().hint(2, 0, dead, 1 << 30, FetchTurn::Soon);
    w.poll();
    assert!(fetches(&w));
    w.quiesce();
    no_violation(&w);
}

#[test]
fn nobody_waits_for_what_a_dead_thread_had_under_way() {
    let elsewhere = Range::new(8192, 4096);
    let cheap = |w: &World| w.agents[0].memory.view().slots[w.ranks[0].slot].cheap_touches(0, 0);
    let granted = |w: &World| w.ranks[0].answer.is_some();
    // What it had under way, whether the bit was set so that it asked, and when it dies.
    type Reached = fn(&World) -> bool;
    let cases: [(Kind, bool, Reached); 4] = [
        (Kind::Write, false, cheap),
        (Kind::Write, true, granted),
        (Kind::Read, false, |w| reads_bare(w, 0)),
        (Kind::Read, true, granted),
    ];
    for (kind, asks, reached) in cases {
        for next_agent in [false, true] {
            let mut w = world();
            write(&mut w, 2, elsewhere, asks);
            match kind {
                Kind::Write => ranks::begin_write(&mut w, 0, 0, A, false),
                _ => ranks::begin_other(&mut w, 0, kind, 0, A),
            }
            while !reached(&w) {
                ranks::step(&mut w, 0, false);
            }
            w.kill(0);
            if next_agent {
                w.kill_agent();
                w.restart();
            }
            ranks::begin_write(&mut w, 2, 0, A, true);
            for _ in 0..100 {
                ranks::step(&mut w, 2, false);
                // The barrier that would end the quarantine stands still.
                if let Some(at) = w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. })) {
                    w.step_task(at);
                }
                w.poll();
            }
            assert!(!w.ranks[2].is_busy(), "{kind:?}, asks: {asks}, next agent: {next_agent}");
            write(&mut w, 2, A, false);
            other(&mut w, 2, Kind::Read, A);
            w.finish();
            no_violation(&w);
        }
    }
}

#[test]
fn a_bit_stays_set_until_a_barrier_covers_the_removal_of_dirty_bytes() {
    let mut w = world();
    write(&mut w, 0, A, true);
    barrier(&mut w);
    let barriers = w.agents[0].overlay.counters().barriers_total;
    w.agents[0].overlay.request_barrier();
    w.poll();
    ranks::begin_write(&mut w, 0, 0, A, false);
    while w.ranks[0].is_busy() {
        ranks::step(&mut w, 0, false); // the barrier stands still
    }
    assert_eq!(w.agents[0].overlay.extents(), 0);
    while w.agents[0].overlay.counters().barriers_total == barriers {
        w.step_task(0);
    }
    assert!(!w.agents[0].memory.view().all_clear(0, A), "power loss would bring the dirty bytes back");
    barrier(&mut w);
    assert!(w.agents[0].memory.view().all_clear(0, A));
    no_violation(&w);
}

/// Begins a barrier and lets it fail at these files.
fn failed_barrier(w: &mut World, failed: NotSynced) {
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(failed));
    w.carry_out();
    w.quiesce();
}

fn answer(w: &mut World, request: &Request<'static>) -> Option<Answer> {
    w.request(0, request);
    w.quiesce();
    w.ranks[0].answer.take()
}

#[test]
fn a_data_file_whose_sync_failed_is_used_no_more_and_what_it_lost_is_named_until_it_is_written_anew() {
    let mut w = world();
    let durable = Range::new(8192, 4096);
    write(&mut w, 0, durable, true);
    barrier(&mut w);
    write(&mut w, 0, A, true);
    let lost = w.agents[0].overlay.files[&0].map.at(0).expect("it is mapped");
    failed_barrier(&mut w, NotSynced { data_files: vec![lost.data_file], ..NotSynced::default() });
    let read = Request::Read { file: 0, offset: A.offset, length: A.length, leased: false, in_order: false };
    assert!(matches!(answer(&mut w, &read), Some(Answer::Error { errno: 5, .. })));
    assert!(matches!(answer(&mut w, &Request::Sync { file: 0 }), Some(Answer::Error { errno: 5, .. })));
    other(&mut w, 2, Kind::Read, durable);
    w.agents[0].overlay.drain(true);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length, "it is not written back");
    assert_eq!(w.agents[0].overlay.file_list().next().and_then(|(.., error)| error), Some(5));
    w.agents[0].overlay.drain(false);
    // A slab of the failed file may be left: its commit is refused, and the write goes to disk.
    write(&mut w, 0, Range::new(16384, 4096), true);
    write(&mut w, 0, A, true);
    write(&mut w, 0, A, true);
    let places: Vec<u32> = w.agents[0].overlay.files[&0].map.overlapping(A).map(|mapped| mapped.data_file).collect();
    assert!(!places.contains(&lost.data_file), "{places:?}");
    assert_eq!(answer(&mut w, &Request::Sync { file: 0 }), Some(Answer::Done));
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_fetch_that_waits_to_be_published_in_a_data_file_whose_sync_failed_is_not() {
    let mut w = world();
    half_done_fetch(&mut w);
    starve(&mut w, 0, A);
    let copies = |task: &Task| matches!(task, Task::Copy { .. });
    while let Some(at) = w.agents[0].tasks.iter().position(copies) {
        w.step_task(at);
    }
    assert!(w.ranks[0].is_busy() && w.agents[0].overlay.extents() == 0, "the fetch waits for the reader");
    let data_file = w.agents[0].overlay.files[&0].data_file.expect("the fetch has one");
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(
        w.agents[0].memory.view(),
        Err(NotSynced { data_files: vec![data_file], ..NotSynced::default() }),
    );
    w.carry_out();
    run(&mut w, 0);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.counters().fetches_cancelled_total, 1);
    assert!(
        w.agents[0].overlay.files[&0].map.iter().all(|mapped| mapped.data_file != data_file),
        "it was fetched anew, if at all"
    );
    no_violation(&w);
}

#[test]
fn what_a_barrier_could_not_try_to_sync_is_lost_only_if_a_later_one_fails_at_it() {
    let read = Request::Read { file: 0, offset: A.offset, length: A.length, leased: false, in_order: false };
    for fails in [false, true] {
        let mut w = world();
        write(&mut w, 0, A, true);
        let data_file = w.agents[0].overlay.files[&0].map.at(0).expect("it is mapped").data_file;
        failed_barrier(&mut w, NotSynced { data_files_untried: vec![data_file], ..NotSynced::default() });
        assert!(matches!(answer(&mut w, &read), Some(Answer::Flash { .. })));
        if fails {
            failed_barrier(&mut w, NotSynced { data_files: vec![data_file], ..NotSynced::default() });
            assert!(matches!(answer(&mut w, &read), Some(Answer::Error { errno: 5, .. })));
        } else {
            barrier(&mut w);
            assert!(matches!(answer(&mut w, &read), Some(Answer::Flash { .. })));
        }
        no_violation(&w);
    }
}

#[test]
fn what_was_evicted_of_a_slow_file_whose_sync_failed_is_on_flash_again_but_for_what_was_written_since() {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    w.agents[0].overlay.drain(true);
    w.poll();
    w.quiesce();
    w.agents[0].overlay.drain(false);
    w.agents[0].overlay.hold_barriers(true);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    w.poll();
    assert_eq!(w.agents[0].overlay.extents(), 0, "all is evicted");
    write(&mut w, 0, Range::new(4096, 4096), false);
    w.agents[0].overlay.hold_barriers(false);
    failed_barrier(&mut w, NotSynced { slow_files: vec![0], ..NotSynced::default() });
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.space.removed_bytes()), (4096, 0));
    other(&mut w, 2, Kind::Read, Range::new(0, 8192));
    w.agents[0].overlay.drain(true);
    w.poll();
    w.quiesce();
    barrier(&mut w);
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.space.removed_bytes()), (0, 0));
    no_violation(&w);
}

#[test]
fn what_is_clean_of_a_slow_file_whose_sync_failed_is_written_back_again() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.agents[0].overlay.drain(true);
    w.poll();
    w.quiesce();
    w.agents[0].overlay.drain(false);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    failed_barrier(&mut w, NotSynced { slow_files: vec![0], ..NotSynced::default() });
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    w.agents[0].overlay.drain(true);
    w.poll();
    w.quiesce();
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.counters().write_backs_total), (0, 2));
    no_violation(&w);
}

#[test]
fn a_commit_whose_file_cannot_be_made_longer_takes_no_byte_back_that_was_acknowledged_before() {
    let mut w = world();
    let (older, newer) = (Range::new(4096, 4096), Range::new(0, 12288));
    write(&mut w, 0, older, true);
    // A truncation that fails leaves the known size below the real one.
    w.request(2, &Request::Truncate { file: 0, size: 1024 });
    w.request(2, &Request::TruncateDone { file: 0, size: 1024, changed: false });
    ranks::begin_write(&mut w, 0, 0, newer, true);
    while !matches!(w.ranks[0].pending, Some(Request::Commit { .. })) {
        ranks::step(&mut w, 0, false);
    }
    assert!(
        w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }))
            && w.agents[0].overlay.files[&0].map.end() == newer.end()
    );
    w.agents[0].tasks.retain(|task| !matches!(task, Task::Extend { .. }));
    w.agents[0].overlay.on_extended(w.agents[0].memory.view(), 0, Err(28));
    w.carry_out();
    let map = &w.agents[0].overlay.files[&0].map;
    assert!(map.touches(older) && map.overlapping(older).all(|mapped| mapped.range.end() <= older.end()));
    assert!(!map.touches(Range::new(8192, 4096)), "those beyond are taken back");
    assert_eq!(w.ranks[0].answer, Some(Answer::NoSpace), "it asks the disk, where a part may still fit");
}

/// Flash is full, but for a page that rank 0 holds, and if it `is_coming` one that a barrier will free.
fn full_flash(is_coming: bool) -> World {
    let other_page = Range::new(8192, 4096);
    let mut w = world();
    write(&mut w, 0, A, true);
    write(&mut w, 2, if is_coming { A } else { other_page }, true);
    assert_eq!(w.agents[0].overlay.space.removed_bytes() > 0, is_coming);
    assert_eq!(w.agents[0].overlay.slab_pages(w.ranks[0].slot as u32), 1);
    let taken = w.agents[0].overlay.space.capacity_bytes() - w.agents[0].overlay.space.available_bytes();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(taken));
    w
}

fn slab(pages: u64) -> Request<'static> {
    Request::Slab { file: 0, offset: 16384, length: pages * 4096 }
}

#[test]
fn a_write_waits_for_space_that_is_coming_and_not_for_long() {
    // What becomes of one whose barrier is done, is late, and of one that nothing would give space.
    for (is_coming, is_late, expected) in
        [(true, false, Answer::Done), (true, true, Answer::NoSpace), (false, false, Answer::NoSpace)]
    {
        let mut w = full_flash(is_coming);
        w.request(0, &slab(2));
        assert_eq!(w.ranks[0].answer.is_some(), !is_coming, "it waits for what is coming alone");
        if is_late {
            for _ in 0..200 {
                w.poll();
                w.agents[0].tasks.clear();
            }
        } else if is_coming {
            w.quiesce();
        }
        assert_eq!(w.ranks[0].answer.take(), Some(expected));
        no_violation(&w);
    }
}

#[test]
fn a_write_waits_for_no_space_that_would_not_be_enough() {
    let mut w = full_flash(true);
    w.request(0, &slab(3));
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::NoSpace));
    no_violation(&w);
}

#[test]
fn a_write_that_wants_more_than_is_kept_free_ahead_of_need_gets_the_room_of_clean_bytes() {
    let mut w = full_flash(false);
    drain(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    w.request(0, &slab(2));
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0); // no time goes by
    }
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    no_violation(&w);
}

#[test]
fn a_write_that_a_thread_s_own_slabs_have_room_for_together_waits_for_nobody() {
    let mut w = full_flash(false);
    w.request(0, &slab(1));
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    no_violation(&w);
}

#[test]
fn a_write_waits_for_space_no_longer_than_the_disk_is_worth() {
    let mut w = full_flash(true);
    // A direct write that takes no time; what it drops, it drops elsewhere.
    ranks::begin_write(&mut w, 3, 0, Range::new(65536, 10), false);
    for _ in 0..20 {
        ranks::step(&mut w, 3, false);
    }
    assert!(!w.ranks[3].is_busy() && w.agents[0].overlay.pacing.space_wait_ns() == 1_000_000);
    w.request(0, &slab(2));
    assert_eq!(w.ranks[0].answer, None, "a barrier may give it at once");
    w.agents[0].tasks.clear();
    w.poll();
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::NoSpace));
    no_violation(&w);
}

fn is_dirty(w: &World, range: Range) -> bool {
    w.agents[0].overlay.files[&0].map.at(range.offset).is_some_and(|mapped| mapped.dirty)
}

/// Goes on with a drain until `happened`, while a range is written as fast as it is written back.
fn drain_beside(w: &mut World, hot: Range, happened: impl Fn(&World) -> bool) {
    let mut steps = 0;
    while !happened(w) {
        assert!(w.agents[0].overlay.dirty_bytes() > 0 && steps < 1000, "{:?}", w.agents[0].overlay.pacing.round());
        if !is_dirty(w, hot) {
            write(w, 2, hot, true);
        }
        if !w.agents[0].tasks.is_empty() {
            w.step_task(steps % w.agents[0].tasks.len());
        }
        steps += 1;
    }
}

#[test]
fn a_drain_is_over_when_what_was_dirty_is_on_disk_whatever_others_write_meanwhile() {
    for (fails, leap_bytes) in [(false, 0), (true, 0), (false, 8192), (true, 8192), (false, 1 << 20)] {
        let mut w = world();
        w.agents[0].overlay.pacing.set_leap(leap_bytes);
        let hot = Range::new(16384, 4096);
        write(&mut w, 0, A, true);
        write(&mut w, 2, hot, true);
        w.agents[0].overlay.hold_barriers(true);
        w.agents[0].overlay.drain(true);
        w.poll();
        if fails {
            drain_beside(&mut w, hot, |w| !is_dirty(w, A));
            w.agents[0].overlay.hold_barriers(false);
            w.agents[0].overlay.request_barrier();
            w.poll();
            w.agents[0].tasks.retain(|task| !matches!(task, Task::Barrier { .. }));
            let failed = NotSynced { slow_files: vec![0], ..NotSynced::default() };
            w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(failed));
            w.carry_out();
            assert!(is_dirty(&w, A));
        }
        drain_beside(&mut w, hot, |w| w.agents[0].overlay.has_drained());
        assert!(!is_dirty(&w, A));
        write(&mut w, 2, hot, true);
        w.agents[0].overlay.drain(false);
        assert!(is_dirty(&w, hot) && !w.agents[0].overlay.has_drained());
        w.agents[0].overlay.hold_barriers(false);
        w.finish();
        no_violation(&w);
    }
}
