//! Whatever is wrong is said in words that name the file or device and what to do; Headstart's own failures
//! end with 125.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use site::{HEADSTART, TestSite, content, managed, role, said, text};

const TRUE: [&str; 3] = ["run", "--", "true"];

#[test]
fn a_missing_site_file_is_named_with_the_ways_to_get_one() {
    let site = TestSite::with_capacity("1MiB");
    fs::remove_file(&site.file).unwrap();
    for command in [&TRUE[..], &["drain"], &["status"], &["stop"], &["site", "check"], &["agent"]] {
        site.fail(125, command, &["no site file", text(&site.file), "testbed up", "site example"]);
    }
}

#[test]
fn a_malformed_site_file_is_named_with_its_line() {
    let site = TestSite::with_capacity("1MiB");
    fs::write(&site.file, "slow = \"/tmp\"\nfast = \n").unwrap();
    site.fail(125, &TRUE, &[text(&site.file), "line 2"]);
    fs::write(&site.file, "slow = \"/tmp\"\nfats = \"/tmp\"\n").unwrap();
    site.fail(125, &TRUE, &[text(&site.file), "fats"]);
    fs::write(&site.file, [0xff, 0xfe]).unwrap();
    site.fail(125, &TRUE, &[text(&site.file)]);
}

#[test]
fn what_never_ends_is_no_site_file_and_no_plan() {
    let site = TestSite::with_capacity("1MiB");
    site.fail(125, &["--site", "/dev/zero", "site", "check"], &["/dev/zero", "longer than"]);
    site.fail(125, &["place", "/dev/zero"], &["/dev/zero", "longer than"]);
}

#[test]
fn senseless_settings_of_a_site_are_named() {
    let site = TestSite::with_capacity("1MiB");
    let whole = fs::read_to_string(&site.file).unwrap();
    let fails = |changed: String, words: &[&str]| {
        fs::write(&site.file, changed).unwrap();
        site.fail(125, &["site", "check"], &[&[text(&site.file)], words].concat());
    };
    fails(format!("{whole}dirty_high = 0.2\ndirty_low = 0.5\n"), &["dirty_low", "0.5", "dirty_high", "0.2"]);
    fails(whole.replace(text(&site.slow), "slow"), &["slow is slow", "absolute"]);
    fails(String::new(), &["empty", "site example"]);
    // Nothing said of the lower: it follows.
    fs::write(&site.file, format!("{whole}dirty_high = 0.05\n")).unwrap();
    site.succeed(&["site", "check"]);
}

#[test]
fn what_prints_ends_with_its_reader() {
    let site = TestSite::with_capacity("1MiB");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = site.command(HEADSTART).args(["site", "example"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.signal(), Some(nix::sys::signal::Signal::SIGPIPE as i32));
    assert!(output.stderr.is_empty(), "{}", site.say(&output));
}

/// A command with a stream that has no room, or no reader.
fn with_lost(site: &TestSite, redirected: &str) -> std::process::Output {
    site.command("sh").args(["-c", redirected]).env("HEADSTART_PROGRAM", HEADSTART).output().unwrap()
}

#[test]
fn what_cannot_be_printed_ends_no_command_before_its_time() {
    let site = TestSite::with_capacity("1MiB");
    let mark = site.slow.join("mark");
    let run =
        format!("$HEADSTART_PROGRAM run --capacity 2MiB -- sh -c 'echo done > {}; exit 3' 2> /dev/full", text(&mark));
    assert_eq!(with_lost(&site, &run).status.code(), Some(3));
    assert_eq!(fs::read(&mark).unwrap(), b"done\n");
    let pipe = "($HEADSTART_PROGRAM capacity 3MiB; echo $? >&2) | true";
    assert_eq!(said(&with_lost(&site, pipe)).trim(), "0");
    let full = with_lost(&site, "$HEADSTART_PROGRAM capacity 4MiB > /dev/full");
    assert_eq!(full.status.code(), Some(125));
    assert!(said(&full).contains("cannot print: No space left"), "{}", said(&full));
    assert_eq!(site.figure("/capacity_bytes"), 4 << 20, "done all the same");
}

#[test]
fn the_example_is_a_site_file() {
    let site = TestSite::with_capacity("1MiB");
    let example = site.succeed(&["site", "example"]);
    let example = example.replace("/scratch/hdd", text(&site.slow)).replace("/scratch/ssd", text(&site.fast));
    fs::write(&site.file, example).unwrap();
    let said = site.succeed(&["site", "check"]);
    assert!(said.contains(text(&site.slow)) && said.contains("20%"), "{said}");
}

#[test]
fn missing_directories_are_named() {
    let site = TestSite::with_capacity("1MiB");
    fs::remove_dir(&site.slow).unwrap();
    for command in [&TRUE[..], &["site", "check"], &["drain"]] {
        site.fail(125, command, &["slow", text(&site.slow), "create the directory or mount"]);
    }
    fs::write(&site.slow, b"a file").unwrap();
    site.fail(125, &TRUE, &["slow", text(&site.slow), "not a directory"]);
    fs::remove_file(&site.slow).unwrap();
    fs::create_dir(&site.slow).unwrap();
    fs::remove_dir(&site.fast).unwrap();
    for command in [&["site", "check"][..], &["drain"], &["stop"]] {
        site.fail(125, command, &["fast", text(&site.fast), "create the directory or mount"]);
    }
}

#[test]
fn directories_inside_each_other_are_refused() {
    let mut site = TestSite::with_capacity("1MiB");
    site.fast = site.slow.join("fast");
    fs::create_dir(&site.fast).unwrap();
    site.write_site("1MiB");
    site.fail(125, &TRUE, &[text(&site.file), "inside each other"]);
    site.fast = site.slow.clone();
    site.write_site("1MiB");
    site.fail(125, &TRUE, &[text(&site.file), "inside each other"]);
}

#[test]
fn a_senseless_capacity_is_refused() {
    let site = TestSite::with_capacity("1MiB");
    for capacity in ["nonsense", "120%", "-1", "", "%"] {
        site.fail(125, &["run", "--capacity", capacity, "--", "true"], &["--capacity"]);
    }
    site.fail(125, &["run", "--capacity", "20", "--", "true"], &["--capacity", "20 bytes", "20%"]);
    site.write_site("lots");
    site.fail(125, &TRUE, &[text(&site.file), "capacity", "lots"]);
}

#[test]
fn a_missing_library_is_named() {
    let site = TestSite::with_capacity("1MiB");
    let mut command = site.command(HEADSTART);
    let output = command.env("HEADSTART_LIBRARY", "/no/such/library.so").args(TRUE).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("HEADSTART_LIBRARY") && said.contains("/no/such/library.so"), "{said}");
}

#[test]
fn a_missing_program_is_named() {
    let site = TestSite::with_capacity("1MiB");
    site.fail(125, &["run", "--", "/no/such/program"], &["/no/such/program", "No such file"]);
}

#[test]
fn site_check_says_what_is_wrong_with_capacity() {
    let site = TestSite::with_capacity("1MiB");
    let said = site.succeed(&["site", "check"]);
    for word in [text(&site.file), text(&site.slow), text(&site.fast), "1MiB", "writes", "not running"] {
        assert!(said.contains(word), "no '{word}' in {said}");
    }
    site.write_site("100000TiB");
    site.fail(125, &["site", "check"], &["capacity", text(&site.fast), "free"]);
}

/// A small file system of its own, gone at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn small(path: &Path, options: &str) -> Option<Mounted> {
        match mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options)) {
            Ok(()) => Some(Mounted(path.to_path_buf())),
            Err(error) => {
                println!("SKIPPED: mounting a tmpfs needs root ({error})");
                None
            }
        }
    }

    fn read_only(&self) {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(Some("tmpfs"), &self.0, Some("tmpfs"), flags, None::<&str>).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_fast_directory_costs_speed_but_no_byte() {
    let test = "a_full_fast_directory_costs_speed_but_no_byte";
    let length = 3 << 20;
    if role().is_some() {
        use std::os::unix::fs::FileExt;
        let path = managed().join("a");
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        for generation in 1..=3 {
            for offset in (0..length).step_by(8192) {
                file.write_all_at(&content(generation, offset, 8192), offset).unwrap();
            }
            file.sync_all().unwrap();
            for offset in (0..length).step_by(8192) {
                let mut found = vec![0; 8192];
                file.read_exact_at(&mut found, offset).unwrap();
                assert!(found == content(generation, offset, 8192), "wrong bytes at {offset}");
            }
        }
        return;
    }
    // The site promises more than there is: first a device too small, then one that is full to the last page.
    for filled in [false, true] {
        let site = TestSite::with_capacity("64MiB");
        let Some(_mounted) = Mounted::small(&site.fast, "size=1m") else { return };
        if filled {
            site.succeed(&["run", "--", "true"]); // the agent's own files find their place before
            let _ = fs::write(site.fast.join("filler"), vec![1; 2 << 20]);
        }
        site.played(&[], test, "program");
        let expected: Vec<u8> = (0..length).step_by(8192).flat_map(|offset| content(3, offset, 8192)).collect();
        assert!(fs::read(site.slow.join("a")).unwrap() == expected);
        assert!(site.figure("/requests/disk_write_no_space_requests_total") > 0, "{:#}", site.status());
        assert_eq!(site.figure("/dirty_bytes"), 0);
        site.succeed(&["stop"]);
    }
}

#[test]
fn an_unwritable_fast_directory_is_named() {
    let site = TestSite::with_capacity("1MiB");
    let Some(mounted) = Mounted::small(&site.fast, "size=1m") else { return };
    mounted.read_only();
    site.fail(125, &["drain"], &[text(&site.fast), "Read-only file system"]);
    site.fail(125, &["site", "check"], &["fast", text(&site.fast), "Read-only file system"]);
}

#[test]
fn an_unwritable_slow_directory_fails_the_check() {
    let site = TestSite::with_capacity("1MiB");
    let Some(mounted) = Mounted::small(&site.slow, "size=1m") else { return };
    mounted.read_only();
    site.fail(125, &["site", "check"], &["slow", text(&site.slow), "Read-only file system"]);
}

#[test]
fn a_full_slow_directory_keeps_dirty_bytes_and_says_what_to_do() {
    let test = "a_full_slow_directory_keeps_dirty_bytes_and_says_what_to_do";
    if role().is_some() {
        let file = fs::File::create(managed().join("a")).unwrap();
        file.set_len(200_000).unwrap();
        use std::os::unix::fs::FileExt;
        for offset in (0..200_000u64).step_by(4000) {
            file.write_all_at(&content(1, offset, 4000), offset).unwrap();
        }
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    let Some(_mounted) = Mounted::small(&site.slow, "size=1m") else { return };
    site.played(&["--keep-dirty"], test, "program");
    let _ = fs::write(site.slow.join("filler"), vec![1; 2 << 20]);
    site.fail(75, &["drain"], &[text(&site.slow.join("a")), "No space left", "make room", "headstart drain"]);
    site.fail(125, &["drain", text(&site.slow.join("a"))], &[text(&site.slow.join("a")), "No space left"]);
    // The program did its work, and says so; Headstart has not done all of its own.
    site.fail(75, &TRUE, &["No space left", "headstart drain"]);
    assert_eq!(site.figure("/dirty_bytes"), 200_000);
    fs::remove_file(site.slow.join("filler")).unwrap();
    site.succeed(&["drain"]);
    let expected: Vec<u8> = (0..200_000u64).step_by(4000).flat_map(|offset| content(1, offset, 4000)).collect();
    assert!(fs::read(site.slow.join("a")).unwrap() == expected);
    site.succeed(&["stop"]);
}

#[test]
fn a_damaged_or_lost_journal_is_named_and_nothing_is_deleted() {
    let test = "a_damaged_or_lost_journal_is_named_and_nothing_is_deleted";
    if role().is_some() {
        return fs::write(managed().join("a"), content(1, 0, 9000)).unwrap();
    }
    let site = TestSite::with_capacity("1MiB");
    site.played(&["--keep-dirty"], test, "program");
    site.succeed(&["stop", "--keep-dirty"]);
    let journal = site.fast.join(".headstart/journal");
    let whole = fs::read(&journal).unwrap();
    let mut damaged = whole.clone();
    damaged[25] ^= 1;
    for bytes in [damaged, b"something else".to_vec(), Vec::new()] {
        fs::write(&journal, bytes).unwrap();
        site.fail(125, &["drain"], &[text(&journal), "journal", "move it away"]);
    }
    fs::remove_file(&journal).unwrap();
    site.fail(125, &["drain"], &[text(&journal), "missing"]);
    fs::write(&journal, whole).unwrap();
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 9000));
}

#[test]
fn commands_of_headstart_lab_are_named_with_the_program_that_has_them() {
    let site = TestSite::with_capacity("1MiB");
    for arguments in [&["sim", "--help"][..], &["paper"], &["testbed", "up", "--slow", "/a"], &["sim", "a", "--", "-b"]]
    {
        site.fail(125, arguments, &[&format!("headstart-lab {}", arguments[0]), "make install-lab"]);
    }
    assert!(!site.succeed(&["--help"]).contains("headstart-lab"), "users are told what they need");
}
