//! Lengths of segments and heads: what `create` takes, from what, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};

use headstart_units::{KIB, MIB};
use serde_json::{Value, json};

use crate::loop_device::Loop;
use crate::volume::{TestVolume, failed, said};
use crate::{DISK_BYTES, FLASH_BYTES, contents};

/// Segment and head of a volume, and where they come from.
fn sizes(found: &Value) -> (u64, u64, &str) {
    let segments = &found["volume"]["segments"];
    let bytes = |key: &str| segments[key].as_u64().unwrap_or_else(|| panic!("no {key}: {found:#}"));
    (bytes("segment_bytes"), bytes("head_bytes"), segments["basis"]["origin"].as_str().unwrap())
}

#[test]
fn an_emulated_disk_s_lengths_are_its_model_s_and_are_shown_ever_after() {
    let volume = TestVolume::new(16 << 30, 64 << 20);
    let name = |profile: &str, path: &Path| PathBuf::from(format!("emulated:{profile}:{}", path.display()));
    let create = |disk: &str, policy: &str| {
        let (hdd, ssd) = (name(disk, &volume.disk), name("onyx", &volume.flash));
        let output = volume.run_on("create", &hdd, &ssd, &["--policy", policy]);
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for (disk, segment, head) in [("wd1602", 5 * MIB, MIB), ("nearline-24t", 9 * MIB + 9 * 256 * KIB, 9 * 256 * KIB)] {
        for policy in ["liu", "liu,itransformer", "auto"] {
            let text = create(disk, policy);
            assert!(text.contains("from the disk's model: four fifths of random reads within"), "{text}");
            let sizes_line = text.lines().find(|line| line.starts_with("sizes")).unwrap();
            for verb in ["check", "inspect"] {
                let (_, found) = volume.look(verb);
                assert_eq!(sizes(&found), (segment, head, "model"), "{disk}, {policy}");
                let basis = &found["volume"]["segments"]["basis"];
                for figure in ["positioning_p80_us", "positioning_mean_us", "disk_bytes_per_s", "flash_bytes_per_s"] {
                    assert!(basis[figure].as_u64().unwrap() > 0, "{figure}: {basis}");
                }
                assert!(said(&volume.run(verb, &[])).contains(sizes_line));
            }
        }
    }
    assert!(!create("wd1602", "itransformer").contains("sizes"));
    assert_eq!(volume.look("inspect").1["volume"]["segments"], Value::Null);
}

#[test]
fn a_file_s_lengths_are_the_paper_s_unless_they_are_given() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    let text = volume.succeed("create", &["--policy", "liu"]);
    assert!(text.contains("of 1MiB of each segment of 5MiB") && text.contains("the paper's"), "{text}");
    let (_, found) = volume.look("inspect");
    assert_eq!(sizes(&found), (5 * MIB, MIB, "paper"));
    assert_eq!(found["volume"]["segments"]["basis"]["positioning_p80_us"], json!(0));
    let text = volume.succeed("create", &["--policy", "auto", "--segment", "2MiB", "--head", "252KiB"]);
    assert!(text.contains("of 252KiB of each segment of 2MiB") && text.contains("as given"), "{text}");
    assert_eq!(sizes(&volume.look("inspect").1), (2 * MIB, 252 * KIB, "given"));
}

#[test]
fn lengths_that_make_no_sense_are_refused_and_nothing_is_written() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    let before = fs::read(&volume.flash).unwrap();
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--policy", "liu", "--head", "1MiB"], &["--segment"]),
        (&["--policy", "liu", "--segment", "5MiB"], &["--head"]),
        (&["--policy", "itransformer", "--segment", "5MiB", "--head", "1MiB"], &["has no segments", "auto"]),
        (&["--policy", "liu", "--segment", "5MiB", "--head", "1000"], &["--head 1000", "multiples of 4 KiB"]),
        (&["--policy", "liu", "--segment", "4MiB", "--head", "0"], &["at least 4KiB"]),
        (&["--policy", "liu", "--segment", "2MiB", "--head", "2MiB"], &["shorter than its segment of 2MiB"]),
        (&["--policy", "liu", "--segment", "8MiB", "--head", "4MiB"], &["--head 4MiB", "at most 4000KiB"]),
        (&["--policy", "liu", "--segment", "1GiB", "--head", "1MiB"], &["--segment 1GiB", "256MiB of memory"]),
        (&["--policy", "liu", "--segment", "16MiB", "--head", "1MiB"], &["--segment 16MiB", "has 8MiB"]),
        (
            &["--policy", "auto", "--ssd-size", "3MiB", "--segment", "5MiB", "--head", "1MiB"],
            &["3MiB of flash have no room for a head of 1MiB"],
        ),
    ];
    for (arguments, words) in cases {
        failed(&volume.run("create", arguments), 125, words);
    }
    assert!(fs::read(&volume.flash).unwrap() == before);
}

/// Whether a loop device answers as late as a disk depends on the machine: either is right, and neither writes.
#[test]
fn a_block_device_is_measured_and_not_written() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    fs::write(&volume.disk, contents()).unwrap();
    let device = match Loop::of(&volume.disk) {
        Ok(device) => device,
        Err(why) => return println!("SKIPPED: no loop device: {why}"),
    };
    let output = volume.run_on("create", device.path(), &volume.flash, &["--policy", "liu"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = volume.run_on("inspect", device.path(), &volume.flash, &["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    match sizes(&found) {
        (segment, head, "paper") => assert_eq!((segment, head), (5 * MIB, MIB)),
        (segment, head, "disk") => assert!(
            head % (256 * KIB) == 0 && head < segment && said(&output).contains("disk_bytes_per_s"),
            "{found:#}"
        ),
        other => panic!("{other:?}"),
    }
    assert!(fs::read(&volume.disk).unwrap() == contents());
}
