use super::*;

const READ: u64 = 65_536;

fn read(at: u64) -> Range {
    Range::new(at * READ, READ)
}

/// Streams a hundred reads apart, each read so often in turns, upwards or downwards; what was fetched
/// does not matter.
fn interleaved(streams: u64, reads: u64, is_up: bool) -> Streams {
    let mut found = Streams::new(4 * READ, 4);
    for turn in 0..reads {
        for stream in 1..=streams {
            let at = if is_up { stream * 100 + turn } else { stream * 100 - turn };
            found.on_read(read(at), |_| 0, true);
        }
    }
    found
}

#[test]
fn streams_among_others_have_a_heading_and_one_alone_has_none() {
    let (up, down) = (interleaved(8, 6, true), interleaved(8, 6, false));
    for stream in 1..=8 {
        assert_eq!(up.heading(read(stream * 100 + 6)), Some(Heading::Up));
        assert_eq!(down.heading(read(stream * 100 - 6)), Some(Heading::Down));
        assert_eq!(up.heading(read(stream * 100 + 8)), None, "it continues nothing");
    }
    assert_eq!((up.active(), down.active()), (8, 8));
    assert_eq!(interleaved(8, 3, true).heading(read(103)), None, "three reads are no stream");
    assert_eq!(interleaved(1, 100, true).heading(read(200)), None);
}

#[test]
fn reads_follow_others_of_their_run_or_those_closely_before_them() {
    let mut found = Streams::new(4 * READ, 4);
    for at in [100, 101, 106, 200, 199] {
        found.on_read(read(at), |_| 0, true);
    }
    let follow = [100, 101, 106, 200, 199].map(|at| found.follows(read(at)));
    assert_eq!(follow, [false, true, true, false, true]);
    found.on_read(read(112), |_| 0, true);
    assert!(!found.follows(read(112)), "more than a window behind 106");
}

#[test]
fn a_stream_that_many_read_together_is_left_to_the_disk_in_whatever_order_they_come() {
    let mut found = Streams::new(4 * READ, 4);
    let mut fetches_late = 0;
    for turn in 0..40 {
        // Another order each time.
        let step = [5, 7, 11, 13, 17, 19, 23][turn as usize % 7];
        for index in 0..48 {
            let reader = (index * step + turn) % 48;
            let fetch = found.on_read(read(turn * 48 + reader), |_| 1 << 20, true);
            fetches_late += usize::from(fetch.is_some() && turn >= 8);
        }
    }
    assert_eq!(fetches_late, 0);
}

#[test]
fn reads_that_memory_answers_continue_their_stream_and_change_nothing_else() {
    let mut found = interleaved(8, 6, true);
    for turn in 6..86 {
        found.on_held_read(read(100 + turn));
    }
    assert_eq!(found.heading(read(100 + 86)), Some(Heading::Up));
    for stream in 2..=8 {
        assert_eq!(found.heading(read(stream * 100 + 6)), Some(Heading::Up), "it is still one among others");
    }
    assert_eq!(found.active(), 8);
    for turn in 0..10 {
        found.on_held_read(read(5000 + turn));
    }
    assert_eq!(found.heading(read(5010)), Some(Heading::Up), "one that begins in memory");
}
