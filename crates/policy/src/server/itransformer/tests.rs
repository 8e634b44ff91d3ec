use super::*;

fn load(used_percent: u32) -> Load {
    Load { ring_blocks: 100, free_blocks: 100 - used_percent, is_dirty: true, ..Load::default() }
}

/// The first write of a sequential stream that is not absorbed.
fn first_left(mut policy: ITransformer, load: Load) -> Option<u64> {
    (0..1000).find(|write| !policy.absorbs(Range::new(write * 65_536, 65_536), &load))
}

#[test]
fn a_sequential_stream_bypasses_flash_where_it_keeps_the_disk_busy_or_the_log_fills() {
    let deep = |used| Load { written_bytes: 2 << 20, ..load(used) };
    let shallow = |used| Load { written_bytes: 65_536, ..load(used) };
    assert!(first_left(ITransformer::default(), deep(0)).is_some_and(|write| write < 300));
    assert_eq!(first_left(ITransformer::default(), shallow(74)), None);
    assert!(first_left(ITransformer::default(), shallow(75)).is_some_and(|write| write < 300));
    let takes_streams = ITransformer::new(Settings { leaves_streams: false, ..Settings::default() });
    assert_eq!(first_left(takes_streams.clone(), deep(74)), None);
    // The disk is taken for one of 50 MB/s.
    let flash = |ps_per_byte| Load { flash_ps_per_byte: Some(ps_per_byte), ..deep(74) };
    assert_eq!(first_left(takes_streams.clone(), flash(10_000)), None);
    assert!(first_left(takes_streams.clone(), flash(10_001)).is_some());
    assert!(first_left(takes_streams, deep(75)).is_some());
}

#[test]
fn a_round_that_begins_with_one_request_keeps_the_disk_as_busy_as_the_last_one() {
    let mut policy = ITransformer::default();
    let absorbed = (0..4800).filter(|write| {
        let under_way = write % 48 * 65_536;
        policy.absorbs(Range::new(write * 65_536, 65_536), &Load { written_bytes: under_way, ..load(10) })
    });
    assert!(absorbed.count() < 300);
}

#[test]
fn short_write_backs_share_the_disk_while_writes_are_paced_and_no_more_than_compete() {
    let mut policy = ITransformer::default();
    for write in 0..20 {
        policy.on_write_back(Nanos::ZERO, Range::new(write << 30, 8192));
    }
    let busy = Load { in_flight: 3, in_flight_bytes: 3 * 4096, log_items: 2, ..load(60) };
    assert_eq!(policy.turn(&busy), Turn::Shared);
    assert!(policy.next_write_back(&Load { write_backs: 4, ..busy }).is_some());
    assert!(policy.next_write_back(&Load { write_backs: 5, ..busy }).is_none());
    let many = Load { log_items: 1000, ..busy };
    assert!(policy.next_write_back(&Load { write_backs: 32, ..many }).is_none());
    for other in [
        Load { free_blocks: 52, ..busy },
        Load { draining: true, ..busy },
        Load { fetches_waiting: 1, ..busy },
        Load { in_flight_bytes: 3 << 20, ..busy },
    ] {
        assert_eq!(policy.turn(&other), Turn::Closing, "{other:?}");
    }
    for write in 0..20 {
        policy.on_write_back(Nanos::ZERO, Range::new(write << 30, 2 << 20));
    }
    assert_eq!(policy.turn(&busy), Turn::Closing, "long ones");
}
