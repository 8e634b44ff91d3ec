//! A program's steps, reduced to what a test looks at.

use std::collections::BTreeMap;

use headstart_units::request::{Direction, Range};
use headstart_workload::{Description, Program, Step};

/// The program that a text describes.
pub fn program(text: &str) -> Box<dyn Program> {
    let description: Description = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    description.program().unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

/// What is wrong with a description.
pub fn problem(text: &str) -> String {
    match toml::from_str::<Description>(text) {
        Ok(description) => description.check().expect_err(text).to_string(),
        Err(error) => error.message().to_string(),
    }
}

/// What a rank asks for, one entry a call.
pub fn calls(program: &dyn Program, rank: u32) -> Vec<(u32, Direction, Vec<Range>)> {
    let call = |step| match step {
        Step::Request { file, direction, range } => Some((file, direction, vec![range])),
        Step::List { file, direction, ranges } => Some((file, direction, ranges)),
        _ => None,
    };
    program.steps(rank).filter_map(call).collect()
}

/// Offset and length of every range that a rank reads or writes.
pub fn ranges(program: &dyn Program, rank: u32, direction: Direction) -> Vec<(u64, u64)> {
    let calls = calls(program, rank).into_iter().filter(|call| call.1 == direction);
    calls.flat_map(|call| call.2).map(|range| (range.offset, range.length)).collect()
}

/// The bytes of each file that all ranks together read or write, as ranges that do not touch; and how many
/// they were, counted as often as they are asked for.
pub fn covered(program: &dyn Program, direction: Direction) -> (BTreeMap<u32, Vec<Range>>, u64) {
    let mut all: Vec<(u32, Range)> = Vec::new();
    for rank in 0..program.ranks() {
        for (file, of, ranges) in calls(program, rank) {
            all.extend(ranges.into_iter().filter(|_| of == direction).map(|range| (file, range)));
        }
    }
    all.sort();
    let bytes = all.iter().map(|(_, range)| range.length).sum();
    let mut files: BTreeMap<u32, Vec<Range>> = BTreeMap::new();
    for (file, range) in all {
        let joined = files.entry(file).or_default();
        match joined.last_mut() {
            Some(last) if last.end() >= range.offset => {
                *last = Range::between(last.offset, last.end().max(range.end()))
            }
            _ => joined.push(range),
        }
    }
    (files, bytes)
}

/// Steps in a word each, for a look at the structure.
pub fn words(program: &dyn Program, rank: u32) -> String {
    let word = |step| match step {
        Step::Open { file, writable } => format!("open{file}{}", if writable { "w" } else { "r" }),
        Step::Request { file, direction, range } => {
            format!("{}{file}:{}+{}", if direction == Direction::Write { "w" } else { "r" }, range.offset, range.length)
        }
        Step::List { file, ranges, .. } => format!("list{file}:{}", ranges.len()),
        Step::Sync { file } => format!("sync{file}"),
        Step::Close { file } => format!("close{file}"),
        Step::Barrier => "|".to_string(),
        Step::Think(time) => format!("think{}", time.0),
        Step::Mark(mark) => format!("mark{mark}"),
    };
    program.steps(rank).map(word).collect::<Vec<_>>().join(" ")
}
