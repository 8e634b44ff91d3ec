//! What processes asked of a register and were told, and whether a register could have told them that.
//!
//! Versions put all values into one order. A history is linearizable if reads and swaps can be placed into it so that
//! what ended before something else began comes first, each swap that was done directly follows the version that it
//! expected, and no value is seen that was certainly not swapped in.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use headstart_membership::{Error, Register, Swap, Version, now_ns};
use headstart_units::chance::Random;
use serde::{Deserialize, Serialize};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// This version was there, with this value.
    Saw(u64, String),
    /// The swap made this version.
    Done(u64),
    /// Nobody knows, as after a kill.
    Unsure,
    /// An error that says that nothing was changed.
    Failed,
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// When, and for a swap the version expected and the value.
    Begin(u64, Option<(u64, String)>),
    Finish(u64, End),
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    begin: u64,
    finish: u64,
    swap: Option<(u64, String)>,
    end: End,
}

/// A file of one process's calls; each line is there before the next call begins, whatever kills the process.
pub struct Recorder(File);

impl Recorder {
    pub fn new(path: &Path) -> Recorder {
        Recorder(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    fn write(&mut self, line: &Line) {
        self.0.write_all(format!("{}\n", serde_json::to_string(line).unwrap()).as_bytes()).unwrap();
    }
}

/// Reads the calls of a recorder's file.
pub fn calls(path: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Begin(begin, swap)) => calls.push(Call { begin, finish: u64::MAX, swap, end: End::Unsure }),
            Ok(Line::Finish(finish, end)) => {
                let call = calls.last_mut().unwrap();
                (call.finish, call.end) = (finish, end);
            }
            // The last line of one who was killed.
            Err(_) => {}
        }
    }
    calls
}

/// How many calls ended, in a file that is being written.
pub fn ended(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().matches("Finish").count()
}

fn tag(bytes: &[u8]) -> String {
    String::from_utf8(bytes.iter().copied().take_while(|&byte| byte != b'|').collect()).unwrap()
}

/// Reads and swaps until it is told to end.
pub fn play(register: &mut dyn Register, name: &str, recorder: &mut Recorder, seed: u64, is_over: impl Fn() -> bool) {
    let mut random = Random(seed);
    let mut known = Version::NOTHING;
    for number in 0.. {
        if is_over() {
            return;
        }
        if random.chance(30) {
            recorder.write(&Line::Begin(now_ns(), None));
            let end = match register.read() {
                Ok(value) => {
                    known = value.version;
                    End::Saw(value.version.0, tag(&value.bytes))
                }
                Err(_) => End::Failed,
            };
            recorder.write(&Line::Finish(now_ns(), end));
            continue;
        }
        let value = format!("{name}.{number}");
        let padding = if random.chance(5) { 100 << 10 } else { random.below(4096) };
        let bytes = [format!("{value}|").as_bytes(), &vec![b'.'; padding as usize]].concat();
        recorder.write(&Line::Begin(now_ns(), Some((known.0, value))));
        let end = match register.swap(known, &bytes) {
            Ok(Swap::Done(value)) => {
                known = value.version;
                End::Done(known.0)
            }
            Ok(Swap::Lost(value)) => {
                known = value.version;
                End::Saw(known.0, tag(&value.bytes))
            }
            Err(Error::Unsure { .. }) => End::Unsure,
            Err(_) => End::Failed,
        };
        recorder.write(&Line::Finish(now_ns(), end));
    }
}

/// Why this is no history of a register, if it is none. `dense`: versions grow by one.
pub fn refute(calls: &[Call], dense: bool) -> Option<String> {
    let mut values: BTreeMap<u64, (String, u64)> = BTreeMap::from([(0, (String::new(), 0))]);
    let proposed: BTreeMap<&str, &Call> =
        calls.iter().filter_map(|call| Some((call.swap.as_ref()?.1.as_str(), call))).collect();
    for call in calls {
        let (version, value) = match (&call.end, &call.swap) {
            (End::Saw(version, value), _) => (*version, value),
            (End::Done(version), Some((_, value))) => (*version, value),
            _ => continue,
        };
        if matches!(&call.end, End::Saw(version, _) if call.swap.as_ref().is_some_and(|swap| swap.0 == *version)) {
            return Some(format!("{call:?} was lost to the very version that it expected"));
        }
        let (known, seen) = values.entry(version).or_insert_with(|| (value.clone(), u64::MAX));
        *seen = (*seen).min(call.finish);
        if known != value {
            return Some(format!("version {version} is both '{known}' and '{value}'"));
        }
    }
    for (&version, (value, seen)) in values.range(1..) {
        let Some(call) = proposed.get(value.as_str()) else { return Some(format!("nobody proposed '{value}'")) };
        let expected = call.swap.as_ref().expect("it proposed it").0;
        let is_possible = match call.end {
            End::Done(done) => done == version,
            End::Unsure => true,
            End::Saw(..) | End::Failed => false,
        };
        if !is_possible {
            return Some(format!("'{value}' is version {version}, but its swap ended as {:?}", call.end));
        }
        if call.begin > *seen {
            return Some(format!("'{value}' was seen before it was proposed"));
        }
        let before = *values.range(..version).next_back().expect("there is version 0").0;
        if expected > before && expected != version || before > expected || (dense && expected + 1 != version) {
            return Some(format!("'{value}' expected {expected} and became {version} after {before}"));
        }
    }
    let version_of = |call: &Call| match call.end {
        End::Saw(version, _) | End::Done(version) => Some(version),
        _ => None,
    };
    let mut by_end: Vec<(u64, u64)> = calls.iter().filter_map(|call| Some((call.finish, version_of(call)?))).collect();
    by_end.sort_unstable();
    let mut by_begin: Vec<&Call> = calls.iter().filter(|call| version_of(call).is_some()).collect();
    by_begin.sort_by_key(|call| call.begin);
    let (mut highest, mut ended) = (None, by_end.into_iter().peekable());
    for call in by_begin {
        while let Some((_, version)) = ended.next_if(|(finish, _)| *finish < call.begin) {
            highest = highest.max(Some(version));
        }
        let version = version_of(call);
        if version < highest || (matches!(call.end, End::Done(_)) && version == highest) {
            return Some(format!("{call:?} came after version {highest:?} was known"));
        }
    }
    None
}

fn call(begin: u64, finish: u64, swap: Option<(u64, &str)>, end: End) -> Call {
    Call { begin, finish, swap: swap.map(|(expected, value)| (expected, value.into())), end }
}

#[test]
fn histories_that_no_register_makes_are_refuted() {
    let saw = |version, value: &str| End::Saw(version, value.into());
    let first = call(1, 5, Some((0, "a")), End::Done(1));
    let sound = [first.clone(), call(2, 3, None, saw(0, "")), call(2, 9, Some((0, "b")), saw(1, "a"))];
    assert_eq!(refute(&sound, true), None);
    let killed = [call(1, u64::MAX, Some((0, "a")), End::Unsure), call(7, 8, None, saw(1, "a"))];
    assert_eq!(refute(&killed, true), None);
    for (what, calls) in [
        ("a lost update", vec![first.clone(), call(2, 9, Some((0, "b")), End::Done(1))]),
        (
            "an update that replaces one it did not expect",
            vec![first.clone(), call(6, 9, Some((0, "b")), End::Done(2))],
        ),
        ("an old read", vec![first.clone(), call(6, 9, None, saw(0, ""))]),
        (
            "reads that go back",
            vec![
                call(1, 20, Some((0, "a")), End::Done(1)),
                call(2, 3, None, saw(1, "a")),
                call(4, 5, None, saw(0, "")),
            ],
        ),
        (
            "a value that was refused",
            vec![first.clone(), call(1, 6, Some((0, "b")), saw(1, "a")), call(7, 8, None, saw(2, "b"))],
        ),
        ("a value that failed", vec![call(1, 2, Some((0, "a")), End::Failed), call(3, 4, None, saw(1, "a"))]),
        ("a swap that is lost to nobody", vec![call(1, 2, Some((0, "a")), saw(0, ""))]),
        ("a value of nobody", vec![call(3, 4, None, saw(1, "a"))]),
        ("a value before its proposal", vec![call(1, 2, None, saw(1, "a")), call(3, 4, Some((0, "a")), End::Done(1))]),
        ("a version that is done late", vec![first, call(6, 9, Some((1, "b")), End::Done(1))]),
    ] {
        assert!(refute(&calls, true).is_some(), "{what}");
    }
}
