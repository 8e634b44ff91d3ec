//! What a thread that died left half done.

use super::*;
use headstart_protocol::shared::DIRECT_TRUNCATES;

/// Lets the thread of the other process run until it has reached a point.
fn step_until(w: &mut World, reached: impl Fn(&World) -> bool) {
    for _ in 0..100 {
        if reached(w) {
            return;
        }
        ranks::step(w, 2, false);
    }
    panic!("it does not get there: {:?}", w.ranks[2]);
}

fn may_go(w: &World) -> bool {
    w.ranks[2].answer == Some(Answer::Go)
}

/// Two pages are on flash, and a thread of the other process cuts the second one off, or is about to.
fn truncation(cut: bool) -> World {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(4096, u64::MAX));
    step_until(&mut w, may_go);
    if cut {
        step_until(&mut w, |w| w.inodes[0].store.size() == 4096);
    }
    w
}

fn truncation_is_known(w: &World) -> bool {
    let slot = &w.agents[0].memory.view().slots[2];
    slot.lease_flags.load(Ordering::Relaxed) & DIRECT_TRUNCATES == 0
}

/// The file and what is mapped of it are as long as the disk said when the thread was gone, and stay so.
fn stays(mut w: World, size: u64) {
    assert_eq!(w.agents[0].overlay.files[&0].map.end(), size, "what is on flash ends where the file does");
    assert!(truncation_is_known(&w), "a later agent would draw its conclusions once more");
    other(&mut w, 0, Kind::Read, Range::new(0, 8192));
    drain(&mut w);
    assert_eq!(w.inodes[0].store.size(), size);
    w.finish();
    no_violation(&w);
}

#[test]
fn a_truncation_whose_thread_died_has_happened_or_it_has_not() {
    for cut in [false, true] {
        for agent_dies in [None, Some(false), Some(true)] {
            let mut w = truncation(cut);
            if agent_dies == Some(false) {
                w.kill_agent();
            }
            w.kill(1);
            if agent_dies == Some(true) {
                w.kill_agent();
            }
            if agent_dies.is_some() {
                w.restart();
            }
            let size = if cut { 4096 } else { 8192 };
            assert_eq!(w.inodes[0].store.size(), size);
            stays(w, size);
        }
    }
}

/// A thread is about to make the file longer, while another one's commit beyond its end waits for that; it
/// dies before it has.
fn death_before_the_file_is_made_longer(agent_dies: bool) {
    let mut w = world();
    write(&mut w, 0, A, true);
    let (file, bytes) = (w.open[0][&0].unwrap(), Range::new(GRANULE_BYTES, 4096));
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(2 * GRANULE_BYTES, u64::MAX));
    step_until(&mut w, may_go);
    ranks::begin_write(&mut w, 0, 0, bytes, true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    assert!(w.ranks[0].is_busy() && !w.agents[0].overlay.files[&file].map.touches(bytes), "the commit waits");
    if agent_dies {
        w.kill_agent();
    }
    w.kill(1);
    if agent_dies {
        w.restart();
    }
    run(&mut w, 0);
    stays(w, bytes.end());
}

#[test]
fn what_is_committed_beyond_the_end_outlives_a_thread_that_was_about_to_make_the_file_longer() {
    for agent_dies in [false, true] {
        death_before_the_file_is_made_longer(agent_dies);
    }
}

#[test]
fn what_is_committed_after_a_truncation_whose_thread_died_outlives_the_agent() {
    let mut w = truncation(true);
    w.kill(1);
    w.agents[0].tasks.clear(); // the barrier that would lift the quarantine does not end
    write(&mut w, 0, Range::new(4096, 4096), true);
    w.kill_agent();
    w.restart();
    stays(w, 8192);
}

#[test]
fn what_a_dead_thread_wrote_is_seen_at_once_and_not_only_when_its_quarantine_ends() {
    let mut w = world();
    write(&mut w, 0, A, true);
    drain(&mut w);
    w.agents[0].overlay.drain(false);
    assert!(
        w.agents[0].overlay.files[&0].map.touches(A) && w.agents[0].overlay.dirty_bytes() == 0,
        "it is on flash, clean"
    );
    ranks::begin_write(&mut w, 2, 0, A, false);
    step_until(&mut w, may_go);
    w.kill(1);
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 1);
    assert!(!w.agents[0].overlay.files[&0].map.touches(A), "the old bytes would be read first, and the new ones later");
    w.finish();
    no_violation(&w);
}

#[test]
fn a_commit_beyond_the_end_whose_thread_died_is_seen_at_once_and_not_only_when_a_write_back_ends() {
    let mut w = world();
    w.agents[0].overlay.drain(true); // whatever is dirty is written back as soon as it may be
    ranks::begin_write(&mut w, 2, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 2, false); // no copy gets on
    }
    w.kill(1);
    while let Some(at) = w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. })) {
        w.step_task(at);
    }
    let (mapped, size) = (w.agents[0].overlay.files[&0].map.end(), w.inodes[0].store.size());
    assert_eq!(
        mapped, size,
        "the file is as long as what is read of it, and does not grow when nobody writes any more"
    );
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), size);
    w.finish();
    no_violation(&w);
}
