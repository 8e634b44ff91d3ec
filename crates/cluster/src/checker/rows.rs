//! The cases that are searched, and the variants that must be refuted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::explorer::explore;
use super::row::{Alone, Budget, Kind, Row, Slip};
use super::world::World;
use crate::rules::{Rule, drop_rule};

const fn ops(absorbs: u8, directs: u8, reads: u8, syncs: u8) -> Budget {
    Budget { absorbs, directs, reads, syncs, ..Budget::NONE }
}

/// Node 0, which is home of the first file, only reads.
const READER: fn(u8, Kind) -> bool = |node, kind| (node == 0) == (kind == Kind::Read);

/// Node 0 does not absorb, node 1 does not read.
const NO_ABSORB: fn(u8, Kind) -> bool =
    |node, kind| node == 0 && kind != Kind::Absorb || node == 1 && kind != Kind::Read;

/// Only node 1 reads.
const OTHER_READS: fn(u8, Kind) -> bool = |node, kind| (node == 1) == (kind == Kind::Read);

/// Node 0 writes, node 1 reads.
const WRITER: fn(u8, Kind) -> bool = |node, kind| (node == 1) == (kind == Kind::Read);

/// Node 1 does not read.
const ONE_READS: fn(u8, Kind) -> bool = |node, kind| node == 0 || kind != Kind::Read;

/// Node 0 absorbs, node 1 does all else.
const ABSORBER: fn(u8, Kind) -> bool = |node, kind| (node == 0) == (kind == Kind::Absorb);

/// Only the last of three reads.
const LAST_READS: fn(u8, Kind) -> bool = |node, kind| (node == 2) == (kind == Kind::Read);

/// Searched always.
const ROWS: &[Row] = &[
    Row::new("plain", 2, ops(1, 1, 2, 0)),
    Row::new("absorbs", 2, ops(2, 1, 1, 0)),
    Row::new("directs", 2, ops(1, 2, 1, 0)),
    Row { may: NO_ABSORB, ..Row::new("named", 2, ops(1, 2, 2, 0)) },
    Row { blocks: 2, ..Row::new("blocks", 2, ops(2, 0, 2, 0)) },
    Row { files: 2, ..Row::new("files", 2, ops(1, 1, 1, 0)) },
    Row::new("three", 3, ops(1, 1, 1, 0)),
    Row::new("back", 2, Budget { backs: 1, ..ops(1, 1, 1, 0) }),
    Row::new("backread", 2, Budget { backs: 1, ..ops(1, 1, 2, 0) }),
    Row::new("backs", 2, Budget { backs: 1, ..ops(2, 0, 1, 1) }),
    Row::new("lossy", 2, Budget { losses: 1, ..ops(1, 1, 1, 0) }),
    Row::new("double", 2, Budget { doubles: 1, ..ops(1, 1, 1, 0) }),
    Row { may: ONE_READS, ..Row::new("doubled", 2, Budget { doubles: 1, ..ops(3, 0, 1, 0) }) },
    Row::new("agent", 2, Budget { agents: 1, ..ops(1, 0, 1, 0) }),
    Row { may: READER, ..Row::new("agentread", 2, Budget { agents: 1, ..ops(1, 0, 2, 0) }) },
    Row::new("node", 2, Budget { nodes: 1, ..ops(1, 0, 1, 1) }),
    Row::new("nodes", 2, Budget { nodes: 1, ..ops(2, 0, 1, 1) }),
    Row::new("expel", 2, Budget { expels: 1, ..ops(2, 0, 1, 0) }),
    Row { may: READER, ..Row::new("expelread", 2, Budget { expels: 1, ..ops(1, 0, 2, 0) }) },
    Row { slow_looks: true, ..Row::new("expellook", 2, Budget { expels: 1, ..ops(1, 0, 1, 0) }) },
    Row { may: OTHER_READS, ..Row::new("expelcopy", 2, Budget { expels: 1, backs: 1, ..ops(1, 0, 2, 0) }) },
    Row::new("threeagent", 3, Budget { agents: 1, ..ops(1, 0, 1, 0) }),
    Row::new("threenode", 3, Budget { nodes: 1, ..ops(1, 0, 1, 0) }),
    Row { alone: Alone::Keeps, ..Row::new("alone", 2, ops(1, 1, 2, 0)) },
    Row { alone: Alone::Keeps, may: NO_ABSORB, ..Row::new("alonenamed", 2, ops(1, 2, 2, 0)) },
    Row { alone: Alone::Keeps, ..Row::new("alonelossy", 2, Budget { losses: 1, ..ops(1, 1, 1, 0) }) },
    Row { alone: Alone::Keeps, ..Row::new("aloneagent", 2, Budget { agents: 1, ..ops(1, 0, 1, 0) }) },
    Row { alone: Alone::Keeps, ..Row::new("alonenode", 2, Budget { nodes: 1, ..ops(1, 0, 1, 1) }) },
    Row { alone: Alone::Keeps, ..Row::new("aloneexpel", 2, Budget { expels: 1, ..ops(1, 0, 1, 0) }) },
    Row { alone: Alone::Keeps, joins: true, ..Row::new("alonejoin", 2, ops(1, 1, 1, 0)) },
    Row { alone: Alone::Leaves, ..Row::new("leaves", 2, Budget { owns: 1, ..ops(1, 0, 1, 0) }) },
    Row { alone: Alone::Leaves, may: WRITER, ..Row::new("leavesdirect", 2, Budget { owns: 1, ..ops(1, 1, 2, 0) }) },
    Row { alone: Alone::Leaves, ..Row::new("leavesagent", 2, Budget { agents: 1, owns: 1, ..ops(1, 0, 0, 0) }) },
    Row { alone: Alone::Leaves, joins: true, ..Row::new("leavesjoin", 2, Budget { owns: 1, ..ops(1, 1, 1, 0) }) },
    Row { may: ABSORBER, blocks: 2, places: 2, ..Row::new("forgetread", 2, Budget { barriers: 1, ..ops(3, 0, 1, 0) }) },
    Row { may: ABSORBER, ..Row::new("forget", 2, Budget { barriers: 2, ..ops(1, 1, 1, 0) }) },
    Row { prompt: true, may: ABSORBER, ..Row::new("release", 2, Budget { releases: 1, backs: 1, ..ops(2, 0, 2, 0) }) },
    Row { lengthens: true, ..Row::new("lengthen", 2, ops(1, 1, 2, 0)) },
    Row { lengthens: true, ..Row::new("lengthens", 2, Budget { backs: 1, ..ops(2, 0, 1, 0) }) },
    Row { lengthens: true, ..Row::new("lengthenagent", 2, Budget { agents: 1, ..ops(1, 1, 1, 0) }) },
    Row { joins: true, ..Row::new("join", 2, ops(1, 1, 2, 0)) },
    Row { joins: true, ..Row::new("joinagent", 2, Budget { agents: 1, ..ops(1, 0, 1, 0) }) },
    Row { joins: true, may: OTHER_READS, ..Row::new("cold", 2, Budget { nodes: 1, ..ops(1, 0, 1, 1) }) },
    Row { newcomers: 1, may: OTHER_READS, ..Row::new("takeover", 2, Budget { nodes: 1, ..ops(1, 0, 1, 1) }) },
    Row {
        newcomers: 1,
        alone: Alone::Keeps,
        unarmed: true,
        may: |node, kind| (node == 1) == (kind == Kind::Direct),
        victims: (1, 1),
        ..Row::new("aloneover", 2, Budget { nodes: 1, expels: 1, ..ops(1, 1, 1, 0) })
    },
    Row::new("depart", 2, Budget { departures: 1, ..ops(2, 0, 1, 0) }),
    Row {
        prompt: true,
        may: |node, kind| (node == 0) == matches!(kind, Kind::Absorb | Kind::Sync),
        ..Row::new("dismiss", 2, Budget { nodes: 1, backs: 1, dismissals: 1, ..ops(1, 0, 2, 1) })
    },
    Row {
        may: |node, kind| (node == 1) == matches!(kind, Kind::Direct | Kind::Sync),
        ..Row::new("dismissdrop", 2, Budget { nodes: 1, dismissals: 1, ..ops(1, 1, 1, 1) })
    },
];

/// Searched by `make soak`.
const LONG: &[Row] = &[
    Row { may: ONE_READS, ..Row::new("doubleback", 2, Budget { doubles: 1, backs: 1, ..ops(2, 1, 1, 0) }) },
    Row::new("agentdirect", 2, Budget { agents: 1, ..ops(1, 1, 1, 0) }),
    Row { may: ONE_READS, ..Row::new("agenttold", 2, Budget { agents: 1, ..ops(1, 1, 2, 0) }) },
    Row { may: ONE_READS, ..Row::new("agents", 2, Budget { agents: 2, ..ops(2, 0, 2, 0) }) },
    Row::new("agentback", 2, Budget { agents: 1, backs: 1, ..ops(1, 1, 1, 0) }),
    Row::new("nodedirect", 2, Budget { nodes: 1, ..ops(1, 1, 1, 1) }),
    Row {
        may: |node, kind| node == 0 || kind == Kind::Direct,
        ..Row::new("nodehidden", 2, Budget { nodes: 1, ..ops(1, 2, 1, 0) })
    },
    Row::new("nodeback", 2, Budget { nodes: 1, backs: 1, ..ops(1, 0, 2, 1) }),
    Row::new("expeldirect", 2, Budget { expels: 1, ..ops(1, 1, 1, 0) }),
    Row {
        may: |node, kind| node == 0 && kind != Kind::Sync || node == 1 && kind != Kind::Read,
        ..Row::new("expelsync", 2, Budget { expels: 1, ..ops(2, 0, 1, 1) })
    },
    Row {
        may: |node, kind| kind == Kind::Absorb || (node == 0) == (kind == Kind::Read),
        victims: (1, 2),
        ..Row::new("expelcut", 2, Budget { expels: 1, agents: 1, ..ops(2, 0, 2, 1) })
    },
    Row::new("expelback", 2, Budget { expels: 1, backs: 1, ..ops(1, 1, 1, 0) }),
    Row::new("threeexpel", 3, Budget { expels: 1, ..ops(1, 0, 1, 0) }),
    Row { may: ONE_READS, ..Row::new("forgetagent", 2, Budget { barriers: 2, agents: 1, ..ops(2, 0, 1, 0) }) },
    Row {
        prompt: true,
        may: |_, kind| kind == Kind::Absorb,
        ..Row::new("forgetdouble", 2, Budget { doubles: 1, ..ops(3, 0, 0, 0) })
    },
    Row {
        may: |node, kind| node == 0 || kind == Kind::Direct,
        ..Row::new("releasehidden", 2, Budget { nodes: 1, releases: 1, ..ops(1, 2, 1, 0) })
    },
    Row {
        lengthens: true,
        may: |node, kind| node == 0 || kind == Kind::Absorb,
        victims: (1, 0),
        ..Row::new("lengthenclaim", 2, Budget { agents: 1, ..ops(2, 1, 1, 0) })
    },
    Row { joins: true, may: LAST_READS, ..Row::new("coldtwo", 3, Budget { nodes: 2, ..ops(1, 0, 1, 1) }) },
    Row {
        newcomers: 2,
        may: |node, kind| node > 0 && (node == 2) == (kind == Kind::Read),
        victims: (1, 0),
        ..Row::new("newcomers", 3, Budget { nodes: 1, ..ops(1, 0, 1, 1) })
    },
    Row { joins: true, ..Row::new("threejoin", 3, ops(1, 1, 1, 0)) },
    Row { alone: Alone::Keeps, ..Row::new("alones", 2, ops(2, 1, 1, 0)) },
    Row {
        alone: Alone::Leaves,
        joins: true,
        may: |node, kind| kind == Kind::Absorb || (node == 0) == (kind == Kind::Sync),
        victims: (1, 0),
        ..Row::new("leavesnode", 2, Budget { nodes: 1, owns: 1, ..ops(1, 1, 1, 1) })
    },
    Row {
        alone: Alone::Leaves,
        may: WRITER,
        ..Row::new("leavesexpel", 2, Budget { expels: 1, owns: 1, ..ops(1, 0, 1, 0) })
    },
];

/// Rules of the machines, each with a row that does not hold without it.
const RULES: &[(Rule, &str)] = &[
    (Rule::OldView, "agent"),
    (Rule::NoIds, "doubled"),
    (Rule::NoCallIn, "absorbs"),
    (Rule::GrantOvertaken, "blocks"),
    (Rule::HoldsOvertaken, "plain"),
    (Rule::CommitTwice, "agenttold"),
    (Rule::ListLogs, "node"),
    (Rule::DeclareAll, "agent"),
    (Rule::KeepBelow, "nodes"),
    (Rule::AbsentUndurable, "nodehidden"),
    (Rule::ClaimNoBits, "plain"),
    (Rule::NoWriters, "named"),
    (Rule::CommitInDirect, "named"),
    (Rule::GoneEarly, "expel"),
    (Rule::RenewedAtEnd, "expellook"),
    (Rule::NoIntent, "expelcopy"),
    (Rule::BarrierLate, "expelcopy"),
    (Rule::NoQuarantine, "expelback"),
    (Rule::CopiedOld, "backs"),
    (Rule::DirectInCopy, "back"),
    (Rule::CopyTwice, "doubleback"),
    (Rule::NoAdoption, "agentread"),
    (Rule::NotMine, "threeagent"),
    (Rule::AloneServes, "alone"),
    (Rule::AloneEarly, "alone"),
    (Rule::AloneWriters, "alonenamed"),
    (Rule::DirectInLengthen, "lengthen"),
    (Rule::LengthInClaim, "lengthenclaim"),
    (Rule::DropKept, "forget"),
    (Rule::ReadFreed, "forgetread"),
    (Rule::ReadOvertaken, "forgetread"),
    (Rule::OrderedAgain, "forgetdouble"),
    (Rule::AnsweredKept, "forgetagent"),
    (Rule::ReleaseUndurable, "releasehidden"),
    (Rule::ReleaseHeld, "release"),
    (Rule::DismissNamed, "dismiss"),
    (Rule::DismissDrop, "dismissdrop"),
];

/// Searched by `make soak`.
const LONG_RULES: &[(Rule, &str)] = &[(Rule::ShowEarly, "agents"), (Rule::ToldBefore, "agents")];

/// What lies around them.
const SLIPS: &[(Slip, &str)] = &[
    (Slip::NoDeadline, "expelread"),
    (Slip::NoAlive, "node"),
    (Slip::NoAliveDisk, "nodedirect"),
    (Slip::NoSlowSync, "nodedirect"),
    (Slip::NoDataSync, "node"),
    (Slip::NoGeneration, "plain"),
    (Slip::NoGenerationFlash, "forgetread"),
    (Slip::CopiesForgotten, "agentback"),
    (Slip::QuietEarly, "expelback"),
    (Slip::LengthenLate, "lengthenagent"),
    (Slip::LeaveUndurable, "leavesnode"),
    (Slip::LeaveInDirect, "leavesdirect"),
    (Slip::LeftUnarmed, "aloneover"),
    (Slip::NotSwapped, "newcomers"),
];

/// What is to be searched: the row, and what should come of it.
struct Search {
    row: Row,
    holds: bool,
}

/// Searches until nothing is left to do; what did not come out as it should.
fn search(all: &[Search]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let one = || {
        while let Some(Search { row, holds }) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            drop_rule(row.dropped);
            let report = explore(World::new(Box::leak(Box::new(*row))));
            let left_out = row.dropped.map(|rule| format!(" without {rule:?}"));
            let left_out = left_out.or(row.slip.map(|slip| format!(" with {slip:?}"))).unwrap_or_default();
            let steps = report.broken.as_ref().map(|(broken, steps)| format!(", {broken} after {} steps", steps.len()));
            println!("{}{left_out}: {} states{}", row.name, report.states, steps.unwrap_or_default());
            if report.broken.is_none() != *holds {
                let (broken, steps) = report.broken.unwrap_or_default();
                let text = format!("{}{left_out}: {broken}\n    {}", row.name, steps.join("\n    "));
                wrong.lock().expect("no search panics").push(text);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(one);
        }
    });
    wrong.into_inner().expect("no search panics")
}

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(LONG)
}

/// With `ROW=name` one row alone; with `DEEP=1` the long ones too.
#[test]
fn every_row_holds() {
    let one = std::env::var("ROW").ok();
    let deep = std::env::var("DEEP").is_ok();
    let wanted = |row: &&Row| {
        let named = |one: &String| one.split(',').any(|one| one == row.name);
        one.as_ref().map_or(deep || ROWS.iter().any(|short| short.name == row.name), named)
    };
    let all: Vec<Search> = rows().filter(wanted).map(|row| Search { row: *row, holds: true }).collect();
    assert!(!all.is_empty(), "no row has that name");
    let wrong = search(&all);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With `ROW=name` those of one row alone; with `DEEP=1` the long ones too.
#[test]
fn every_rule_is_missed_where_it_is_left_out() {
    let row = |name: &str| *rows().find(|row| row.name == name).expect("there is such a row");
    let deep = std::env::var("DEEP").is_ok();
    let long = if deep { LONG_RULES } else { &[] };
    let rules = RULES.iter().chain(long).map(|(rule, name)| Row { dropped: Some(*rule), ..row(name) });
    let slips = SLIPS.iter().map(|(slip, name)| Row { slip: Some(*slip), ..row(name) });
    let one = std::env::var("ROW").ok();
    let named = |one: &String, row: &Row| one.split(',').any(|one| one == row.name);
    let wanted = |row: &Row| one.as_ref().is_none_or(|one| named(one, row));
    let all: Vec<Search> = rules.chain(slips).filter(wanted).map(|row| Search { row, holds: false }).collect();
    let wrong = search(&all);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
