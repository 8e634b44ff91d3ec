//! Plans from traces of other tools, of which some files are none of the site's.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::site::{HEADSTART, TestSite};
use crate::{MIB, iolog, make, plan, reads};

#[test]
fn a_log_of_fio_has_no_durations_and_is_predicted_by_the_model_alone() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let log = iolog(&site, &[reads(&a, 0, 10), reads(&a, 3 * MIB, 90)].concat());
    let made = plan(&site, &log, &["--region", "1MiB"]);
    assert_eq!(made.placed("/a"), [3 * MIB]);
    assert_eq!((&made.figures["measured_s"], &made.figures["ranks"]), (&serde_json::Value::Null, &1.into()));
    assert!(made.figures["after_s"].as_f64().unwrap() < made.figures["before_s"].as_f64().unwrap());
}

#[test]
fn a_text_of_darshan_is_planned_from_by_the_layer_that_is_asked_for() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let mut text = String::from("# darshan log version: 3.41\n# start_time: 1587455133\n");
    for (module, offset) in [("POSIX", MIB), ("MPIIO", 2 * MIB)] {
        for rank in 0..2 {
            text.push_str(&format!(
                "\n# DXT, file_id: 1, file_name: {}\n# DXT, rank: {rank}, hostname: n1\n# DXT, write_count: 0, read_count: 50\n",
                a.display()
            ));
            for k in 0..50 {
                let (start, end) = (f64::from(k) * 0.01, f64::from(k) * 0.01 + 0.008);
                text.push_str(&format!(" X_{module} {rank} read {k} {offset} 4096 {start:.4} {end:.4}\n"));
            }
        }
    }
    let path = site.path("dxt");
    fs::write(&path, text).unwrap();
    let posix = plan(&site, &path, &["--region", "1MiB"]);
    assert_eq!((posix.placed("/a"), &posix.figures["ranks"]), (vec![MIB], &2.into()));
    assert!((posix.figures["measured_s"].as_f64().unwrap() - 0.498).abs() < 1e-9);
    posix.says("100 requests of the other layer are left out");
    assert_eq!(plan(&site, &path, &["--region", "1MiB", "--layer", "mpiio"]).placed("/a"), [2 * MIB]);
}

#[test]
fn files_elsewhere_excluded_or_not_regular_are_left_out_with_a_line_each() {
    let site = TestSite::with_capacity("1MiB");
    fs::create_dir(site.slow.join("logs")).unwrap();
    let (a, log) = (make(&site, "a", 4 * MIB), make(&site, "logs/b", 4 * MIB));
    let text = fs::read_to_string(&site.file).unwrap();
    fs::write(&site.file, format!("exclude = [\"logs\"]\n{text}")).unwrap();
    let elsewhere = site.path("plain").join("c");
    let lines = [reads(&a, 0, 5), reads(&log, 0, 50), reads(&elsewhere, 0, 50), reads(&site.slow, 0, 50)].concat();
    let made = plan(&site, &iolog(&site, &lines), &["--region", "1MiB"]);
    assert_eq!((made.plan.files.len(), made.placed("/a")), (1, vec![0]));
    assert_eq!(made.figures["requests"], 5);
    made.says(&format!("1 files do not lie below {}: left out", site.slow.display()));
    made.says("1 files are excluded by the site's patterns: left out");
    made.says("1 files are no regular files: left out");
    // By a path with a symbolic link a file is still the site's.
    let link = site.path("link");
    std::os::unix::fs::symlink(&site.slow, &link).unwrap();
    let made = plan(&site, &iolog(&site, &reads(&link.join("a"), 0, 5)), &["--region", "1MiB"]);
    assert_eq!(made.file("/a").path, a.to_str().unwrap());
}

#[test]
fn a_name_that_is_no_utf_8_is_left_out_and_named() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let strange = site.slow.join(OsStr::from_bytes(b"caf\xe9"));
    fs::write(&strange, b"x").unwrap();
    let log = site.path("iolog");
    let line = |path: &std::path::Path| [b"1 ", path.as_os_str().as_bytes(), b" read 0 4096\n"].concat();
    fs::write(&log, [&b"fio version 3 iolog\n"[..], &line(&a), &line(&strange)].concat()).unwrap();
    let made = plan(&site, &log, &["--region", "1MiB"]);
    assert_eq!((made.plan.files.len(), &made.figures["requests"]), (1, &1.into()));
    made.says(r"caf\xE9");
    made.says("left out");
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 64 * MIB);
    let log = site.path("iolog");
    // 144 MB of requests, in an address space that has no room for a third of them beside the program.
    let mut text = String::from("fio version 3 iolog\n");
    (0..3_000_000u64)
        .for_each(|k| text.push_str(&format!("{k} {} read {} 4096\n", a.display(), k * 7919 % 16384 * 4096)));
    fs::write(&log, text).unwrap();
    let mut command = site.command("/bin/sh");
    command.args(["-c", "ulimit -v 90000; exec \"$@\"", "sh", HEADSTART, "plan"]).arg(&log);
    let output = command.args(["--region", "1MiB", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"requests\":3000000"), "{}", site.say(&output));
}

#[test]
fn beside_s4d_what_is_written_once_is_left_to_it_and_what_is_written_again_is_not() {
    let site = TestSite::with_capacity("2MiB");
    let a = make(&site, "a", 4 * MIB);
    let write = |offset: u64| format!("0 {} write {offset} 4096", a.display());
    let once = (0..MIB / 4096).map(|block| write(block * 4096));
    let again = (0..300).map(|round| write(3 * MIB + round % 3 * 65536));
    let log = iolog(&site, &once.chain(again).collect::<Vec<_>>());
    assert_eq!(plan(&site, &log, &["--region", "1MiB"]).placed("/a"), [0, 3 * MIB]);
    assert_eq!(plan(&site, &log, &["--region", "1MiB", "--choice", "beside-s4d"]).placed("/a"), [3 * MIB]);
    let log = iolog(&site, &(0..MIB / 4096).map(|block| write(block * 4096)).collect::<Vec<_>>());
    let made = plan(&site, &log, &["--region", "1MiB", "--choice", "beside-s4d"]);
    assert!(made.placed("/a").is_empty());
    made.says("no region would gain beside S4D, which absorbs what is written once");
}
