use super::*;

const BYTES: u64 = 5 << 20;
const READ: u64 = 65_536;

/// Reads of so many streams in turns, a hundred segments apart, from this offset on; what is loaded for
/// the last ones.
fn loaded(names: Names, streams: u64, offset: u64) -> Vec<Option<Range>> {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut chain = Chain::new(names, segments, Settings::default());
    let load = Load { staging_bytes: 1 << 30, ..Load::default() };
    let mut last = Vec::new();
    for turn in 0..8 {
        last.clear();
        for stream in 0..streams {
            let at = offset + turn * READ;
            last.push(chain.on_segment_read(SegmentRead { segment: stream * 100, part: Range::new(at, READ) }));
            chain.on_read(Range::new(stream * 100 * BYTES + at, READ), &load);
        }
    }
    last
}

#[test]
fn what_is_ahead_of_streams_is_loaded_if_there_is_room_for_a_segment_of_each() {
    // It was loaded by the fifth read.
    let from_fifth = |offset| Some(Range::between(offset + 4 * READ, BYTES));
    assert_eq!(loaded(Names::LiuITransformer, 51, BYTES / 2), vec![from_fifth(BYTES / 2); 51]);
    assert_eq!(loaded(Names::Auto, 51, BYTES / 2), vec![from_fifth(BYTES / 2); 51]);
    assert_eq!(loaded(Names::LiuITransformer, 52, BYTES / 2), vec![None; 52], "256 MiB have room for 51");
    assert_eq!(loaded(Names::LiuITransformer, 1, BYTES / 2), vec![None], "one alone is left to the disk");
    assert_eq!(loaded(Names::Liu, 20, BYTES / 2), vec![None; 20]);
    let near_end = BYTES - 8 * READ;
    assert_eq!(loaded(Names::LiuITransformer, 20, near_end), vec![from_fifth(near_end); 20]);
}

#[test]
fn what_lies_before_a_part_that_was_loaded_ahead_comes_too_when_reads_there_have_paid_for_it() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut chain = Chain::new(Names::LiuITransformer, segments, Settings::default());
    let load = Load { staging_bytes: 1 << 30, ..Load::default() };
    let mut read = |segment, at, length| {
        let wanted = chain.on_segment_read(SegmentRead { segment, part: Range::new(at, length) });
        (wanted, chain.on_read(Range::new(segment * BYTES + at, length), &load))
    };
    let tail = BYTES / 2;
    for turn in 0..8 {
        (0..20).for_each(|stream| _ = read(stream * 100, tail + turn * READ, READ));
    }
    let held = Some(Range::between(tail + 4 * READ, BYTES));
    assert_eq!(read(0, BYTES - 4096, 4096), (held, None));
    (0..5).for_each(|_| assert_eq!(read(0, BYTES - 4096, 4096), (held, None), "the buffer answers"));
    let blocks = [3, 90, 7, 200, 31];
    let found = (0..20).find(|turn| read(0, blocks[turn % 5] * BLOCK_BYTES, BLOCK_BYTES).0 != held);
    assert_eq!(found, Some(10), "five that are new, and the sixth that came again");
    assert_eq!(read(0, 0, 4096), (Some(Range::new(0, BYTES)), None));
}

#[test]
fn what_is_loaded_begins_at_the_block_of_the_read_and_ends_with_the_segment() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
    let mut chain = Chain::new(Names::LiuITransformer, segments, Settings::default());
    let load = Load { staging_bytes: 1 << 30, ..Load::default() };
    let mut ahead = Vec::new();
    for turn in 0..5 {
        for stream in 0..8 {
            let at = 1000 + turn * READ;
            let part = Range::new(at, READ);
            ahead.push(chain.on_segment_read(SegmentRead { segment: stream * 100, part }));
            chain.on_read(Range::new(stream * 100 * BYTES + at, READ), &load);
        }
    }
    assert_eq!(ahead.iter().flatten().next(), Some(&Range::between(4 * READ, BYTES)));
}

#[test]
fn names_are_read_as_they_are_written_and_numbers_come_back() {
    for names in Names::ALL {
        assert_eq!((names.to_string().parse(), Names::of_number(names.number())), (Ok(names), names));
    }
    assert_eq!(Names::of_number(77), Names::None);
    assert!("liu, s4d".parse::<Names>().unwrap_err().to_string().contains("liu,itransformer"));
}
