use std::collections::BTreeSet;

use super::*;

#[test]
fn a_strong_segment_is_loaded_when_a_block_is_read_again_and_not_for_short_reads_of_one_block() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut liu = Liu::new(segments, Settings::default());
    let mut read = |part| liu.on_segment_read(SegmentRead { segment: 3, part }, None);
    let loaded = (0..4000).find_map(|turn| read(Range::new(turn * 1000, 1000)));
    assert_eq!(loaded, None, "in order, four to a block");
    assert_eq!(read(Range::new(5000, 8192)), Some(Range::new(0, segments.segment_bytes())));
}

#[test]
fn a_weak_segment_is_loaded_when_reads_that_came_again_have_cost_what_a_load_does() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut liu = Liu::new(segments, Settings::default());
    let all = Some(Range::new(0, segments.segment_bytes()));
    let mut reads_until_loaded = |blocks: [u64; 2]| {
        let part = |turn: usize| Range::new(blocks[turn % 2] * BLOCK_BYTES, BLOCK_BYTES);
        (0..20).find(|turn| liu.on_segment_read(SegmentRead { segment: 3, part: part(*turn) }, None) == all)
    };
    assert_eq!(reads_until_loaded([7, 900]), Some(7), "two that are new, then the sixth");
    assert_eq!(reads_until_loaded([7, 900]), Some(0), "it is in the buffer");
    assert_eq!(liu.counts().lifts_waiting, 1, "and is strong");
    liu.forget();
    assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, BLOCK_BYTES) }, None), all, "at once");
    let mut liu = Liu::new(segments, Settings::default());
    let mut written = |block| liu.on_segment_write(3, Range::new(block * BLOCK_BYTES, BLOCK_BYTES));
    (0..20).for_each(|turn| written(turn % 2));
    let mut read = |block| {
        liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(block * BLOCK_BYTES, BLOCK_BYTES) }, None)
    };
    assert_eq!((0..200).find_map(&mut read), None, "new ones count nothing, nor do writes");
    assert_eq!((0..6).find(|block| read(*block) == all), Some(3), "the first two came again before");
}

#[test]
fn a_segment_that_a_stream_loaded_is_strong_when_reads_that_came_again_there_have_cost_what_a_load_does() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut liu = Liu::new(segments, Settings::default());
    let part = Range::new(7 * BLOCK_BYTES, BLOCK_BYTES);
    let ahead = Range::new(0, segments.segment_bytes());
    assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part }, Some(ahead)), Some(ahead));
    let mut lifts_waiting = || {
        liu.on_segment_read(SegmentRead { segment: 3, part }, None);
        liu.counts().lifts_waiting
    };
    assert_eq!((0..6).map(|_| lifts_waiting()).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_segment_that_paid_for_its_load_is_strong_after_it_has_left_and_one_that_did_not_is_weak() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    for (reads_loaded, is_strong) in [(1, false), (6, true)] {
        let mut liu = Liu::new(segments, Settings::default());
        let mut read = |segment, block| {
            let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
            liu.on_segment_read(SegmentRead { segment, part }, None).is_some()
        };
        assert!((0..7).any(|_| read(3, 7)), "new, and six times again");
        (0..reads_loaded).for_each(|_| assert!(read(3, 7)));
        for segment in 10..500 {
            (0..10).for_each(|_| _ = read(segment, 0));
        }
        assert_eq!(read(3, 900), is_strong, "{reads_loaded}");
    }
}

#[test]
fn blocks_that_were_read_before_a_load_that_had_paid_are_read_again_after_it() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut liu = Liu::new(segments, Settings::default());
    let mut read = |segment, block| {
        let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
        liu.on_segment_read(SegmentRead { segment, part }, None).is_some()
    };
    let loads_at = (0..).find(|turn| read(3, turn % 6));
    assert_eq!(loads_at, Some(11), "six blocks, each twice");
    assert!((0..6).all(|block| read(3, block)));
    for segment in 10..500 {
        (0..10).for_each(|_| _ = read(segment, 0));
    }
    assert!(read(3, 900), "one that had six reads of them in the buffer is strong after it has left");
}

#[test]
fn a_segment_that_was_written_is_strong_when_it_is_read() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    for (written_blocks, wanted) in [(383, None), (384, Some(Range::new(0, segments.segment_bytes())))] {
        let mut liu = Liu::new(segments, Settings::default());
        for block in 0..written_blocks {
            liu.on_segment_write(3, Range::new(block * BLOCK_BYTES, BLOCK_BYTES));
        }
        assert_eq!(liu.counts().lifts_waiting, u64::from(wanted.is_some()), "from 30 % on");
        assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), wanted);
    }
}

#[test]
fn flash_takes_all_that_is_written_to_a_head_until_it_is_lifted_again_or_never_will_be() {
    let liu = || {
        let mut liu = Liu::new(Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 }, Settings::default());
        assert!(!liu.takes_writes(3), "it was never lifted");
        liu.on_lifted(3);
        assert!(liu.takes_writes(3));
        liu
    };
    let mut written = liu();
    written.on_head_lost(3, true);
    assert!(written.takes_writes(3), "the first write ended the head");
    written.on_lift_refused(Nanos::ZERO, 3, true);
    assert!(written.takes_writes(3), "it is tried again");
    written.on_lifted(3);
    assert!(written.takes_writes(3));
    written.on_head_lost(3, true);
    written.on_lift_refused(Nanos::ZERO, 3, false);
    assert!(!written.takes_writes(3), "others have the slots");
    let mut displaced = liu();
    displaced.on_head_lost(3, false);
    assert!(!displaced.takes_writes(3));
}

#[test]
fn flash_takes_no_writes_to_heads_that_follow_each_other_closely_while_the_disk_is_kept_busy() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let takes = |step: u64, under_way_bytes| {
        let mut liu = Liu::new(segments, Settings::default());
        liu.on_lifted(3);
        (0..100u64).for_each(|write| liu.on_write(Range::new((write ^ 1) * step, 16384), under_way_bytes));
        liu.takes_writes(3)
    };
    assert!(!takes(16384, 128 << 10) && !takes(300 << 10, 1 << 20), "with gaps as well");
    assert!(takes(1 << 20, 1 << 20), "more than a head away");
    assert!(takes(16384, 64 << 10), "the disk waits for the next");
}

#[test]
fn a_strong_segment_whose_head_made_room_is_loaded_and_comes_back_when_it_is_found_strong_again() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 1 };
    let mut liu = Liu::new(segments, Settings::default());
    liu.on_lifted(3);
    assert_eq!(liu.on_segment_read(SegmentRead { segment: 4, part: Range::new(0, 65536) }, None), None);
    assert_eq!(liu.next_de_lift(4), None, "nobody knows that one");
    for segment in [4, 5] {
        liu.on_segment_write(segment, Range::new(0, 384 * BLOCK_BYTES));
    }
    assert_eq!(liu.next_de_lift(5), Some(3));
    liu.on_head_lost(3, false);
    liu.on_lifted(5);
    assert_eq!(liu.counts().lifts_waiting, 1, "3 does not wait");
    let all = Range::new(0, segments.segment_bytes());
    assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), Some(all));
    liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 384 * BLOCK_BYTES) }, None);
    assert_eq!(liu.counts().lifts_waiting, 1, "nor while it is in the buffer");
    for segment in 10..10 + liu.loaded_max() {
        liu.on_segment_write(segment, Range::new(0, 384 * BLOCK_BYTES));
        liu.on_segment_read(SegmentRead { segment, part: Range::new(0, 65536) }, None);
    }
    assert!(liu.heads.waits(3), "it has left: {:?}", liu.heads);
}

#[test]
fn of_more_segments_than_slots_that_are_read_round_and_round_some_stay_lifted() {
    const SLOTS: u64 = 4;
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: SLOTS as u32 };
    let buffer = Settings { buffer_bytes: segments.segment_bytes(), stack_per_buffer: 1, ..Settings::default() };
    let mut liu = Liu::new(segments, buffer);
    let (mut lifted, mut moved, mut found) = (BTreeSet::new(), 0, 0);
    let mut read = |segment: u64, counted: bool| {
        found += u64::from(counted && lifted.contains(&segment));
        for block in 0..1280 {
            let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
            liu.on_segment_read(SegmentRead { segment, part }, None);
        }
        let waiting: BTreeSet<u64> = std::iter::from_fn(|| liu.heads.next()).collect();
        for wanting in waiting {
            if lifted.len() as u64 == SLOTS {
                let Some(displaced) = liu.next_de_lift(wanting) else { continue };
                liu.on_head_lost(displaced, false);
                lifted.remove(&displaced);
            }
            liu.on_lifted(wanting);
            lifted.insert(wanting);
            moved += u64::from(counted);
        }
        (found, moved)
    };
    let rounds = (0..6).flat_map(|round| (0..9).map(move |segment| (round, segment)));
    let (found, moved) = rounds.map(|(round, segment)| read(segment, round > 0)).last().unwrap();
    assert!(found >= 5 * (SLOTS - 1), "{found} of {} found on flash, {moved} moved there", 5 * 9);
    assert!(moved < 9, "{moved} moved");
    // Others take their place as soon as they come back sooner.
    let (_, before) = read(20, true);
    let (_, after) = (0..3 * SLOTS).map(|turn| read(20 + turn % SLOTS, true)).last().unwrap();
    assert_eq!(after - before, SLOTS - 1, "all of the new ones");
}

#[test]
fn a_segment_that_was_loaded_ahead_of_a_stream_is_strong_when_enough_of_it_was_read() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut liu = Liu::new(segments, Settings::default());
    let ahead = Range::between(65536, segments.segment_bytes());
    assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), None);
    let next = SegmentRead { segment: 3, part: Range::new(65536, 65536) };
    assert_eq!(liu.on_segment_read(next, Some(ahead)), Some(ahead));
    for block in 32..415 {
        let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
        assert!(liu.on_segment_read(SegmentRead { segment: 3, part }, None).is_some());
        assert_eq!(liu.counts().lifts_waiting, u64::from(block + 1 >= 384), "block {block}");
    }
    liu.forget();
    let begins = SegmentRead { segment: 3, part: Range::new(0, 65536) };
    assert!(liu.on_segment_read(begins, None).is_some(), "known, though the buffer was emptied");
}
