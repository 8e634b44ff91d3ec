//! A thread that is stopped in the middle of a request holds up nobody for ever, and what it does when it
//! goes on spoils nothing.

use super::*;
use crate::errno::EBUSY;

const ELSEWHERE: Range = Range { offset: 8192, length: 4096 };
const BEYOND: Range = Range { offset: GRANULE_BYTES, length: 4096 };

/// In what rank 0 is stopped.
#[derive(Clone, Copy, Debug)]
enum Stopped {
    CheapWrite,
    LeasedRead,
    DirectWrite,
    DirectWriteOverDirty,
    ExtendingWrite,
    ExtendingDirectWrite,
    Truncation,
}

use Stopped::*;

const ALL: [Stopped; 7] =
    [CheapWrite, LeasedRead, DirectWrite, DirectWriteOverDirty, ExtendingWrite, ExtendingDirectWrite, Truncation];

impl Stopped {
    /// Rank 0 comes there and stays.
    fn reach(self, w: &mut World) {
        let is_cheap = |w: &World| w.agents[0].memory.view().slots[w.ranks[0].slot].cheap_touches(0, 0);
        let is_granted = |w: &World| w.ranks[0].answer.is_some();
        match self {
            CheapWrite => write(w, 2, A, false),
            LeasedRead | DirectWrite | Truncation => write(w, 2, ELSEWHERE, true),
            DirectWriteOverDirty => write(w, 2, Range::new(0, 8192), true),
            ExtendingWrite => write(w, 2, A, false),
            ExtendingDirectWrite => write(w, 2, A, true),
        }
        match self {
            LeasedRead => starve(w, 0, A),
            Truncation => ranks::begin_other(w, 0, Kind::Truncate, 0, Range::new(0, u64::MAX)),
            CheapWrite | DirectWrite | DirectWriteOverDirty => ranks::begin_write(w, 0, 0, A, false),
            ExtendingWrite => ranks::begin_write(w, 0, 0, Range::new(3 * GRANULE_BYTES, 4096), false),
            ExtendingDirectWrite => ranks::begin_write(w, 0, 0, ELSEWHERE, false),
        }
        for _ in 0..20 {
            let there = match self {
                CheapWrite => is_cheap(w),
                ExtendingWrite => w.agents[0].memory.view().slots[w.ranks[0].slot].cheap_extends(0, 0),
                _ => is_granted(w),
            };
            if there {
                break;
            }
            ranks::step(w, 0, false);
        }
        if matches!(self, CheapWrite | ExtendingWrite) {
            ranks::step(w, 0, false); // it has seen the bits clear
        }
        assert!(w.ranks[0].is_busy(), "{self:?}");
    }

    /// What others write that it is in the way of.
    fn bytes(self) -> Range {
        if matches!(self, ExtendingWrite | ExtendingDirectWrite) { BEYOND } else { A }
    }
}

/// A barrier, while nobody goes on who is in the middle of something.
fn barrier_alone(w: &mut World) {
    w.agents[0].overlay.request_barrier();
    w.poll();
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0);
    }
    w.poll();
}

/// Rank 2 goes on without time going by.
fn ends_at_once(w: &mut World) -> bool {
    (0..30).for_each(|_| ranks::step(w, 2, false));
    !w.ranks[2].is_busy()
}

#[test]
fn a_commit_that_a_stopped_thread_holds_up_is_refused_and_the_write_made_on_the_disk() {
    for stopped in ALL {
        for next_agent in [false, true] {
            let mut w = world();
            stopped.reach(&mut w);
            let bytes = stopped.bytes();
            ranks::begin_write(&mut w, 2, 0, bytes, true);
            assert!(!ends_at_once(&mut w), "{stopped:?}: the thread may go on soon");
            if next_agent {
                w.kill_agent();
                w.restart();
            }
            run(&mut w, 2);
            assert_eq!(w.agents[0].overlay.counters().refused_held_up_total, 1, "{stopped:?}");
            let newer = |w: &World| w.agents[0].overlay.files[&0].map.touches(bytes);
            assert!(!newer(&w), "{stopped:?}: what it may still write would lie beneath it");
            ranks::begin_write(&mut w, 2, 0, bytes, true);
            assert!(ends_at_once(&mut w), "{stopped:?}: it is known by now that it does not go on");
            assert!(!newer(&w), "{stopped:?}");
            other(&mut w, 2, Kind::Read, bytes);
            run(&mut w, 0);
            other(&mut w, 2, Kind::Read, bytes);
            write(&mut w, 2, bytes, true);
            assert!(newer(&w), "{stopped:?}: it went on");
            for rank in [0, 2] {
                other(&mut w, rank, Kind::Read, bytes);
            }
            w.finish();
            no_violation(&w);
        }
    }
}

#[test]
fn a_thread_that_goes_on_to_another_request_of_the_same_bytes_is_not_taken_for_a_stopped_one() {
    let mut w = world();
    CheapWrite.reach(&mut w);
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.counters().refused_held_up_total, 1);
    w.agents[0].memory.slots[w.ranks[0].slot].count(headstart_protocol::counters::Counter::CheapRequests, 1);
    ranks::begin_write(&mut w, 2, 0, A, true);
    assert!(!ends_at_once(&mut w), "this one may end soon");
    run(&mut w, 0);
    run(&mut w, 2);
    assert_eq!(w.agents[0].overlay.counters().refused_held_up_total, 1);
    w.finish();
    no_violation(&w);
}

#[test]
fn nothing_is_absorbed_beneath_what_a_stopped_thread_may_still_write_however_long_it_takes() {
    for stopped in [CheapWrite, DirectWrite, DirectWriteOverDirty] {
        let mut w = world();
        stopped.reach(&mut w);
        for _ in 0..3 {
            write(&mut w, 2, A, true);
            barrier_alone(&mut w);
            (0..100).for_each(|_| w.poll());
        }
        assert!(!w.agents[0].overlay.files[&0].map.touches(A), "{stopped:?}");
        run(&mut w, 0);
        other(&mut w, 2, Kind::Read, A);
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_fetch_that_a_stopped_write_holds_up_is_given_up() {
    let mut w = world();
    CheapWrite.reach(&mut w);
    w.agents[0].memory.view().hint(2, 0, A, 1 << 30, FetchTurn::Soon);
    (0..100).for_each(|_| w.poll());
    let counters = w.agents[0].overlay.counters();
    assert_eq!((counters.fetches_total, counters.fetches_cancelled_total), (0, 1));
    assert!(w.agents[0].overlay.fetches.count() == 0);
    barrier_alone(&mut w);
    assert!(w.agents[0].memory.view().all_clear(0, A), "its bit is clear again");
    run(&mut w, 0);
    other(&mut w, 2, Kind::Read, A);
    w.finish();
    no_violation(&w);
}

/// Rank 0 reads the slow file without a lease: as its bits are clear; as the agent says; as the disks are sooner. It
/// has not read yet, or not looked whether that counts.
fn stopped_bare_reads() -> impl Iterator<Item = (World, &'static str)> {
    let reads = ["the bits are clear", "nothing is on flash", "the disks are sooner"];
    reads.into_iter().flat_map(|why| [false, true].map(|has_read| (why, has_read))).map(|(why, has_read)| {
        let mut w = world();
        match why {
            "the bits are clear" => write(&mut w, 2, A, false),
            "nothing is on flash" => write(&mut w, 2, ELSEWHERE, true),
            _ => {
                write(&mut w, 2, A, true);
                drain(&mut w);
                w.measure(0, 1000);
            }
        }
        ranks::begin_other(&mut w, 0, Kind::Read, 0, A);
        while !(reads_bare(&w, 0) && (why == "the bits are clear" || w.ranks[0].seq > 1)) {
            ranks::step(&mut w, 0, false);
        }
        if has_read {
            ranks::step(&mut w, 0, false);
        }
        assert!(w.ranks[0].is_busy());
        (w, why)
    })
}

#[test]
fn a_read_of_the_slow_file_without_a_lease_holds_up_neither_commit_nor_fetch_nor_write() {
    for (mut w, why) in stopped_bare_reads() {
        for absorbed in [true, false, true] {
            ranks::begin_write(&mut w, 2, 0, A, absorbed);
            for _ in 0..30 {
                ranks::step(&mut w, 2, false);
                // The file is made longer, if need be. No time goes by.
                if !w.agents[0].tasks.is_empty() {
                    w.step_task(0);
                }
            }
            assert!(!w.ranks[2].is_busy(), "{why}");
        }
        assert!(w.agents[0].overlay.files[&0].map.touches(A), "{why}");
        barrier_alone(&mut w);
        other(&mut w, 2, Kind::Read, A);
        run(&mut w, 0);
        other(&mut w, 2, Kind::Read, A);
        assert_eq!(w.agents[0].overlay.counters().refused_held_up_total, 0);
        w.finish();
        no_violation(&w);
    }
    for (mut w, why) in stopped_bare_reads().filter(|(_, why)| *why != "the disks are sooner") {
        w.agents[0].memory.view().hint(2, 0, A, 1 << 30, FetchTurn::Soon);
        for _ in 0..100 {
            w.poll();
            if !w.agents[0].tasks.is_empty() {
                w.step_task(0);
            }
        }
        assert_eq!(w.agents[0].overlay.counters().fetches_total, 1, "{why}");
        write(&mut w, 2, A, false);
        run(&mut w, 0);
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn what_a_stopped_read_found_beneath_bytes_on_flash_does_not_count() {
    for (mut w, why) in stopped_bare_reads().filter(|(w, _)| w.ranks[0].is_busy()) {
        // Newer bytes on flash, and beneath them those of a direct write under way, which nobody may see yet.
        if why != "the disks are sooner" {
            write(&mut w, 2, A, true);
        }
        let before = w.inodes[0].store.read(A);
        ranks::begin_write(&mut w, 2, 0, A, false);
        while w.inodes[0].store.read(A) == before {
            ranks::step(&mut w, 2, false);
        }
        run(&mut w, 0);
        other(&mut w, 3, Kind::Read, A);
        run(&mut w, 2);
        no_violation(&w);
    }
}

#[test]
fn a_fetch_that_a_stopped_read_under_a_lease_keeps_from_being_published_is_given_up() {
    let mut w = world();
    half_done_fetch(&mut w);
    starve(&mut w, 0, A);
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0);
    }
    (0..100).for_each(|_| w.poll());
    let counters = w.agents[0].overlay.counters();
    assert_eq!((counters.fetches_total, counters.fetches_cancelled_total), (0, 1));
    run(&mut w, 0);
    w.finish();
    no_violation(&w);
}

#[test]
fn who_waits_for_dirty_bytes_under_a_direct_write_that_does_not_end_is_told_whose_it_is() {
    let mut w = world();
    DirectWriteOverDirty.reach(&mut w);
    let pid = w.ranks[0].process.pid;
    let held: Vec<_> = w.agents[0].overlay.writers_above_dirty().map(|held| (held.file, held.process.pid)).collect();
    assert_eq!(held, [(0, pid)]);
    w.request(2, &Request::WriteBack { file: 0, offset: 0, length: u64::MAX });
    (0..100).for_each(|_| w.poll());
    assert_eq!(w.ranks[2].answer, None, "a disk may take as long");
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0);
    }
    (0..500).for_each(|_| w.poll());
    let Some(Answer::Error { errno: EBUSY, text }) = w.ranks[2].answer.take() else { panic!("no error") };
    assert!(text.contains(&format!("process {pid} ")), "{text}");
    run(&mut w, 0);
    assert_eq!(w.agents[0].overlay.writers_above_dirty().count(), 0);
    w.finish();
    no_violation(&w);
}

/// Rank 0 after so many steps of a read or a write; none if it has ended by then.
fn stopped_after(steps: usize, kind: Kind, absorbed: bool, is_on_flash: bool) -> Option<World> {
    let mut w = world();
    write(&mut w, 2, Range::new(0, 8192), is_on_flash);
    match kind {
        Kind::Write => ranks::begin_write(&mut w, 0, 0, A, absorbed),
        kind => ranks::begin_other(&mut w, 0, kind, 0, A),
    }
    for _ in 0..steps {
        ranks::step(&mut w, 0, false);
        if !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    w.ranks[0].is_busy().then_some(w)
}

#[test]
fn wherever_a_thread_is_stopped_for_ever_the_others_end_and_their_bytes_drain() {
    let mut stops = 0;
    for (kind, absorbed) in [(Kind::Read, false), (Kind::Write, true), (Kind::Write, false)] {
        for is_on_flash in [false, true] {
            let stopped = (0..100).map_while(|steps| stopped_after(steps, kind, absorbed, is_on_flash));
            for mut w in stopped {
                stops += 1;
                for (rank, range, absorbed) in [(2, A, true), (3, A, false), (2, ELSEWHERE, true), (3, A, true)] {
                    write(&mut w, rank, range, absorbed);
                    other(&mut w, 5 - rank, Kind::Read, range);
                }
                other(&mut w, 2, Kind::Fsync, A);
                w.agents[0].overlay.drain(true);
                for _ in 0..100 {
                    w.poll();
                    if !w.agents[0].tasks.is_empty() {
                        w.step_task(0);
                    }
                }
                w.agents[0].overlay.drain(false);
                let held = w.agents[0].overlay.leases.direct_overlaps(0, A);
                let rest = if held { Range::between(A.end(), u64::MAX) } else { Range::between(0, u64::MAX) };
                assert!(!w.agents[0].overlay.is_dirty(0, rest), "{kind:?} {absorbed} {is_on_flash}: {:?}", w.ranks[0]);
                run(&mut w, 0);
                w.finish();
                no_violation(&w);
            }
        }
    }
    assert!(stops > 20, "{stops} stops");
}
