//! Streams, windows and pages.

use super::*;

const PAGE: u64 = 100;

fn cache(cache_pages: u64) -> FileCache {
    FileCache::new(FileReadAhead {
        page_bytes: PAGE,
        window_pages: 4,
        contended_window_pages: 2,
        cache_bytes: cache_pages * PAGE,
        ..FileReadAhead::default()
    })
}

fn job(job: u32) -> Origin {
    Origin { job, ..Origin::default() }
}

/// Reads pages `first..stop`.
fn read(cache: &mut FileCache, owner: u32, origin: Origin, first: u64, stop: u64) -> (Lookup, Vec<Fetch>) {
    let mut fetches = Vec::new();
    let lookup = cache.on_read(owner, origin, first * PAGE, stop * PAGE, &mut fetches);
    (lookup, fetches)
}

fn filled(cache: &mut FileCache, page: u64, count: u64) -> Vec<u32> {
    let mut woken = Vec::new();
    cache.on_filled(Fetch { page, count }, &mut woken);
    woken
}

#[test]
fn the_second_read_in_order_starts_a_stream_and_a_window_stays_ahead() {
    let mut cache = cache(100);
    assert_eq!(read(&mut cache, 0, job(0), 10, 11), (Lookup::Alone, vec![]));
    let window = Fetch { page: 11, count: 4 };
    let next = Fetch { page: 15, count: 4 };
    assert_eq!(
        read(&mut cache, 1, job(0), 11, 12),
        (Lookup::Waits(1), vec![window, next]),
        "a window ahead of page 11"
    );
    assert_eq!(read(&mut cache, 2, job(0), 11, 13), (Lookup::Waits(2), vec![]));
    assert_eq!(filled(&mut cache, 11, 4), [1, 2, 2]);
    assert_eq!(read(&mut cache, 3, job(0), 12, 13), (Lookup::Hit, vec![]));
    assert_eq!(read(&mut cache, 4, job(0), 14, 16), (Lookup::Waits(1), vec![Fetch { page: 19, count: 4 }]));
}

#[test]
fn ranks_in_any_order_near_the_frontier_are_one_stream() {
    let mut cache = cache(100);
    read(&mut cache, 0, Origin { rank: 0, ..job(0) }, 50, 51);
    let (lookup, fetches) = read(&mut cache, 1, Origin { rank: 1, ..job(0) }, 48, 49);
    assert_eq!((lookup, fetches), (Lookup::Waits(1), vec![Fetch { page: 51, count: 4 }, Fetch { page: 48, count: 1 }]));
}

#[test]
fn ranks_in_regions_of_their_own_defeat_the_read_ahead() {
    let mut cache = cache(100);
    for round in 0..20 {
        for rank in 0..4 {
            let page = u64::from(rank) * 1000 + round;
            let (lookup, fetches) = read(&mut cache, rank, Origin { rank, ..job(0) }, page, page + 1);
            assert_eq!((lookup, fetches), (Lookup::Alone, vec![]));
        }
    }
    // Files of their own, on the other hand, are streams of their own.
    for round in 0..3 {
        for file in 1..4 {
            let page = u64::from(file) * 10_000 + round;
            let (lookup, _) = read(&mut cache, file, Origin { file, ..job(0) }, page, page + 1);
            assert_eq!(lookup == Lookup::Alone, round == 0, "file {file}, round {round}");
        }
    }
}

#[test]
fn windows_are_smaller_while_reads_of_other_jobs_wait_alone() {
    let mut cache = cache(100);
    read(&mut cache, 0, job(0), 0, 1);
    for count in 1..=2 {
        cache.on_alone(0, true);
        cache.on_alone(1, true);
        let window = if count == 1 { 4 } else { 2 };
        assert_eq!(cache.window(0), window, "{count} of another job, {count} of its own");
    }
    cache.on_alone(1, false);
    assert_eq!(cache.window(0), 4);
}

#[test]
fn what_a_read_alone_has_brought_is_kept_as_far_as_pages_are_whole() {
    let mut cache = cache(100);
    let mut fetches = Vec::new();
    cache.on_read(0, job(0), 150, 450, &mut fetches);
    cache.on_read_done(150, 450);
    assert_eq!(cache.held_bytes(), 2 * PAGE);
    assert_eq!(read(&mut cache, 1, job(1), 2, 4), (Lookup::Hit, vec![]), "whoever reads it");
    assert_eq!(read(&mut cache, 2, job(2), 1, 4), (Lookup::Alone, vec![]));
}

#[test]
fn no_more_is_kept_than_the_cache_holds_and_the_oldest_goes() {
    let mut cache = cache(8);
    for page in 0..200 {
        let (_, fetches) = read(&mut cache, 0, job(0), page, page + 1);
        for fetch in fetches {
            filled(&mut cache, fetch.page, fetch.count);
        }
        assert!(cache.held_bytes() <= 8 * PAGE);
        assert!(cache.pages.len() <= 8);
    }
    assert_eq!(read(&mut cache, 0, job(1), 0, 1).0, Lookup::Alone);
}

#[test]
fn streams_are_forgotten_before_they_are_too_many() {
    let mut cache = cache(8);
    for file in 0..2 * STREAMS_MAX as u32 {
        read(&mut cache, 0, Origin { file, ..job(0) }, u64::from(file) * 1000, u64::from(file) * 1000 + 1);
        assert!(cache.streams.len() <= STREAMS_MAX && cache.stream_order.len() <= STREAMS_MAX);
    }
}

#[test]
fn what_was_forgotten_is_fetched_anew() {
    let mut cache = cache(100);
    read(&mut cache, 0, job(0), 10, 11);
    read(&mut cache, 0, job(0), 11, 12);
    filled(&mut cache, 11, 4);
    assert_eq!(read(&mut cache, 0, job(0), 12, 13).0, Lookup::Hit);
    cache.empty();
    assert_eq!((cache.held_bytes(), read(&mut cache, 1, job(0), 12, 13).0), (0, Lookup::Alone));
    assert_eq!(filled(&mut cache, 15, 4), [], "what was in flight comes, and nobody waits for it");
}
