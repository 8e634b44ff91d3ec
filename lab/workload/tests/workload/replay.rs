//! Traces as programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headstart_units::Nanos;
use headstart_units::request::{Access, Direction, Range};
use headstart_workload::{Program, Replay, Step, Survey};

use crate::observed::words;

fn access(rank: u32, file: u32, offset: u64, start: u64, end: u64) -> Access {
    let direction = if offset.is_multiple_of(2) { Direction::Read } else { Direction::Write };
    Access {
        file,
        rank,
        direction,
        range: Range::new(offset, 4),
        start: Nanos(start),
        end: Nanos(end),
        without_flash: true,
    }
}

fn replay(trace: Vec<Access>) -> impl Program {
    let mut survey = Survey::default();
    trace.iter().for_each(|access| survey.add(access));
    Replay::new(survey, move || trace.clone().into_iter())
}

#[test]
fn ranks_make_their_own_requests_and_compute_in_between() {
    let program = replay(vec![
        access(0, 0, 0, 100, 110),
        access(1, 1, 8, 105, 300),
        access(0, 0, 3, 150, 155),
        access(0, 1, 6, 155, 160),
        access(1, 0, 2, 290, 310),
    ]);
    assert_eq!((program.ranks(), program.file_bytes()), (2, vec![7, 12]));
    assert_eq!(words(&program, 0), "r0:0+4 think40 w0:3+4 r1:6+4");
    assert_eq!(
        words(&program, 1),
        "think5 r1:8+4 r0:2+4",
        "it begins late, and its second request began before its first had ended"
    );
}

#[test]
fn a_trace_without_times_is_made_without_a_pause() {
    let program = replay((0..6).map(|number| access(number % 2, 0, u64::from(number), 0, 0)).collect());
    assert_eq!(words(&program, 1), "w0:1+4 w0:3+4 w0:5+4");
    assert_eq!(words(&program, 0), "r0:0+4 r0:2+4 r0:4+4");
}

/// Ranks asked for by turns, one step each: each makes what it made, and the pauses add up to those of the trace.
#[test]
fn pauses_add_up_however_ranks_are_interleaved() {
    let ranks = 5u32;
    let trace: Vec<Access> = (0..50_000u64)
        .map(|number| {
            // Rank 4 has few requests, with long pauses.
            let rank = if number % 9_000 == 8_999 { 4 } else { (number % 13 % 4) as u32 };
            access(rank, 0, number, 10 * number, 10 * number + 5)
        })
        .collect();
    let program = replay(trace.clone());
    let mut steps: Vec<_> = (0..ranks).map(|rank| program.steps(rank)).collect();
    let mut made: Vec<Vec<Step>> = vec![Vec::new(); ranks as usize];
    let mut running: Vec<usize> = (0..ranks as usize).collect();
    while !running.is_empty() {
        running.retain(|rank| {
            let step = steps[*rank].next();
            made[*rank].extend(step.clone());
            step.is_some()
        });
    }
    for rank in 0..ranks {
        let own: Vec<&Access> = trace.iter().filter(|access| access.rank == rank).collect();
        let of_rank = &made[rank as usize];
        let ranges: Vec<Range> = of_rank
            .iter()
            .filter_map(|step| if let Step::Request { range, .. } = step { Some(*range) } else { None })
            .collect();
        assert!(ranges.iter().eq(own.iter().map(|access| &access.range)), "rank {rank}");
        let thought: u64 = of_rank.iter().map(|step| if let Step::Think(time) = step { time.0 } else { 0 }).sum();
        let pauses: u64 = own.windows(2).map(|pair| pair[1].start.0 - pair[0].end.0).sum();
        assert_eq!(thought, pauses + own[0].start.0, "rank {rank}");
    }
}

/// A trace that counts how far it was read.
fn counted(ranks: u32, requests: u64) -> (impl Program, Arc<AtomicUsize>) {
    let of = move |number: u64| {
        let rank = if number == 0 || number == requests - 1 { 0 } else { 1 + (number % u64::from(ranks - 1)) as u32 };
        access(rank, 0, number, 100 * number, 100 * number + 60)
    };
    let mut survey = Survey::default();
    (0..requests).for_each(|number| survey.add(&of(number)));
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let open = move || {
        let counter = counter.clone();
        (0..requests).map(move |number| {
            counter.fetch_add(1, Ordering::Relaxed);
            of(number)
        })
    };
    (Replay::new(survey, open), read)
}

/// Rank 0 makes the first request and the last. It does not read the trace to its end to find that out, nor
/// does a rank that is done.
#[test]
fn a_rank_that_pauses_or_is_done_reads_no_further_than_a_slice() {
    let (program, read) = counted(3, 1_000_000);
    let mut first = program.steps(0);
    assert!(matches!(first.next(), Some(Step::Request { .. })));
    let mut waited = 0;
    for _ in 0..10 {
        let Some(Step::Think(time)) = first.next() else { panic!("it computes") };
        waited += time.0;
        let read = read.load(Ordering::Relaxed) as u64;
        assert_eq!(waited + 60, 100 * (read - 1), "it has computed up to where the trace was read");
    }
    assert!(read.load(Ordering::Relaxed) <= 11 * 1024);
    let (program, read) = counted(3, 1_000_000);
    let own = program.steps(1).take(200).count();
    assert_eq!(own, 200);
    assert!(read.load(Ordering::Relaxed) < 1024);
}

#[test]
fn a_replay_may_be_run_again_and_a_rank_may_be_ahead_by_a_run() {
    let trace: Vec<Access> = (0..100).map(|number| access(number % 2, 0, u64::from(number), 0, 0)).collect();
    let program = replay(trace);
    let ahead = [words(&program, 0), words(&program, 0)];
    let behind = [words(&program, 1), words(&program, 1)];
    assert_eq!(ahead[0], ahead[1]);
    assert_eq!(behind[0], behind[1]);
    assert_eq!((ahead[0].split(' ').count(), behind[0].split(' ').count()), (50, 50));
}
