//! Texts from socket and disk: whatever they are, nothing panics. The checks are those of `fuzz/`; here they run on texts with a
//! few bytes changed, from a seed.
//!
//! `SEED=n` repeats one case; `CASES=n` runs n times as many.

#[path = "../../../core/tests/parsers/seeded.rs"]
mod seeded;
mod text;

use std::path::Path;

use headstart_agent::plan;
use headstart_agent::site::{CostModels, Site};
use headstart_agent::status::Status;
use headstart_core::cost::benefit::Parameters;
use headstart_core::plan::prediction::Prediction;
use headstart_core::plan::{Choice, Plan, PlanFile, PlanRegion};
use headstart_core::request::Range;

/// Changes `text` as `bytes` say: three of them for a change.
fn changed(text: &str, bytes: &[u8]) -> Vec<u8> {
    let tokens =
        ["-", "1e999", "nan", "\"", "{", "[[", "=", "18446744073709551616", "null", "\u{fffd}", "\n", "%", "0"];
    let mut changed = text.as_bytes().to_vec();
    for change in bytes.chunks_exact(3) {
        let at = (usize::from(change[0]) << 8 | usize::from(change[1])) % changed.len().max(1);
        let until = (at + usize::from(change[2] % 7)).min(changed.len());
        let token = tokens.get(usize::from(change[2]) % 20).copied().unwrap_or_default();
        changed.splice(at.min(until)..until, token.bytes());
    }
    changed
}

#[test]
fn a_changed_command_or_answer_is_one_or_none() {
    seeded::cases(20_000, 9, |bytes| {
        let commands = [
            r#"{"command":"status"}"#,
            r#"{"command":"drain","path":"/slow/a","over_changes":true}"#,
            r#"{"command":"configure","capacity":"20%"}"#,
        ];
        let status = serde_json::to_string(&Status::default()).unwrap();
        for text in commands.into_iter().chain([status.as_str(), r#"{"error":"no"}"#]) {
            text::control(&changed(text, bytes));
        }
        text::control(bytes);
    });
}

#[test]
fn a_command_nested_without_end_is_refused() {
    text::control("[".repeat(100_000).as_bytes());
    text::control(r#"{"command":"#.repeat(20_000).as_bytes());
    text::site("a=[".repeat(100_000).as_bytes());
    text::site(format!("a={}", "{a=".repeat(50_000)).as_bytes());
    text::plan("version=[".repeat(100_000).as_bytes());
}

#[test]
fn a_changed_plan_is_one_or_none() {
    seeded::cases(20_000, 12, |bytes| {
        let region = |offset, place| PlanRegion {
            range: Range::new(offset, 8192),
            gain_ns: -1_500_000_000,
            reads: 3,
            writes: 4,
            bytes: 5,
            place,
        };
        let regions = vec![region(0, true), region(8192, false)];
        let file = PlanFile { path: "/slow/a".into(), inode: Some(7), size_bytes: 20_000, regions };
        let prediction = Prediction { measured_s: Some(1.5), ..Prediction::default() };
        let plan = Plan { capacity_bytes: 8192, choice: Choice::Random(1), prediction, files: vec![file] };
        let text = plan::to_toml(&plan);
        text::plan(text.as_bytes());
        text::plan(&changed(&text, bytes));
        text::plan(bytes);
    });
}

#[test]
fn a_changed_site_file_is_one_or_none() {
    seeded::cases(5_000, 12, |bytes| {
        let parameters = Parameters::default();
        let site = Site {
            slow: Path::new("/slow").into(),
            fast: Path::new("/fast").into(),
            capacity: Some("1.5GiB".into()),
            include: vec!["results".into()],
            exclude: vec!["**/*.log".into()],
            s4d: CostModels { read: parameters.clone(), write: parameters },
            carl: None,
            software: None,
            agent: Some(Default::default()),
        };
        let text = format!("{}\ndirty_high = 0.5\ncopies_max = 8\njournal_bytes_max = 1048576\n", site.to_toml());
        text::site(text.as_bytes());
        text::site(&changed(&text, bytes));
    });
}
