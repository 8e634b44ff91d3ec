//! A thread that is stopped for ever at any step of a request that changes a file's size, or waits to: all others
//! come to their ends in bounded time, and all dirty bytes drain but those under a direct write of its own.

use super::*;
use crate::parts::leases::Direct;

/// What rank 0 is stopped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request0 {
    Shrinks,
    Lengthens,
    Rearranges,
    /// It writes past the end: to flash, or to the disk while no bit of the file is set, or where one is.
    Appends {
        absorbed: bool,
        is_off_flash: bool,
    },
}

const ALL: [Request0; 6] = [
    Request0::Shrinks,
    Request0::Lengthens,
    Request0::Rearranges,
    Request0::Appends { absorbed: true, is_off_flash: false },
    Request0::Appends { absorbed: false, is_off_flash: true },
    Request0::Appends { absorbed: false, is_off_flash: false },
];

/// Behind what there is, and behind what rank 0 writes.
const PAST: Range = Range { offset: GRANULE_BYTES, length: 4096 };
const BEHIND: Range = Range { offset: 3 * GRANULE_BYTES, length: 4096 };
/// What is on flash before.
const THERE: Range = Range { offset: 8192, length: 8192 };
/// Two of the time after which a commit is refused, in polls.
const BOUND: usize = 50;
/// Of the time after which who waits for dirty bytes is told an error.
const STUCK: usize = 550;
/// As many steps as a request takes, and more.
const STEPS: usize = 16;

impl Request0 {
    fn begin(self, w: &mut World) {
        match self {
            Request0::Shrinks => ranks::begin_other(w, 0, Kind::Truncate, 0, Range::new(10_000, u64::MAX)),
            Request0::Lengthens => ranks::begin_other(w, 0, Kind::Truncate, 0, Range::new(2 * GRANULE_BYTES, u64::MAX)),
            Request0::Rearranges => ranks::begin_other(w, 0, Kind::Rearrange, 0, Range::new(4096, u64::MAX)),
            Request0::Appends { absorbed, .. } => ranks::begin_write(w, 0, 0, PAST, absorbed),
        }
    }

    /// Rank 0 is stopped after so many steps; none if its request has ended by then.
    fn stopped_after(self, steps: usize) -> Option<World> {
        let mut w = world();
        w.whims.may_fail = true;
        if self == (Request0::Appends { absorbed: false, is_off_flash: true }) {
            write(&mut w, 2, THERE, false);
        } else {
            write(&mut w, 2, THERE, true);
        }
        self.begin(&mut w);
        for step in 0..steps {
            ranks::step(&mut w, 0, false);
            // What it waits for comes to pass, but for what it is stopped beside.
            if self == Request0::Rearranges || step >= STEPS / 2 {
                work(&mut w);
            }
        }
        w.ranks[0].is_busy().then_some(w)
    }
}

/// The runtime does what it has to, and time goes by.
fn work(w: &mut World) {
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0);
    }
    w.poll();
}

/// Rank 2 or 3 comes to an end within so many polls, rank 0 standing still.
fn ends(w: &mut World, rank: usize, polls: usize, what: &str) {
    for _ in 0..polls {
        (0..12).for_each(|_| ranks::step(w, rank, false));
        if !w.ranks[rank].is_busy() {
            return;
        }
        work(w);
    }
    panic!("{what}: {:?} {:#?}", w.ranks[rank], w.agents[0].overlay.pending);
}

fn direct_of_rank_0(w: &World) -> Option<Direct> {
    w.agents[0].overlay.leases.direct(w.ranks[0].slot as u32)
}

/// Whatever is dirty is under the direct write of rank 0.
fn drains(w: &mut World, what: &str) {
    w.agents[0].overlay.drain(true);
    (0..BOUND).for_each(|_| work(w));
    w.agents[0].overlay.drain(false);
    let held = direct_of_rank_0(w).map_or(Range::default(), |direct| direct.range);
    let map = &w.agents[0].overlay.files[&0].map;
    let left: Vec<Range> =
        map.iter().filter(|one| one.dirty && !one.range.overlaps(held)).map(|one| one.range).collect();
    assert!(left.is_empty(), "{what}: {left:?} do not drain");
}

/// What rank 2 or 3 does meanwhile.
fn others(w: &mut World, what: &str) {
    let everything = Range::new(0, u64::MAX);
    let turn = |w: &mut World, kind: Kind, range: Range, absorbed: bool, polls: usize| {
        for rank in [2, 3] {
            match kind {
                Kind::Write => ranks::begin_write(w, rank, 0, range, absorbed),
                _ => ranks::begin_other(w, rank, kind, 0, range),
            }
        }
        for rank in [2, 3] {
            ends(w, rank, polls, &format!("{what}: rank {rank} {kind:?} {range:?} {absorbed}"));
        }
    };
    for size in [12_288, 20_000, 4 * GRANULE_BYTES] {
        turn(w, Kind::Truncate, Range::new(size, u64::MAX), false, BOUND);
    }
    for absorbed in [true, false] {
        for range in [A, THERE, PAST, BEHIND, Range::new(5 * GRANULE_BYTES, 4096)] {
            turn(w, Kind::Write, range, absorbed, BOUND);
        }
    }
    turn(w, Kind::Read, everything, false, BOUND);
    turn(w, Kind::Fsync, everything, false, BOUND);
    turn(w, Kind::WriteBack, everything, false, STUCK);
    turn(w, Kind::Rearrange, Range::new(4096, u64::MAX), false, STUCK);
}

#[test]
fn who_is_stopped_for_ever_in_a_change_of_the_size_keeps_no_other_request_for_ever() {
    let mut states = 0;
    for stopped in ALL {
        for steps in 1..=STEPS {
            let mut begun = false;
            for (agent_dies, drains_first) in [(false, false), (true, false), (false, true), (true, true)] {
                let Some(mut w) = stopped.stopped_after(steps) else { continue };
                let what =
                    format!("{stopped:?} after {steps} steps, agent dies: {agent_dies}, drains first: {drains_first}");
                (begun, states) = (true, states + 1);
                if agent_dies {
                    w.kill_agent();
                    w.restart();
                }
                if drains_first {
                    drains(&mut w, &what);
                }
                others(&mut w, &what);
                drains(&mut w, &what);
                // It goes on after all, and spoils nothing.
                run(&mut w, 0);
                w.finish();
                no_violation(&w);
            }
            if !begun {
                break;
            }
        }
    }
    assert!(states >= 80, "{states} states were seen");
}
