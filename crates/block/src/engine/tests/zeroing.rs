//! Zeros on a disk that makes them by itself.

use super::*;
use headstart_units::ranges::Ranges;

/// An engine whose disk does.
fn zeroing_engine<P: Policy>(policy: P) -> Engine<P> {
    let mut engine = engine_with(16 << 20, Segments::default(), policy);
    engine.settings.zero_bytes_max = ZERO_BYTES_MAX;
    engine
}

/// What the disk is told to do, until nothing is under way; it refuses to make zeros if `refuses`. And the most bytes
/// that a checkpoint would have taken meanwhile.
fn disk_orders<P: Policy>(engine: &mut Engine<P>, refuses: bool) -> (Vec<Order>, u64) {
    let (mut of_disk, mut encoded_most) = (Vec::new(), 0);
    loop {
        let orders = orders(engine);
        if orders.is_empty() {
            return (of_disk, encoded_most);
        }
        for order in orders {
            let refused = refuses && order.action == Action::Zero;
            if order.device == Device::Disk && order.action != Action::Flush {
                of_disk.push(order.clone());
            }
            engine.on_completion(Nanos::ZERO, order.id, if refused { Err(()) } else { Ok(&[]) });
            encoded_most = encoded_most.max(engine.map.encoded_bytes());
        }
    }
}

fn zero<P: Policy>(engine: &mut Engine<P>, range: Range) {
    engine.on_request(Nanos::ZERO, 1, Request::Zero { range, fua: false });
}

/// Bytes that are zeros, written and made, and that the orders make zeros of the range and of nothing else.
fn bytes(orders: &[Order], range: Range) -> (u64, u64) {
    let mut left = Ranges::default();
    left.insert(range, ());
    let (mut written, mut made) = (0, 0);
    for order in orders {
        let part = Range::new(order.offset, order.length);
        assert!(range.contains(part), "{order:?}");
        left.carve(part);
        match &order.action {
            Action::Zero => made += part.length,
            Action::Write(parts) => {
                assert!(parts.iter().all(|part| matches!(part, Part::Zeros(_))), "{order:?}");
                written += part.length;
            }
            Action::Read | Action::Flush => panic!("{order:?}"),
        }
    }
    assert!(left.is_empty(), "{left:?}");
    (written, made)
}

#[test]
fn the_disk_makes_zeros_of_whole_blocks_and_the_edges_are_written() {
    let mut engine = zeroing_engine(AddressOrder::default());
    let range = Range::new((1 << 30) + 512, (200 << 20) + 512);
    zero(&mut engine, range);
    assert_eq!(disk_orders(&mut engine, false).0, [], "the log has them");
    engine.drain(Nanos::ZERO, true);
    let (orders, _) = disk_orders(&mut engine, false);
    assert!(engine.is_drained());
    assert_eq!(bytes(&orders, range), (3584 + 1024, (200 << 20) - 4096));
    assert!(orders.len() <= 4 + 2, "{orders:?}");
}

#[test]
fn what_the_guard_hides_of_a_discarded_disk_stays_hidden_and_the_log_holds_two_extents_of_it_at_most() {
    let mut engine = zeroing_engine(AddressOrder::default());
    let disk = Range::new(0, 1 << 40);
    zero(&mut engine, disk);
    disk_orders(&mut engine, false);
    engine.drain(Nanos::ZERO, true);
    let (orders, encoded_most) = disk_orders(&mut engine, false);
    assert!(engine.is_drained());
    let guarded = engine.in_force.regions().iter().map(|region| region.range.length).sum::<u64>();
    assert_eq!(bytes(&orders, disk), (guarded, (1 << 40) - guarded));
    for order in &orders {
        let is_hidden = engine.in_force.regions().touches(Range::new(order.offset, order.length));
        let is_written = matches!(order.action, Action::Write(_));
        assert_eq!((is_written, order.session.is_some()), (is_hidden, is_hidden), "{order:?}");
    }
    assert_eq!(engine.counters.failed_write_backs_total, 0);
    // While a checkpoint is made they are not joined.
    let area = engine.in_force.layout().checkpoint_bytes();
    assert!(encoded_most < area / 8, "{encoded_most} of {area} bytes of a checkpoint");
}

#[test]
fn zeros_that_a_disk_refuses_to_make_are_written_and_it_is_not_asked_again() {
    let mut engine = zeroing_engine(AddressOrder::default());
    let range = Range::new(1 << 30, 300 << 20);
    zero(&mut engine, range);
    disk_orders(&mut engine, true);
    engine.drain(Nanos::ZERO, true);
    let (mut orders, _) = disk_orders(&mut engine, true);
    assert!(engine.is_drained());
    assert_eq!(orders.remove(0).action, Action::Zero);
    assert_eq!(bytes(&orders, range), (300 << 20, 0));
    assert_eq!(engine.has_failed(), (false, false));
}

#[test]
fn zeros_that_bypass_flash_are_made_by_the_disk_too_and_written_if_it_refuses() {
    for refuses in [false, true] {
        let mut engine = zeroing_engine(WriteThrough);
        engine.in_force.take_guard_off();
        let range = Range::new(512, 128 << 20);
        zero(&mut engine, range);
        let mut asked = Vec::new();
        let answered = answers(&mut engine, |order| {
            assert_eq!(order.device, Device::Disk);
            let refused = refuses && order.action == Action::Zero;
            if !refused {
                asked.push(order.clone());
            }
            if refused { Err(()) } else { Ok(&[]) }
        });
        assert_eq!(answered, [(1, Ok(Vec::new()))], "once");
        let edges = BLOCK_BYTES;
        let expected = if refuses { (128 << 20, 0) } else { (edges, (128 << 20) - edges) };
        assert_eq!(bytes(&asked, range), expected);
    }
}

#[test]
fn a_write_that_came_after_a_discard_is_what_the_disk_holds_at_the_end() {
    let mut engine = zeroing_engine(AddressOrder::default());
    let (range, at) = (Range::new(1 << 30, 128 << 20), (1 << 30) + 17 * BLOCK_BYTES);
    zero(&mut engine, range);
    // Only what is durable is written back.
    engine.on_request(Nanos::ZERO, 3, Request::Flush);
    disk_orders(&mut engine, false);
    engine.drain(Nanos::ZERO, true);
    let (mut given, mut written) = (orders(&mut engine), false);
    assert_eq!(given.iter().filter(|order| order.action == Action::Zero).count(), 1, "{given:?}");
    // It comes while the disk makes the zeros.
    engine.on_request(Nanos::ZERO, 2, Request::Write { offset: at, data: &SEVENS, fua: false });
    given.extend(orders(&mut engine));
    while !given.is_empty() {
        for order in std::mem::take(&mut given) {
            if order.device == Device::Disk
                && Range::new(order.offset, order.length.max(1)).contains(Range::new(at, 512))
            {
                written = matches!(order.action, Action::Write(_));
            }
            let result: Result<&[u8], ()> = if order.action == Action::Read { Ok(&SEVENS) } else { Ok(&[]) };
            engine.on_completion(Nanos::ZERO, order.id, result);
            given.extend(orders(&mut engine));
        }
    }
    assert!(engine.is_drained() && written, "the last that reaches its place is the write");
}
