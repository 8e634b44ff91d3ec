//! How a file is made long enough for bytes on flash, beside threads that may be making it longer themselves.

use super::*;
use crate::output::Growth;

/// On flash, and behind the end of the slow file.
const SHORT: Range = Range { offset: 2 * GRANULE_BYTES, length: 4096 };
/// What rank 0 writes on the disk, behind that.
const FAR: Range = Range { offset: 5 * GRANULE_BYTES, length: 4096 };
fn extensions(w: &World) -> Vec<(u64, Growth)> {
    let extension = |task: &Task| match task {
        Task::Extend { size, growth, .. } => Some((*size, *growth)),
        _ => None,
    };
    w.agents[0].tasks.iter().filter_map(extension).collect()
}

fn step_extension(w: &mut World) {
    let at = w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. }));
    w.step_task(at.expect("an extension is under way"));
}

fn until_it_waits(w: &mut World, rank: usize) {
    (0..12).for_each(|_| ranks::step(w, rank, false));
    assert!(w.ranks[rank].is_busy(), "it waits");
}

fn until_granted(w: &mut World, rank: usize) {
    while w.ranks[rank].answer.is_none() {
        ranks::step(w, rank, false);
        w.poll();
    }
}

/// Bytes are committed for which the file could not be made long enough, as its agent and its thread died and
/// there was no room then. Rank 0 is stopped in a write past the end that asked nobody.
fn short() -> World {
    let mut w = world();
    ranks::begin_write(&mut w, 2, 0, SHORT, true);
    until_it_waits(&mut w, 2);
    w.kill_agent();
    w.kill(1);
    w.restart();
    assert_eq!(extensions(&w), [(SHORT.end(), Growth::Sized)]);
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_extended(w.agents[0].memory.view(), 0, Err(28));
    w.carry_out();
    ranks::begin_write(&mut w, 0, 0, FAR, false);
    for _ in 0..2 {
        ranks::step(&mut w, 0, false);
    }
    assert!(w.agents[0].memory.view().slots[w.ranks[0].slot].cheap_extends(0, 0));
    other(&mut w, 2, Kind::Open(true), Range::default());
    w
}

/// A truncation that does not happen: whoever cleans up after it makes the file long enough for what is mapped.
fn truncate_in_vain(w: &mut World, size: u64) {
    w.request(2, &Request::Truncate { file: 0, size });
    until_granted(w, 2);
    assert_eq!(w.ranks[2].answer.take(), Some(Answer::Go));
    w.request(2, &Request::TruncateDone { file: 0, size, changed: false });
    assert_eq!(w.ranks[2].answer.take(), Some(Answer::Done));
    assert!(w.agents[0].overlay.files[&0].length.is_extending() && extensions(w).is_empty());
}

#[test]
fn an_extension_that_a_stopped_write_holds_up_is_made_by_its_last_byte_and_cuts_nothing_off() {
    for goes_on in [false, true] {
        let mut w = short();
        truncate_in_vain(&mut w, FAR.end());
        (0..5).for_each(|_| w.poll());
        assert!(extensions(&w).is_empty(), "it may go on soon");
        (0..LONG).for_each(|_| w.poll());
        assert_eq!(extensions(&w), [(SHORT.end(), Growth::LastByte)]);
        step_extension(&mut w);
        if goes_on {
            // Just after the file was looked at.
            ranks::step(&mut w, 0, false);
            assert_eq!(w.inodes[0].store.size(), FAR.end());
        }
        step_extension(&mut w);
        let size = if goes_on { FAR.end() } else { SHORT.end() };
        assert_eq!((w.inodes[0].store.size(), w.agents[0].overlay.files[&0].length.size()), (size, SHORT.end()));
        // Others go on, and read what was committed.
        other(&mut w, 2, Kind::Read, SHORT);
        write(&mut w, 2, Range::new(7 * GRANULE_BYTES, 100), false);
        run(&mut w, 0);
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn the_last_byte_is_not_written_beside_a_write_back_of_it() {
    let mut w = short();
    w.agents[0].overlay.drain(true);
    w.poll();
    assert!(matches!(w.agents[0].tasks[..], [Task::Copy { .. }]));
    truncate_in_vain(&mut w, FAR.end());
    (0..LONG).for_each(|_| w.poll());
    assert!(extensions(&w).is_empty(), "the copy makes the file as long");
    while w.agents[0].overlay.dirty_bytes() > 0 {
        w.step_task(0);
    }
    w.poll();
    assert_eq!(extensions(&w), [(SHORT.end(), Growth::Found)], "it is the disk's byte by now");
    (0..2).for_each(|_| step_extension(&mut w));
    assert_eq!(w.agents[0].overlay.files[&0].length.size(), SHORT.end());
    run(&mut w, 0);
    w.finish();
    no_violation(&w);
}

#[test]
fn beside_a_stopped_write_of_the_last_byte_itself_the_file_is_only_looked_at() {
    let mut w = world();
    write(&mut w, 3, Range::new(0, 8192), true);
    w.request(2, &Request::Truncate { file: 0, size: 0 });
    assert_eq!(w.ranks[2].answer.take(), Some(Answer::Go));
    // The known size is zero now: the write claims that it makes the file longer.
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), false);
    until_granted(&mut w, 0);
    w.request(2, &Request::TruncateDone { file: 0, size: 0, changed: false });
    (0..LONG).for_each(|_| w.poll());
    assert_eq!(extensions(&w), [(8192, Growth::Found)]);
    (0..2).for_each(|_| step_extension(&mut w));
    assert_eq!(w.agents[0].overlay.files[&0].length.size(), 8192);
    write(&mut w, 2, FAR, false);
    run(&mut w, 0);
    w.finish();
    no_violation(&w);
}

#[test]
fn an_extension_cuts_nothing_off_that_the_write_of_a_dead_thread_adds_once_the_file_was_looked_at() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, FAR, false);
    for _ in 0..2 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0);
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 1);
    ranks::begin_write(&mut w, 2, 0, SHORT, true);
    until_it_waits(&mut w, 2);
    assert_eq!(extensions(&w), [(SHORT.end(), Growth::LastByte)], "nobody waits for the dead");
    step_extension(&mut w);
    w.land_all_late();
    assert_eq!(w.inodes[0].store.size(), FAR.end(), "whoever asks is told so");
    step_extension(&mut w);
    assert_eq!(w.inodes[0].store.size(), FAR.end());
    assert!(w.ranks[2].answer.is_some());
    run(&mut w, 2);
    w.finish();
    no_violation(&w);
}

#[test]
fn who_waits_for_the_end_of_an_extension_does_not_come_before_commits_that_are_applied_by_then() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_write(&mut w, 2, 0, SHORT, true);
    until_it_waits(&mut w, 2);
    ranks::begin_write(&mut w, 0, 0, Range::new(7 * GRANULE_BYTES, 10), false);
    until_it_waits(&mut w, 0);
    ranks::begin_write(&mut w, 3, 0, FAR, true);
    until_it_waits(&mut w, 3);
    (0..2).for_each(|_| step_extension(&mut w));
    assert_eq!(extensions(&w), [(FAR.end(), Growth::Sized)]);
    assert!(w.ranks[2].answer.is_some() && w.ranks[0].answer.is_none(), "it might be stopped in its write");
    (0..2).for_each(|_| step_extension(&mut w));
    assert!(w.ranks[3].answer.is_some() && w.ranks[0].answer.is_some());
    w.quiesce();
    w.finish();
    no_violation(&w);
}

#[test]
fn all_commits_that_are_applied_at_once_are_served_by_one_extension() {
    let mut w = world();
    w.agents[0].memory.view().slots[20].publish_cheap(KIND_EXTEND, 0, Range::new(9 * GRANULE_BYTES, 10));
    w.agents[0].memory.view().header.slots_used.store(21, Ordering::Relaxed);
    for (rank, range) in [(0, SHORT), (2, FAR), (3, A)] {
        ranks::begin_write(&mut w, rank, 0, range, true);
        until_it_waits(&mut w, rank);
    }
    w.agents[0].memory.view().slots[20].free();
    w.poll();
    assert_eq!(extensions(&w), [(FAR.end(), Growth::Sized)]);
    (0..2).for_each(|_| step_extension(&mut w));
    assert!([0, 2, 3].into_iter().all(|rank| w.ranks[rank].answer.is_some()) && w.agents[0].tasks.is_empty());
    w.quiesce();
    w.finish();
    no_violation(&w);
}

#[test]
fn a_commit_that_is_sent_again_waits_for_no_truncation_granted_since() {
    let mut w = world();
    ranks::begin_write(&mut w, 2, 0, SHORT, true);
    until_it_waits(&mut w, 2);
    ranks::begin_other(&mut w, 0, Kind::Truncate, 0, Range::new(4096, u64::MAX));
    until_it_waits(&mut w, 0);
    assert_eq!(w.ranks[0].answer, None);
    step_extension(&mut w);
    // The commit is done and the truncation granted, but nobody hears of it.
    w.agents[0].dying = Some(2);
    step_extension(&mut w);
    assert!(w.agents[0].is_dead && w.ranks[2].answer.is_none() && w.ranks[0].answer.is_none());
    w.restart();
    (0..12).for_each(|_| ranks::step(&mut w, 2, false));
    assert!(!w.ranks[2].is_busy(), "it is answered at once");
    run(&mut w, 0);
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), 4096);
    w.finish();
    no_violation(&w);
}
