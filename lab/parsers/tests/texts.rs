//! Texts from socket and disk: whatever they are, nothing panics. The checks are those of `lab/fuzz`; here
//! they run on texts with a few bytes changed, from a seed.
//!
//! `SEED=n` repeats one case; `CASES=n` runs n times as many.

use std::path::Path;

use headstart_agent::claim::{self, Owner};
use headstart_agent::dirty_list::{self, Entry, Heading, Listed};
use headstart_agent::error::Error;
use headstart_agent::site::{CostModels, Site};
use headstart_agent::status::Status;
use headstart_agent::{discarded, plan};
use headstart_insight::plan::Prediction;
use headstart_insight::plan::{Choice, Plan, PlanFile, PlanRegion};
use headstart_parsers::{membership, seeded, text};
use headstart_policy::cost::benefit::Parameters;
use headstart_units::request::Range;

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
fn a_changed_act_of_a_probe_leads_nowhere_else_or_is_none() {
    seeded::cases(20_000, 9, |bytes| {
        let name = "0123456789abcdef0123456789abcdef.1.name";
        let acts = [
            format!(r#"{{"tier":"Slow","name":"{name}","action":{{"Rename":"{name}"}}}}"#),
            format!(r#"{{"tier":"Fast","name":"{name}","action":{{"Write":[4096,[1,2,3]]}}}}"#),
            r#"{"Found":{"inode":5,"bytes":6}}"#.to_owned(),
        ];
        for text in acts {
            membership::act(&changed(&text, bytes));
        }
        membership::act(bytes);
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

fn owner() -> Owner {
    Owner { note: "do not \"remove\"".into(), node: "n1".into(), pid: 7, start_time: 1 << 40, ..Owner::default() }
}

fn listed() -> Listed {
    let entries = vec![
        Entry { path: "a/b".into(), inode: 7, dirty_bytes: 30, ranges: vec![(0, 10), (4096, 20)], ..Entry::default() },
        Entry { path: "\u{fffd}".into(), path_hex: Some("ff0a".into()), open_for_writing: true, ..Entry::default() },
    ];
    let heading =
        Heading { node: "n1".into(), fast: "/fast".into(), epoch: 3, dirty_bytes: 30, files: 2, ..Heading::default() };
    Listed { heading, entries }
}

#[test]
fn a_changed_claim_is_one_or_none() {
    seeded::cases(20_000, 9, |bytes| {
        let text = owner().to_text();
        assert_eq!(Owner::parse(&text), Ok(owner()));
        text::claim(&changed(&text, bytes));
        text::claim(bytes);
    });
}

#[test]
fn a_changed_list_of_dirty_files_names_bytes_and_paths_of_files_or_is_none() {
    seeded::cases(20_000, 9, |bytes| {
        let text = format!("# for people\n{}", listed().to_lines());
        assert_eq!(Listed::parse(&text), Ok(listed()));
        text::dirty_list(&changed(&text, bytes));
        text::dirty_list(bytes);
    });
}

#[test]
fn a_list_of_dirty_files_that_was_cut_short_or_counts_otherwise_is_none() {
    let text = listed().to_lines();
    for end in 0..text.trim_end().len() {
        let cut = String::from_utf8_lossy(&text.as_bytes()[..end]);
        assert!(Listed::parse(&cut).is_err(), "{cut}");
    }
    assert!(Listed::parse(&text.replacen("\"dirty_bytes\":30", "\"dirty_bytes\":31", 1)).is_err());
    assert!(Listed::parse(&format!("{text}{{}}\n")).is_err());
}

#[test]
fn a_changed_attribute_names_bytes_of_a_file_or_is_none() {
    seeded::cases(20_000, 9, |bytes| {
        let text = serde_json::to_string(&listed().entries[0]).unwrap();
        text::attribute(&changed(&text, bytes));
        text::attribute(bytes);
    });
}

#[test]
fn what_no_agent_writes_of_a_dirty_file_is_refused() {
    for text in [
        r#"{"ranges":[[18446744073709551615,1]]}"#,
        r#"{"ranges":[[9223372036854775807,1]]}"#,
        r#"{"dirty_bytes":18446744073709551615}"#,
        r#"{"path":"../a"}"#,
        r#"{"path":"a/../../b"}"#,
        r#"{"path":"a\u0000b"}"#,
        r#"{"path":"a","path_hex":"f"}"#,
        r#"{"path":"a","path_hex":"+f"}"#,
        r#"{"path":"a","path_hex":"2e2e2f61"}"#,
    ] {
        assert!(Entry::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Entry::parse(br#"{"path":"a..b/..c"}"#).is_ok());
}

#[test]
fn a_changed_file_of_origin_is_one_or_none() {
    seeded::cases(20_000, 9, |bytes| {
        let text = r#"{"slow":"/slow","inode":2,"birth_ns":1600000000000000000,"devices":[70,71]}"#;
        text::origin(&changed(text, bytes));
        text::origin(bytes);
    });
}

#[test]
fn a_changed_note_of_what_was_given_up_leaves_an_epoch_to_the_next_agent_or_is_none() {
    seeded::cases(20_000, 9, |bytes| {
        assert_eq!(discarded::parse(&discarded::to_text(7)), Ok(7));
        text::discarded(&changed(&discarded::to_text(7), bytes));
        text::discarded(bytes);
    });
}

#[test]
fn a_request_for_figures_is_understood_however_its_bytes_arrive() {
    seeded::cases(5_000, 9, |bytes| {
        for request in
            ["GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HEAD /metrics?x=1 HTTP/1.0\r\nA: b\r\n\r\nrest"]
        {
            text::metrics_request(&changed(request, bytes));
        }
        text::metrics_request(bytes);
    });
    text::metrics_request(format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000)).as_bytes());
    text::metrics_request(&[b'\r', b'\n'].repeat(4000));
}

/// What reads the files beside those of programs, by the name of each.
fn read_all(slow: &Path) -> [(&'static str, Option<Error>); 3] {
    [
        (".headstart-owner", claim::read(slow).err()),
        ("HEADSTART-DIRTY", dirty_list::read(slow).err()),
        (".headstart-discarded", discarded::epoch(slow).err()),
    ]
}

#[test]
fn a_damaged_file_in_the_slow_directory_is_named_and_an_endless_one_is_not_read() {
    let slow = tempfile::tempdir().unwrap();
    let names = read_all(slow.path()).map(|(name, error)| {
        assert!(error.is_none(), "where there is no {name} nothing is wrong: {error:?}");
        name
    });
    type Damage = fn(&Path);
    let damages: [Damage; 6] = [
        |path| std::fs::write(path, b"").unwrap(),
        |path| std::fs::write(path, b"\xff{}").unwrap(),
        |path| std::fs::write(path, "{".repeat(1000)).unwrap(),
        |path| std::fs::File::create(path).unwrap().set_len(1 << 41).unwrap(),
        |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
    ];
    for damage in damages {
        names.iter().for_each(|name| damage(&slow.path().join(name)));
        for (name, error) in read_all(slow.path()) {
            let message = error.unwrap_or_else(|| panic!("{name} is refused")).to_string();
            assert!(message.contains(slow.path().join(name).to_str().unwrap()), "{message}");
            std::fs::remove_file(slow.path().join(name)).unwrap();
        }
    }
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
            strangers: Some("wait".into()),
            s4d: CostModels { read: parameters.clone(), write: parameters },
            carl: None,
            software: None,
            agent: Some(Default::default()),
            cluster: Some(Default::default()),
        };
        let text = format!("{}\ndirty_high = 0.5\ncopies_max = 8\njournal_bytes_max = 1048576\n", site.to_toml());
        text::site(text.as_bytes());
        text::site(&changed(&text, bytes));
    });
}
