//! What is fetched beside programs.

use super::*;

/// A file of 32 pages, and hints of reads of every other one.
fn world_with_hints(turn: FetchTurn) -> World {
    let mut w = world();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(64 * 4096));
    write(&mut w, 0, Range::new(0, 32 * 4096), false);
    w.quiesce();
    for page in 0..16 {
        w.agents[0].memory.view().hint(2, 0, Range::new(2 * page * 4096, 4096), 1 << 30, turn);
    }
    w
}

/// Where among the tasks the fetches under way are.
fn fetches(w: &World) -> Vec<usize> {
    let is_fetch = |task: &Task| matches!(task, Task::Copy { order, .. } if order.kind == CopyKind::Fetch);
    (0..w.agents[0].tasks.len()).filter(|at| is_fetch(&w.agents[0].tasks[*at])).collect()
}

fn begin_read(w: &World) {
    w.agents[0].memory.view().slots[0].state.store(STATE_READING, Ordering::Relaxed);
}

fn end_read(w: &World) {
    w.agents[0].memory.view().slots[0].free();
}

#[test]
fn beside_a_program_at_the_disks_nothing_of_a_stream_is_fetched() {
    let mut w = world_with_hints(FetchTurn::Idle);
    begin_read(&w);
    for _ in 0..20 {
        w.poll();
        assert!(fetches(&w).is_empty());
    }
    end_read(&w);
    w.poll();
    assert_eq!(fetches(&w).len(), 16);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.counters().fetches_total, 16);
    no_violation(&w);
}

#[test]
fn beside_a_program_at_the_disks_one_critical_read_is_fetched_at_a_time() {
    let mut w = world_with_hints(FetchTurn::Soon);
    begin_read(&w);
    for ended in 0..16 {
        w.poll();
        assert_eq!(fetches(&w).len(), 1);
        while w.agents[0].overlay.counters().fetches_total == ended {
            let under_way = fetches(&w)[0];
            w.step_task(under_way);
        }
    }
    no_violation(&w);
}

#[test]
fn a_hint_is_heard_of_though_a_request_came_first_that_took_its_mark() {
    let mut w = world_with_hints(FetchTurn::Soon);
    w.request(0, &Request::Read { file: 0, offset: 31 * 4096, length: 4096, leased: false, in_order: false });
    assert!(matches!(w.ranks[0].answer.take(), Some(Answer::Disk { .. })));
    w.ranks[0].pending = None;
    assert!(w.agents[0].memory.marks.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert!(fetches(&w).is_empty());
    w.poll();
    assert_eq!(w.agents[0].overlay.counters().critical_reads_total, 16);
    assert!(!fetches(&w).is_empty());
    no_violation(&w);
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
