//! Writes that are answered before the disk has them.

use super::*;
use headstart_policy::server::chain;
use headstart_policy::server::chain::{Chain, Names};
use headstart_policy::server::liu;

const GIB: u64 = 1 << 30;

/// Takes writes beyond 512 GiB alone, and holds so many bytes.
struct Holds(u64);

impl Policy for Holds {
    fn absorbs(&mut self, range: Range, _load: &Load) -> bool {
        range.offset >= 512 * GIB
    }
    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }
    fn holds_bytes_max(&self) -> u64 {
        self.0
    }
    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        (load.draining || load.is_full).then_some(0)
    }
    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
}

/// One whose disk has one order at a time.
fn holding(bytes_max: u64) -> Engine<Holds> {
    let mut engine = engine_with(16 << 20, Segments::default(), Holds(bytes_max));
    engine.settings.disk_orders_max = 1;
    engine
}

fn read<P: Policy>(engine: &mut Engine<P>, tag: Tag, offset: u64) {
    engine.on_request(Nanos::ZERO, tag, Request::Read(Range::new(offset, 4096)));
}

/// What was answered since the last time, and how; the orders.
fn told<P: Policy>(engine: &mut Engine<P>) -> (Vec<(Tag, &'static str)>, Vec<Order>) {
    let (mut answers, mut orders) = (Vec::new(), Vec::new());
    for output in engine.take_outputs() {
        match output {
            Output::Acknowledge(tag) => answers.push((tag, "early")),
            Output::Reply { tag, result } => answers.push((tag, if result.is_ok() { "ok" } else { "error" })),
            Output::Order(order) => orders.push(order),
            Output::Release(_) => {}
        }
    }
    (answers, orders)
}

fn complete<P: Policy>(engine: &mut Engine<P>, order: &Order, ok: bool) {
    let data = if order.action == Action::Read { vec![9; order.length as usize] } else { Vec::new() };
    engine.on_completion(Nanos::ZERO, order.id, if ok { Ok(&data) } else { Err(()) });
}

/// Whether an order is a write of the disk.
fn writes_disk(order: &Order) -> bool {
    order.device == Device::Disk && matches!(order.action, Action::Write(_))
}

/// Carries out all that is ordered, one after the other; the orders.
fn carried_out<P: Policy>(engine: &mut Engine<P>) -> Vec<Order> {
    let (_, mut waiting) = told(engine);
    let mut done = Vec::new();
    while let Some(order) = waiting.pop() {
        complete(engine, &order, true);
        waiting.extend(told(engine).1);
        done.push(order);
    }
    done
}

#[test]
fn a_write_is_answered_before_the_disk_has_it_and_its_data_are_free_when_it_has() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers, orders.len(), engine.held_bytes()), (vec![(1, "early")], 1, 4096));
    let Action::Write(parts) = &orders[0].action else { panic!("it writes") };
    assert_eq!(parts[..], [Part::Request { tag: 1, offset: 0, length: 4096 }]);
    complete(&mut engine, &orders[0], true);
    assert_eq!((told(&mut engine).0, engine.held_bytes()), (vec![(1, "ok")], 0));
    assert_eq!((engine.counters().early_writes_total, engine.counters().early_bytes_total), (1, 4096));
}

#[test]
fn a_read_of_what_was_answered_waits_until_the_disk_has_it_and_one_beside_it_does_not() {
    let mut engine = holding(GIB);
    engine.settings.disk_orders_max = 9;
    write(&mut engine, 1, GIB);
    let (_, written) = told(&mut engine);
    read(&mut engine, 2, GIB);
    read(&mut engine, 3, GIB + 4096);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers.len(), orders.len(), orders[0].offset), (0, 1, GIB + 4096));
    complete(&mut engine, &orders[0], true);
    assert_eq!(told(&mut engine).0, [(3, "ok")]);
    complete(&mut engine, &written[0], true);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers, orders.len(), orders[0].offset), (vec![(1, "ok")], 1, GIB), "then it is read");
    complete(&mut engine, &orders[0], true);
    assert_eq!(told(&mut engine).0, [(2, "ok")]);
}

#[test]
fn a_read_waits_for_those_answered_before_it_and_for_no_later_one() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    read(&mut engine, 2, GIB);
    write(&mut engine, 3, GIB);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers, orders.len()), (vec![(1, "early")], 1), "the newer one waits for the older");
    complete(&mut engine, &orders[0], true);
    let (answers, orders) = told(&mut engine);
    assert_eq!(answers, [(1, "ok"), (3, "early")]);
    assert_eq!(orders[0].action, Action::Read, "the reader that came first is not kept by the next writer");
}

#[test]
fn a_held_write_that_a_read_or_a_write_waits_for_is_written_in_its_turn_and_others_after_all_reads() {
    for awaited_by in [None, Some(Request::Read(Range::new(9 * GIB + 4096, 4096))), Some(Request::Flush)] {
        let mut engine = holding(GIB);
        // The disk is at 5 GiB.
        read(&mut engine, 1, 5 * GIB);
        engine.on_request(Nanos::ZERO, 2, Request::Write { offset: 9 * GIB, data: &[2; 8192], fua: false });
        (0..20).for_each(|index| read(&mut engine, 10 + index, (6 + index) * GIB + 65536));
        match awaited_by {
            // Of these one writes.
            Some(Request::Flush) => write(&mut engine, 3, 9 * GIB),
            Some(request) => engine.on_request(Nanos::ZERO, 3, request),
            None => {}
        }
        let written_after = carried_out(&mut engine).iter().position(writes_disk);
        assert_eq!(written_after, Some(if awaited_by.is_some() { 4 } else { 21 }));
    }
}

#[test]
fn held_writes_wait_behind_reads_and_take_turns_with_them_when_a_flush_waits() {
    for flushes in [false, true] {
        let mut engine = holding(GIB);
        read(&mut engine, 1, GIB);
        for index in 0..40 {
            write(&mut engine, 100 + index, (100 + 2 * index) * GIB / 8);
            read(&mut engine, 200 + index, (101 + 2 * index) * GIB / 8);
        }
        if flushes {
            engine.on_request(Nanos::ZERO, 2, Request::Flush);
        }
        let written: Vec<bool> = carried_out(&mut engine).iter().map(writes_disk).collect();
        let first = written.iter().position(|is_write| *is_write).unwrap();
        assert_eq!(first, if flushes { 9 } else { 41 });
        let turn = written[first..].iter().take_while(|is_write| **is_write).count();
        assert!(turn >= if flushes { 8 } else { 40 } && (!flushes || turn < 17), "{written:?}");
    }
}

#[test]
fn held_writes_leave_sorted_and_neighbours_in_one_order() {
    let mut engine = holding(GIB);
    read(&mut engine, 1, GIB);
    for (tag, block) in [(2, 903), (3, 701), (4, 901), (5, 902), (6, 700)] {
        write(&mut engine, tag, GIB + block * BLOCK_BYTES);
    }
    let written = carried_out(&mut engine).into_iter().filter(writes_disk);
    let written: Vec<_> =
        written.map(|order| ((order.offset - GIB) / BLOCK_BYTES, order.length / BLOCK_BYTES)).collect();
    assert_eq!(written, [(700, 2), (901, 3)]);
}

#[test]
fn a_flush_is_answered_when_what_was_answered_before_it_is_written_and_flushed() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    let (_, first) = told(&mut engine);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    write(&mut engine, 3, 2 * GIB);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers, orders), (vec![(3, "early")], vec![]), "no flush of the disk before it has the write");
    complete(&mut engine, &first[0], true);
    let (answers, orders) = told(&mut engine);
    assert_eq!(answers, [(1, "ok")]);
    let flush = orders.iter().find(|order| (order.device, &order.action) == (Device::Disk, &Action::Flush));
    complete(&mut engine, flush.expect("the disk is flushed for it"), true);
    assert_eq!(told(&mut engine).0, [(2, "ok")], "though a later write is on its way");
}

#[test]
fn what_the_disk_does_not_take_the_log_does_and_a_flush_of_it_succeeds() {
    let mut engine = holding(GIB);
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: GIB, data: &SEVENS, fua: false });
    let (_, orders) = told(&mut engine);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    read(&mut engine, 3, GIB);
    complete(&mut engine, &orders[0], false);
    let mut bytes = None;
    let answered = answers(&mut engine, |order| match (order.device, &order.action) {
        (Device::Flash, Action::Read) => Ok(&SEVENS),
        (Device::Disk, Action::Write(_) | Action::Read) => panic!("the disk is left alone"),
        _ => Ok(&[]),
    });
    for (tag, result) in answered {
        if tag == 3 {
            bytes = result.clone().ok();
        }
        assert!(result.is_ok(), "{tag}");
    }
    assert!(matches!(bytes.as_deref(), Some([Part::Buffer { length: 4096, .. }])), "it is read from flash: {bytes:?}");
    assert_eq!((engine.lost_bytes(), engine.map.dirty_bytes()), (0, 4096));
}

#[test]
fn what_neither_takes_is_never_read_as_it_was_and_no_flush_succeeds_until_it_is_written_again() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    read(&mut engine, 3, GIB);
    let everything_fails = |order: &Order| match (order.device, &order.action) {
        (Device::Disk, Action::Flush) => Ok(&[][..]),
        (_, Action::Write(_)) => Err(()),
        _ => Ok(&[][..]),
    };
    let mut results = answers(&mut engine, everything_fails);
    results.sort_by_key(|(tag, _)| *tag);
    assert!(results.iter().all(|(_, result)| *result == Err(Error::Io)), "{results:?}");
    assert_eq!(results.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((engine.lost_bytes(), engine.counters().lost_bytes_total), (4096, 4096));
}

/// Writes to the log alone until it has room for none: the disk takes nothing of it.
fn fill_log<P: Policy>(engine: &mut Engine<P>, fails: &mut impl FnMut(&Order) -> Result<&'static [u8], ()>) {
    let mut tag = 0;
    for length in [65536, 4096] {
        loop {
            tag += 1;
            let (offset, data) = (512 * GIB + tag * 131_072, vec![1; length]);
            engine.on_request(Nanos::ZERO, tag, Request::Write { offset, data: &data, fua: false });
            if answers(engine, &mut *fails) == [(tag, Err(Error::Io))] {
                break;
            }
        }
    }
}

#[test]
fn what_the_disk_has_refused_does_not_go_there_again_when_the_log_is_full() {
    let mut engine = engine_with(1 << 20, Segments::default(), Holds(GIB));
    let mut written = 0;
    let mut fails = |order: &Order| {
        let is_held = order.offset == GIB && writes_disk(order);
        written += u32::from(is_held);
        if writes_disk(order) || order.action == Action::Read { Err(()) } else { Ok(&[][..]) }
    };
    fill_log(&mut engine, &mut fails);
    write(&mut engine, 0, GIB);
    assert_eq!(engine.held_bytes(), 4096);
    assert_eq!(answers(&mut engine, &mut fails), [(0, Err(Error::Io))]);
    assert_eq!((written, engine.lost_bytes()), (1, 4096));
}

#[test]
fn nothing_is_answered_early_that_would_fail_for_want_of_room_in_a_checkpoint() {
    let mut engine = engine_with(1 << 20, Segments::default(), Holds(GIB));
    let mut tag = 0;
    // Each zero is an extent more of it.
    loop {
        tag += 1;
        let range = Range::new((1000 + 2 * tag) * BLOCK_BYTES, BLOCK_BYTES);
        engine.on_request(Nanos::ZERO, tag, Request::Zero { range, fua: false });
        let fails = |order: &Order| if writes_disk(order) { Err(()) } else { Ok(&[][..]) };
        if answers(&mut engine, fails) == [(tag, Err(Error::Io))] {
            break;
        }
    }
    write(&mut engine, 0, GIB);
    assert_eq!((told(&mut engine).0, engine.lost_bytes()), (vec![(0, "error")], 0));
}

/// A held write of which disk and log have failed, though flash goes on: the log was full of what cannot be
/// written back.
fn with_a_loss() -> Engine<Holds> {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    let (_, orders) = told(&mut engine);
    complete(&mut engine, &orders[0], false);
    let (_, orders) = told(&mut engine);
    assert_eq!((orders.len(), orders[0].device), (1, Device::Flash), "the log is tried");
    let id = *engine.writes.first_key_value().expect("it is unfinished").0;
    engine.orders.remove(&orders[0].id);
    engine.records.clear();
    // As `fail_stalled` and `fail_queue` do.
    engine.on_logged(id, false);
    engine.pump();
    engine
}

#[test]
fn a_lost_range_fails_reads_and_flushes_until_it_is_written_again_and_others_are_read() {
    let mut engine = with_a_loss();
    told(&mut engine);
    read(&mut engine, 2, GIB);
    engine.on_request(Nanos::ZERO, 3, Request::Flush);
    assert_eq!(told(&mut engine), (vec![(2, "error"), (3, "error")], vec![]), "no order: nothing older is read");
    read(&mut engine, 4, GIB + 4096);
    let (_, orders) = told(&mut engine);
    complete(&mut engine, &orders[0], true);
    assert_eq!(told(&mut engine).0, [(4, "ok")]);
    // Half of it.
    engine.on_request(Nanos::ZERO, 5, Request::Write { offset: GIB, data: &[5; 2048], fua: false });
    let (_, orders) = told(&mut engine);
    complete(&mut engine, &orders[0], true);
    assert_eq!((told(&mut engine).0, engine.lost_bytes()), (vec![(5, "ok")], 2048));
    read(&mut engine, 6, GIB);
    assert_eq!(told(&mut engine).0, [(6, "error")]);
    // Zeros go to the log.
    engine.on_request(Nanos::ZERO, 7, Request::Zero { range: Range::new(GIB, 4096), fua: false });
    assert_eq!(answers(&mut engine, |_| Ok(&[])), [(7, Ok(Vec::new()))]);
    engine.on_request(Nanos::ZERO, 8, Request::Flush);
    assert_eq!(answers(&mut engine, |_| Ok(&[])), [(8, Ok(Vec::new()))]);
    assert_eq!((engine.lost_bytes(), engine.counters().lost_writes_total), (0, 1));
}

#[test]
fn a_flush_that_waited_for_what_is_lost_fails_even_if_it_is_written_again_meanwhile() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, GIB);
    let (_, orders) = told(&mut engine);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    write(&mut engine, 3, GIB);
    complete(&mut engine, &orders[0], false);
    let (_, record) = told(&mut engine);
    engine.orders.remove(&record[0].id);
    engine.records.clear();
    let id = *engine.writes.first_key_value().expect("it is unfinished").0;
    engine.on_logged(id, false);
    engine.pump();
    assert_eq!(told(&mut engine).0, [(2, "error"), (1, "error"), (3, "early")]);
}

#[test]
fn no_more_is_held_than_the_limit_and_who_waits_for_room_is_answered_in_his_turn() {
    let mut engine = holding(3 * 4096);
    (1..=5).for_each(|tag| write(&mut engine, tag, tag * GIB));
    engine.on_request(Nanos::ZERO, 6, Request::Write { offset: 20 * GIB, data: &[6; 4 * 4096], fua: false });
    let (answers, mut orders) = told(&mut engine);
    assert_eq!((answers, engine.held_bytes()), (vec![(1, "early"), (2, "early"), (3, "early")], 3 * 4096));
    let mut answered = Vec::new();
    while let Some(order) = orders.pop() {
        complete(&mut engine, &order, true);
        let (answers, more) = told(&mut engine);
        assert!(engine.held_bytes() <= 3 * 4096);
        answered.extend(answers);
        orders.extend(more);
    }
    let early = answered.iter().filter(|(_, how)| *how == "early").map(|(tag, _)| *tag);
    assert_eq!(early.collect::<Vec<_>>(), [4, 5], "one longer than the limit is never held");
    let mut ended: Vec<Tag> = answered.iter().filter(|(_, how)| *how == "ok").map(|(tag, _)| *tag).collect();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn nothing_is_held_with_fua_or_of_a_split_write_or_when_the_volume_is_emptied() {
    let mut engine = holding(GIB);
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: GIB, data: &[1; 4096], fua: true });
    // Its first block is guarded.
    engine.on_request(Nanos::ZERO, 2, Request::Write { offset: 0, data: &[1; 8192], fua: false });
    engine.drain(Nanos::ZERO, true);
    write(&mut engine, 3, 2 * GIB);
    engine.drain(Nanos::ZERO, false);
    assert_eq!((told(&mut engine).0, engine.held_bytes()), (vec![], 0));
}

#[test]
fn liu_holds_what_it_may_alone_and_nothing_with_itransformer() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let settings = |hold_bytes| {
        let liu = liu::Settings { hold_bytes, ..liu::Settings::default() };
        chain::Settings { liu, ..chain::Settings::default() }
    };
    for names in Names::ALL {
        let mut engine = engine_with(64 << 20, segments, Chain::new(names, segments, settings(GIB)));
        // Longer than what iTransformer and none absorb.
        engine.on_request(Nanos::ZERO, 1, Request::Write { offset: GIB, data: &vec![1; 4 << 20], fua: false });
        let is_held = engine.held_bytes() > 0;
        assert_eq!(is_held, names == Names::Liu, "{names}");
    }
    let chain = Chain::new(Names::Liu, segments, chain::Settings::default());
    assert_eq!(chain.holds_bytes_max(), 0, "not unless it is asked for");
}

#[test]
fn a_stop_or_a_drain_is_over_when_all_that_was_answered_is_written() {
    for stops in [false, true] {
        let mut engine = holding(GIB);
        (1..=30).for_each(|tag| write(&mut engine, tag, tag * GIB));
        if stops {
            engine.stop(Nanos::ZERO, true);
        } else {
            engine.drain(Nanos::ZERO, true);
        }
        let mut written = 0;
        let is_over = |engine: &Engine<Holds>| if stops { engine.has_stopped() } else { engine.is_drained() };
        let (_, mut orders) = told(&mut engine);
        while let Some(order) = orders.pop() {
            assert!(!is_over(&engine) && (stops || written == 30 || engine.may_drain()));
            written += u32::from(writes_disk(&order));
            complete(&mut engine, &order, true);
            orders.extend(told(&mut engine).1);
        }
        assert!(written == 30 && is_over(&engine), "{written}");
    }
}

#[test]
fn an_idle_volume_has_no_checkpoint_made_while_writes_are_held() {
    let mut engine = holding(GIB);
    engine.on_request(Nanos::ZERO, 1, Request::Zero { range: Range::new(2 * GIB, 4096), fua: false });
    answers(&mut engine, |_| Ok(&[]));
    write(&mut engine, 2, GIB);
    told(&mut engine);
    engine.on_idle(Nanos::ZERO);
    assert_eq!(told(&mut engine), (vec![], vec![]));
}

// LiU has a timer while a strong segment cannot be lifted.
#[test]
fn a_held_write_for_which_no_room_can_come_is_lost_and_keeps_nobody_waiting_though_a_timer_is_set() {
    let mut engine = engine_with(1 << 20, Segments::default(), Restless(Holds(GIB)));
    let mut fails = |order: &Order| {
        if writes_disk(order) || order.action == Action::Read { Err(()) } else { Ok(&[][..]) }
    };
    fill_log(&mut engine, &mut fails);
    write(&mut engine, 100_000, GIB);
    assert_eq!(engine.held_bytes(), 4096);
    let mut answered: Vec<Tag> = answers(&mut engine, &mut fails).into_iter().map(|(tag, _)| tag).collect();
    engine.on_request(Nanos::ZERO, 100_001, Request::Flush);
    engine.on_request(Nanos::ZERO, 100_002, Request::Read(Range::new(GIB, 4096)));
    engine.on_request(Nanos::ZERO, 100_003, Request::Write { offset: 900 * GIB, data: &[1; 4096], fua: false });
    for step in 1..1000 {
        engine.on_timer(Nanos(step * 5_000_000));
        answered.extend(answers(&mut engine, &mut fails).into_iter().map(|(tag, _)| tag));
    }
    answered.retain(|tag| *tag > 100_000);
    answered.sort_unstable();
    assert_eq!((answered, engine.held_bytes(), engine.lost_bytes()), (vec![100_001, 100_002, 100_003], 0, 4096));
}

#[test]
fn a_flush_after_what_was_lost_has_been_written_again_waits_for_that() {
    let mut engine = with_a_loss();
    told(&mut engine);
    write(&mut engine, 5, GIB);
    let (answers, orders) = told(&mut engine);
    assert_eq!(answers, [(5, "early")]);
    engine.on_request(Nanos::ZERO, 6, Request::Flush);
    assert_eq!(told(&mut engine).0, []);
    complete(&mut engine, &orders[0], true);
    assert_eq!(engine.lost_bytes(), 0);
    let (answers, orders) = told(&mut engine);
    assert_eq!((answers, orders.len(), orders[0].action == Action::Flush), (vec![(5, "ok")], 1, true));
}

#[test]
fn nothing_is_answered_early_that_waits_for_flash() {
    let mut engine = holding(GIB);
    write(&mut engine, 1, 512 * GIB);
    carried_out(&mut engine);
    engine.drain(Nanos::ZERO, true);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    let mut orders = told(&mut engine).1;
    while orders.iter().all(|order| order.action != Action::Read) {
        let order = orders.pop().expect("a write-back begins");
        complete(&mut engine, &order, true);
        orders.extend(told(&mut engine).1);
    }
    engine.drain(Nanos::ZERO, false);
    // Over what is being written back.
    engine.on_request(Nanos::ZERO, 3, Request::Write { offset: 512 * GIB - 4096, data: &[1; 8192], fua: false });
    assert!(told(&mut engine).0.is_empty() && engine.held_bytes() == 0);
    let (mut early, mut failed) = (Vec::new(), 0);
    while let Some(order) = orders.pop() {
        failed += u32::from(order.device == Device::Flash);
        complete(&mut engine, &order, order.device == Device::Disk);
        let (answers, more) = told(&mut engine);
        early.extend(answers);
        orders.extend(more);
    }
    assert!(failed > 0 && early.starts_with(&[(3, "early")]), "{early:?}");
    assert_eq!(engine.lost_bytes(), 0);
}
