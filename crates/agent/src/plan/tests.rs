//! Plan files come back as they were written, or are refused with the line that is wrong.

use super::*;

fn region(offset: u64, length: u64, gain_ns: i64, place: bool) -> PlanRegion {
    PlanRegion { range: Range::new(offset, length), gain_ns, reads: 3, writes: 4, bytes: 57_344, place }
}

fn example() -> Plan {
    Plan {
        capacity_bytes: 1 << 30,
        choice: Choice::Gain,
        prediction: Prediction {
            ranks: 16,
            requests: 24_000,
            flash_requests: 20_001,
            measured_s: Some(11.713),
            before_s: 11.713,
            after_s: 3.0 + 1e-9,
        },
        files: vec![
            PlanFile {
                path: "/scratch/a \"quoted\" \\ file".into(),
                inode: Some(u64::MAX),
                size_bytes: 10_000,
                regions: vec![region(0, 8192, 1_234_567_890_123, true), region(8192, 1808, -5, false)],
            },
            PlanFile { path: "/scratch/ümlaut\nline".into(), inode: None, size_bytes: 0, regions: vec![] },
        ],
    }
}

#[test]
fn a_plan_comes_back_from_its_own_text() {
    let random = Plan { choice: Choice::Random(u64::MAX), ..example() };
    let timeless = Prediction { measured_s: None, before_s: 1e-7, ..example().prediction };
    let largest = Plan { capacity_bytes: NUMBER_MAX, prediction: timeless, files: vec![], ..example() };
    let beside = Plan { choice: Choice::BesideS4d, ..example() };
    for plan in [example(), beside, random, largest] {
        let text = to_toml(&plan);
        assert_eq!(from_toml(&text).as_ref(), Ok(&plan), "{text}");
    }
}

#[test]
fn a_saved_plan_replaces_the_one_before_and_leaves_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.toml");
    save(&file, &Plan { files: vec![], ..example() }).unwrap();
    save(&file, &example()).unwrap();
    assert_eq!(load(&file).unwrap(), example());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let nowhere = directory.path().join("none/plan.toml");
    assert!(save(&nowhere, &example()).unwrap_err().to_string().contains("none/plan.toml"));
    assert!(load(&nowhere).unwrap_err().to_string().contains("cannot read the plan"));
}

/// What `from_toml` says of the example with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    let text = to_toml(&example());
    assert!(text.contains(from), "{from} is not in\n{text}");
    from_toml(&text.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let text = to_toml(&example());
    let line = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    let says = |from: &str, to: &str, words: &[&str]| {
        let message = refused(from, to);
        words.iter().for_each(|word| assert!(message.contains(word), "'{message}' does not say '{word}'"));
    };
    let second = format!("line {}:", line("offset = 8192"));
    says("offset = 8192,", "offset = 8191,", &[&second, "region at 8191 of /scratch/a", "overlaps the region at 0"]);
    says("length = 1808", "length = 1809", &[&second, "ends at 10001, beyond the file's 10000 bytes"]);
    says("length = 1808", "length = 0", &[&second, "no bytes"]);
    says("length = 1808", "length = 9223372036854775807", &[&second, "impossible"]);
    says("offset = 8192,", "offset = -1,", &["-1", &line("offset = 8192").to_string()]);
    says("gain_s = -0.000000005", "gain_s = nan", &[&second, "gain_s"]);
    says("gain_s = -0.000000005", "gain_s = 1e300", &[&second, "gain_s"]);
    says("after_s", "late_s", &["late_s", &line("after_s").to_string()]);
    says("after_s = 3", "after_s = -3", &["after_s is -3"]);
    says("inode = \"1", "inode = \"x1", &["inode is \"x1", &format!("line {}", line("[[file]]"))]);
    says("choice = \"gain\"", "choice = \"random\"", &["seed"]);
    says("choice = \"gain\"", "choice = \"gain\"\nseed = \"1\"", &["seed"]);
    says("size_bytes = 0", "size_bytes = \"many\"", &["size_bytes = \"many\""]);
}

#[test]
fn a_plan_of_another_version_or_none_is_refused() {
    assert!(refused("version = 1\n", "version = 2\nsomething = true\n").contains("version 2"));
    assert!(refused("version = 1\n", "").contains("no version"));
    assert!(from_toml("").unwrap_err().contains("no version"));
    assert!(from_toml("slow = \"/scratch/hdd\"").unwrap_err().contains("no version"));
}

#[test]
fn a_plan_cut_short_anywhere_is_refused() {
    let mut plan = example();
    plan.files[1].path = "/scratch/b".into();
    plan.files[1].regions = vec![region(0, 10, 1, true)];
    plan.files[1].size_bytes = 10;
    let text = to_toml(&plan);
    let whole = text.trim_end().len();
    for end in (0..whole).filter(|end| text.is_char_boundary(*end)) {
        assert!(from_toml(&text[..end]).is_err(), "{}", &text[..end]);
    }
    assert_eq!(from_toml(&text[..whole]), Ok(plan));
}
