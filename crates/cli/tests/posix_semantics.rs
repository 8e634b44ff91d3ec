//! What a program sees of its files under Headstart is what it would see of the slow directory alone.
//!
//! A test plays its own program: it starts itself again under `headstart run`, as a role. All writes are absorbed.

#[path = "support/files.rs"]
mod files;
#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use files::{open, read_at};
use site::{TestSite, content, data_files, managed, role, wait_for};

/// Plays `program` under Headstart, then compares the slow files with `expected` and makes sure that flash took part.
fn behaves(test: &str, program: impl FnOnce(&Path), expected: &[(&str, Vec<u8>)]) {
    if role().is_some() {
        return program(&managed());
    }
    let site = TestSite::with_capacity("8MiB");
    site.played(&[], test, "program");
    assert!(site.figure("/agent/absorbed_requests_total") > 0, "nothing was absorbed: {:#}", site.status());
    assert_eq!(site.figure("/dirty_bytes"), 0);
    for (name, bytes) in expected {
        assert!(fs::read(site.slow.join(name)).unwrap() == *bytes, "{name} has wrong bytes on the slow directory");
    }
}

#[test]
fn stat_knows_the_size_of_absorbed_bytes_before_the_close() {
    behaves(
        "stat_knows_the_size_of_absorbed_bytes_before_the_close",
        |slow| {
            let path = slow.join("a");
            let mut file = open(&path);
            for k in 1..=20u64 {
                file.write_all_at(&content(1, k * 1000, 1000), (k - 1) * 1000).unwrap();
                assert_eq!(fs::metadata(&path).unwrap().len(), k * 1000);
                assert_eq!(file.metadata().unwrap().len(), k * 1000);
            }
            assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 20_000);
        },
        &[("a", (1..=20u64).flat_map(|k| content(1, k * 1000, 1000)).collect())],
    );
}

#[test]
fn appends_land_behind_absorbed_bytes() {
    let parts = [content(1, 0, 5000), content(2, 0, 300), content(3, 0, 7000), content(4, 0, 1)];
    let whole = parts.concat();
    behaves(
        "appends_land_behind_absorbed_bytes",
        |slow| {
            let file = open(&slow.join("a"));
            let mut log = OpenOptions::new().append(true).open(slow.join("a")).unwrap();
            file.write_all_at(&parts[0], 0).unwrap();
            log.write_all(&parts[1]).unwrap();
            file.write_all_at(&parts[2], 5300).unwrap();
            log.write_all(&parts[3]).unwrap();
            assert_eq!(read_at(&file, 0, 20_000), whole);
        },
        &[("a", parts.concat())],
    );
}

#[test]
fn what_a_truncation_cut_off_reads_as_zeros_when_the_file_grows_again() {
    let mut bytes = content(1, 0, 100_000);
    bytes.truncate(12_345);
    bytes.resize(90_000, 0);
    let expected = bytes.clone();
    behaves(
        "what_a_truncation_cut_off_reads_as_zeros_when_the_file_grows_again",
        |slow| {
            let file = open(&slow.join("a"));
            file.write_all_at(&content(1, 0, 100_000), 0).unwrap();
            file.set_len(12_345).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 12_345);
            assert_eq!(read_at(&file, 12_000, 1000).len(), 345);
            file.set_len(90_000).unwrap();
            assert!(read_at(&file, 0, 100_000) == bytes);
        },
        &[("a", expected)],
    );
}

#[test]
fn opening_with_truncation_leaves_nothing_of_the_old_bytes() {
    let mut expected = vec![0; 40_000];
    expected.extend(content(2, 0, 500));
    behaves(
        "opening_with_truncation_leaves_nothing_of_the_old_bytes",
        |slow| {
            let old = open(&slow.join("a"));
            old.write_all_at(&content(1, 0, 100_000), 0).unwrap();
            let new = OpenOptions::new().read(true).write(true).truncate(true).open(slow.join("a")).unwrap();
            assert_eq!((old.metadata().unwrap().len(), read_at(&old, 0, 10)), (0, Vec::<u8>::new()));
            new.write_all_at(&content(2, 0, 500), 40_000).unwrap();
            assert_eq!(read_at(&old, 0, 40_000), vec![0; 40_000]);
            drop((old, new));
            fs::write(slow.join("b"), content(3, 0, 9000)).unwrap();
            fs::write(slow.join("b"), content(4, 0, 10)).unwrap();
        },
        &[("a", expected), ("b", content(4, 0, 10))],
    );
}

#[test]
fn an_unlinked_file_is_usable_until_it_is_closed_and_its_name_is_free_at_once() {
    behaves(
        "an_unlinked_file_is_usable_until_it_is_closed_and_its_name_is_free_at_once",
        |slow| {
            let path = slow.join("a");
            let old = open(&path);
            old.write_all_at(&content(1, 0, 9000), 0).unwrap();
            fs::remove_file(&path).unwrap();
            assert!(!path.exists());
            old.write_all_at(&content(2, 0, 3000), 8000).unwrap();
            let new = open(&path);
            assert_eq!(read_at(&new, 0, 10), Vec::<u8>::new(), "the new file is empty");
            new.write_all_at(&content(3, 0, 100), 0).unwrap();
            assert_eq!(read_at(&old, 0, 8000), content(1, 0, 9000)[..8000]);
            assert_eq!(read_at(&old, 8000, 9000), content(2, 0, 3000));
        },
        &[("a", content(3, 0, 100))],
    );
}

#[test]
fn a_renamed_file_keeps_its_absorbed_bytes_and_what_it_replaced_is_gone() {
    behaves(
        "a_renamed_file_keeps_its_absorbed_bytes_and_what_it_replaced_is_gone",
        |slow| {
            fs::write(slow.join("old"), content(1, 0, 50_000)).unwrap();
            let file = open(&slow.join("new"));
            file.write_all_at(&content(2, 0, 30_000), 0).unwrap();
            fs::rename(slow.join("new"), slow.join("old")).unwrap();
            assert_eq!(fs::read(slow.join("old")).unwrap(), content(2, 0, 30_000));
            drop(file);
            let again = open(&slow.join("old"));
            again.write_all_at(b"mark", 100).unwrap();
            fs::create_dir(slow.join("d")).unwrap();
            fs::rename(slow.join("old"), slow.join("d/moved")).unwrap();
            fs::rename(slow.join("d"), slow.join("e")).unwrap();
            assert_eq!(read_at(&open(&slow.join("e/moved")), 100, 4), b"mark");
        },
        &[("e/moved", [&content(2, 0, 30_000)[..100], b"mark", &content(2, 0, 30_000)[104..]].concat())],
    );
}

#[test]
fn a_sparse_file_reads_zeros_in_its_holes_and_ends_where_it_ends() {
    let far = 5 << 30;
    behaves(
        "a_sparse_file_reads_zeros_in_its_holes_and_ends_where_it_ends",
        |slow| {
            let file = open(&slow.join("a"));
            file.write_all_at(&content(1, 0, 100), far).unwrap();
            file.write_all_at(&content(2, 0, 100), 1 << 20).unwrap();
            assert_eq!(read_at(&file, far - 5000, 5000), vec![0; 5000]);
            assert_eq!(read_at(&file, far - 50, 1000), [vec![0; 50], content(1, 0, 100)].concat());
            assert_eq!(read_at(&file, far + 100, 10), Vec::<u8>::new());
            assert_eq!(read_at(&file, far + 1000, 10), Vec::<u8>::new());
            assert_eq!(read_at(&file, (1 << 20) - 10, 120), [vec![0; 10], content(2, 0, 100), vec![0; 10]].concat());
            assert_eq!(file.metadata().unwrap().len(), far + 100);
            // Within what a comparison of whole files can bear.
            file.set_len((1 << 20) + 100).unwrap();
        },
        &[("a", [vec![0; 1 << 20], content(2, 0, 100)].concat())],
    );
}

#[test]
fn duplicates_and_children_share_the_offset_and_see_each_others_bytes() {
    let test = "duplicates_and_children_share_the_offset_and_see_each_others_bytes";
    let (first, second) = (content(1, 0, 6000), content(2, 0, 6000));
    let third = content(3, 0, 6000);
    let expected = [first.clone(), second.clone(), third.clone()].concat();
    behaves(
        test,
        |slow| {
            let mut file = open(&slow.join("a"));
            file.write_all(&first).unwrap();
            let mut duplicate = file.try_clone().unwrap();
            duplicate.write_all(&second).unwrap();
            // SAFETY: the child only writes and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let written = file.write_all(&third).is_ok();
                // SAFETY: ends the child without running what is the parent's.
                unsafe { libc::_exit(i32::from(!written)) };
            }
            let mut status = -1;
            // SAFETY: the pointer is to a variable that lives across the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
            assert_eq!(file.stream_position().unwrap(), 18_000);
            drop(file);
            duplicate.seek(SeekFrom::Start(0)).unwrap();
            let mut bytes = Vec::new();
            duplicate.read_to_end(&mut bytes).unwrap();
            assert!(bytes == [first.clone(), second.clone(), third.clone()].concat());
        },
        &[("a", expected)],
    );
}

#[test]
fn an_fsync_makes_everything_absorbed_durable() {
    let test = "an_fsync_makes_everything_absorbed_durable";
    behaves(
        test,
        |slow| {
            let file = open(&slow.join("a"));
            for k in 0..10u64 {
                file.write_all_at(&content(k, 0, 4000), k * 5000).unwrap();
                file.sync_all().unwrap();
                file.sync_data().unwrap();
            }
        },
        &[],
    );
}

/// Lines on standard input ask, lines on standard output answer: `w OFFSET GENERATION`, `r OFFSET GENERATION`.
fn echo(slow: &Path) {
    let file = open(&slow.join("shared"));
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (operation, offset) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let generation = words.next().unwrap().parse().unwrap();
        match operation {
            "w" => file.write_all_at(&content(generation, offset, 3000), offset).unwrap(),
            _ => assert_eq!(read_at(&file, offset, 3000), content(generation, offset, 3000), "{line}"),
        }
        println!("@ok");
    }
}

#[test]
fn two_processes_that_take_turns_always_see_the_newest_bytes() {
    let test = "two_processes_that_take_turns_always_see_the_newest_bytes";
    match role().as_deref() {
        Some("other") => return echo(&managed()),
        Some(_) => {}
        None => {
            // So little flash that write-back and eviction run all the time.
            let site = TestSite::with_capacity("256KiB");
            site.played(&[], test, "program");
            assert!(site.figure("/agent/absorbed_requests_total") > 0);
            assert!(site.figure("/agent/evicted_extents_total") > 0, "{:#}", site.status());
            return;
        }
    }
    let file = open(&managed().join("shared"));
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("HEADSTART_TEST_ROLE", "other")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut asked = other.stdin.take().unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(other.stdout.take().unwrap()));
    let mut ask = |operation: &str, offset: u64, generation: u64| {
        writeln!(asked, "{operation} {offset} {generation}").unwrap();
        answers.find(|line| line.as_ref().unwrap().ends_with("@ok")).expect("the other process lives").unwrap();
    };
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    eprintln!("SEED={seed}");
    let mut state = seed;
    for generation in 1..600 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let offset = (state >> 33) % 200 * 3000;
        if state >> 32 & 1 == 0 {
            file.write_all_at(&content(generation, offset, 3000), offset).unwrap();
            ask("r", offset, generation);
        } else {
            ask("w", offset, generation);
            assert_eq!(read_at(&file, offset, 3000), content(generation, offset, 3000));
        }
    }
    drop(asked);
    assert!(other.wait().unwrap().success());
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn the_time_of_last_write_is_that_of_the_absorbed_write_not_of_the_write_back() {
    let test = "the_time_of_last_write_is_that_of_the_absorbed_write_not_of_the_write_back";
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    if role().is_some() {
        let path = managed().join("a");
        let before = SystemTime::now() - Duration::from_millis(20); // the kernel's clock for files has ticks
        let file = open(&path);
        assert_eq!(modified(&path), long_ago);
        file.write_all_at(&content(1, 0, 3000), 0).unwrap();
        let absorbed = modified(&path);
        assert!(absorbed >= before && absorbed <= SystemTime::now(), "it moves forward before the close");
        assert!(file.metadata().unwrap().modified().unwrap() == absorbed);
        drop(file);
        assert_eq!(modified(&path), absorbed, "and stays after it");
        return;
    }
    let site = TestSite::with_capacity("8MiB");
    let path = site.slow.join("a");
    fs::write(&path, vec![0; 3000]).unwrap();
    open(&path).set_modified(long_ago).unwrap();
    site.played(&["--keep-dirty"], test, "program");
    assert!(site.figure("/dirty_bytes") > 0);
    assert_eq!(fs::read(&path).unwrap(), vec![0; 3000], "not written back yet");
    let absorbed = modified(&path);
    assert!(absorbed > long_ago);
    site.succeed(&["drain"]);
    assert_eq!(fs::read(&path).unwrap(), content(1, 0, 3000));
    assert_eq!(modified(&path), absorbed, "write-back does not move it");
    // Nor is what write-back did taken for a foreign change.
    site.succeed(&["run", "--", "cat", path.to_str().unwrap()]);
    assert!(site.figure("/mapped_bytes") > 0, "clean bytes are still on flash: {:#}", site.status());
}

/// Writes file `a` and leaves it clean on flash.
fn clean_on_flash(test: &str) -> TestSite {
    let site = TestSite::with_capacity("8MiB");
    site.played(&[], test, "write");
    assert!(site.figure("/mapped_bytes") > 0);
    assert_eq!(site.figure("/dirty_bytes"), 0);
    site
}

fn write_or_read(expected: &[u8]) {
    let path = managed().join("a");
    match role().unwrap().as_str() {
        "write" => fs::write(path, content(1, 0, 50_000)).unwrap(),
        _ => assert!(fs::read(path).unwrap() == expected, "old bytes were read"),
    }
}

#[test]
fn a_foreign_change_between_runs_drops_clean_bytes() {
    let test = "a_foreign_change_between_runs_drops_clean_bytes";
    if role().is_some() {
        return write_or_read(&content(2, 0, 50_000));
    }
    let site = clean_on_flash(test);
    fs::write(site.path("new"), content(2, 0, 50_000)).unwrap();
    assert!(Command::new("cp").arg(site.path("new")).arg(site.slow.join("a")).status().unwrap().success());
    site.played(&[], test, "read");
}

#[test]
fn a_foreign_change_while_no_agent_runs_drops_clean_bytes_and_keeps_its_size() {
    let test = "a_foreign_change_while_no_agent_runs_drops_clean_bytes_and_keeps_its_size";
    if role().is_some() {
        return write_or_read(&content(2, 0, 30_000));
    }
    for crash in [false, true] {
        let site = clean_on_flash(test);
        match crash {
            true => site.kill_agent(),
            false => drop(site.succeed(&["stop"])),
        }
        fs::write(site.path("new"), content(2, 0, 30_000)).unwrap();
        assert!(Command::new("cp").arg(site.path("new")).arg(site.slow.join("a")).status().unwrap().success());
        site.played(&[], test, "read");
        assert_eq!(fs::metadata(site.slow.join("a")).unwrap().len(), 30_000);
    }
}

#[test]
fn clean_bytes_of_an_unchanged_file_are_still_there_for_the_next_agent() {
    let test = "clean_bytes_of_an_unchanged_file_are_still_there_for_the_next_agent";
    if role().is_some() {
        return write_or_read(&content(1, 0, 50_000));
    }
    let site = clean_on_flash(test);
    site.succeed(&["stop"]);
    site.played(&[], test, "read");
    assert!(site.figure("/requests/flash_read_bytes_total") >= 50_000, "{:#}", site.status());
}

#[test]
fn a_file_removed_and_made_anew_between_runs_has_its_own_bytes() {
    let test = "a_file_removed_and_made_anew_between_runs_has_its_own_bytes";
    if role().is_some() {
        return write_or_read(&content(2, 0, 20_000));
    }
    let site = clean_on_flash(test);
    fs::remove_file(site.slow.join("a")).unwrap();
    fs::write(site.slow.join("a"), content(2, 0, 20_000)).unwrap();
    site.played(&[], test, "read");
}

#[test]
fn dirty_bytes_under_a_foreign_change_make_the_open_fail_and_nothing_is_overwritten() {
    let test = "dirty_bytes_under_a_foreign_change_make_the_open_fail_and_nothing_is_overwritten";
    if role().is_some() {
        match role().unwrap().as_str() {
            "write" => fs::write(managed().join("a"), content(1, 0, 50_000)).unwrap(),
            _ => {
                let error = File::open(managed().join("a")).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
            }
        }
        return;
    }
    for stopped in [false, true] {
        let site = TestSite::with_capacity("8MiB");
        site.played(&["--keep-dirty"], test, "write");
        if stopped {
            site.succeed(&["stop", "--keep-dirty"]);
        }
        fs::write(site.slow.join("a"), content(2, 0, 50)).unwrap();
        for (options, status) in [(&["--keep-dirty"][..], 0), (&[], 75)] {
            let output = site.play(options, test, "read").output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{}", site.say(&output));
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("changed by another program") && text.contains("headstart drain"), "{text}");
            assert!(fs::read(site.slow.join("a")).unwrap() == content(2, 0, 50));
        }
        // Nothing is overwritten until somebody says so.
        let path = site.slow.join("a");
        let path = path.to_str().unwrap();
        site.fail(75, &["drain"], &[path, "headstart drain FILE"]);
        assert!(fs::read(path).unwrap() == content(2, 0, 50));
        site.succeed(&["drain", if stopped { "--over-changes" } else { path }]);
        assert!(fs::read(path).unwrap() == content(1, 0, 50_000));
    }
}

#[test]
fn two_thousand_small_files_created_and_deleted_leave_nothing_behind() {
    let test = "two_thousand_small_files_created_and_deleted_leave_nothing_behind";
    if role().is_some() {
        let slow = managed();
        for k in 0..2000u64 {
            let path = slow.join(format!("f{k}"));
            fs::write(&path, content(k, 0, 700)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content(k, 0, 700));
            if k % 2 == 0 {
                fs::remove_file(&path).unwrap();
            }
        }
        for k in (1..2000).step_by(2) {
            fs::remove_file(slow.join(format!("f{k}"))).unwrap();
        }
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&[], test, "program");
    assert!(site.figure("/agent/absorbed_requests_total") >= 1000, "{:#}", site.status());
    site.succeed(&["drain"]);
    let status = site.status();
    assert_eq!((site.figure("/mapped_bytes"), site.figure("/files_known")), (0, 0), "{status:#}");
    assert_eq!(data_files(&site.fast), Vec::<std::path::PathBuf>::new());
    let agent = site.agent().unwrap();
    let descriptors = fs::read_dir(format!("/proc/{agent}/fd")).unwrap().count();
    assert!(descriptors < 50, "{descriptors} descriptors are open");
}

#[test]
fn files_removed_by_a_stranger_give_their_flash_back() {
    let test = "files_removed_by_a_stranger_give_their_flash_back";
    if role().is_some() {
        match role().unwrap().as_str() {
            "write" => (0..10).for_each(|k| fs::write(managed().join(format!("f{k}")), content(k, 0, 9000)).unwrap()),
            _ => fs::write(managed().join("other"), b"x").unwrap(),
        }
        return;
    }
    for dirty in [false, true] {
        let site = TestSite::with_capacity("8MiB");
        site.played(if dirty { &["--keep-dirty"] } else { &[] }, test, "write");
        let mapped = site.figure("/mapped_bytes");
        assert!(mapped >= 90_000);
        (0..10).for_each(|k| fs::remove_file(site.slow.join(format!("f{k}"))).unwrap());
        // At most once a second the agent looks.
        std::thread::sleep(Duration::from_millis(1100));
        site.played(&[], test, "other");
        site.succeed(&["drain"]);
        assert!(site.figure("/mapped_bytes") <= 4096, "{:#}", site.status());
        assert!(site.flash_bytes() <= 4096 + 65536, "{} bytes of flash are still in use", site.flash_bytes());
    }
}

#[test]
fn the_inode_of_a_managed_file_is_that_of_the_slow_file() {
    behaves(
        "the_inode_of_a_managed_file_is_that_of_the_slow_file",
        |slow| {
            let file = open(&slow.join("a"));
            file.write_all_at(b"x", 0).unwrap();
            let (by_name, by_descriptor) = (fs::metadata(slow.join("a")).unwrap(), file.metadata().unwrap());
            assert_eq!((by_name.dev(), by_name.ino()), (by_descriptor.dev(), by_descriptor.ino()));
        },
        &[("a", b"x".to_vec())],
    );
}

#[test]
fn a_time_set_by_a_link_from_elsewhere_is_no_foreign_change_and_one_of_the_last_read_sets_none_of_the_last_change() {
    let site = TestSite::with_capacity("8MiB");
    let (path, link) = (site.slow.join("a"), site.path("link"));
    fs::write(&path, vec![0; 8192]).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (name, link) = (path.to_str().unwrap(), link.to_str().unwrap());
    let write = format!("head -c 8192 /dev/zero | tr '\\0' x | dd of={name} bs=4096 conv=notrunc status=none");
    site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", &format!("touch -d @1000000000 {name}; {write}")]);
    site.succeed(&["run", "--keep-dirty", "--", "touch", "-a", name]);
    let since = |path: &Path| modified(path).duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    site.succeed(&["drain"]);
    assert!(since(&path) > 1_700_000_000, "the bytes were written after it: {}", since(&path));
    site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", &write]);
    site.succeed(&["run", "--", "touch", "-d", "@1000000001", link]);
    assert_eq!(since(&path), 1_000_000_001);
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 8192]);
}

#[test]
fn a_time_that_a_program_sets_is_no_foreign_change_and_outlasts_the_write_back() {
    let site = TestSite::with_capacity("8MiB");
    let path = site.slow.join("a");
    fs::write(&path, vec![0; 8192]).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let name = path.to_str().unwrap();
    let write = format!("head -c 8192 /dev/zero | tr '\\0' x | dd of={name} bs=4096 conv=notrunc status=none");
    let set = format!("touch -d @1000000000 {name}");
    let read = format!("test $(tr -d x < {name} | wc -c) = 0");
    for script in [write, set, read] {
        site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", &script]);
    }
    site.succeed(&[
        "run",
        "--",
        "sh",
        "-c",
        &format!(
            "head -c 4096 /dev/zero | dd of={name} bs=4096 conv=notrunc status=none && touch -d @1000000000 {name}"
        ),
    ]);
    assert_eq!(modified(&path), long_ago);
    assert_eq!(fs::read(&path).unwrap(), [vec![0; 4096], vec![b'x'; 4096]].concat());
}

/// Calls that set times.
const SETTERS: [&str; 7] =
    ["futimens", "futimes", "utimensat", "utimensat of a descriptor", "utimes", "lutimes", "utime"];

/// Sets times of `file`, which lies at `path`, by one of [`SETTERS`]: those of [`times_set_by`].
fn set_times(how: &str, path: &Path, file: &File, seconds: i64) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let (path, fd) = (path.as_ptr(), file.as_raw_fd());
    let precise = [(READ_S, 1000), (seconds, 5000)].map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec });
    let coarse = [(READ_S, 1), (seconds, 5)].map(|(tv_sec, tv_usec)| libc::timeval { tv_sec, tv_usec });
    let whole = libc::utimbuf { actime: READ_S, modtime: seconds };
    // SAFETY: the path and the times live across the call.
    let result = unsafe {
        match how {
            "futimens" => libc::futimens(fd, precise.as_ptr()),
            "futimes" => futimes(fd, coarse.as_ptr()),
            "utimensat" => libc::utimensat(libc::AT_FDCWD, path, precise.as_ptr(), 0),
            "utimensat of a descriptor" => libc::utimensat(fd, c"".as_ptr(), precise.as_ptr(), libc::AT_EMPTY_PATH),
            "utimes" => libc::utimes(path, coarse.as_ptr()),
            "lutimes" => libc::lutimes(path, coarse.as_ptr()),
            _ => libc::utime(path, &whole),
        }
    };
    assert_eq!(result, 0, "{how}: {}", std::io::Error::last_os_error());
}

unsafe extern "C" {
    fn futimes(fd: libc::c_int, times: *const libc::timeval) -> libc::c_int;
}

/// The time of the last read that is set, and that of the last write by the first of [`SETTERS`].
const READ_S: i64 = 900_000_000;
const WRITTEN_S: i64 = 1_000_000_000;

fn times(found: &fs::Metadata) -> (i64, i64, i64, i64) {
    (found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec())
}

/// What [`times`] are of the file that the number has, once they are set.
fn times_set_by(number: usize) -> (i64, i64, i64, i64) {
    let (read_ns, written_ns) = if SETTERS[number] == "utime" { (0, 0) } else { (1000, 5000) };
    (READ_S, read_ns, WRITTEN_S + number as i64, written_ns)
}

#[test]
fn times_that_are_set_on_files_with_dirty_bytes_stand_while_they_are_open_and_after_the_write_back() {
    let test = "times_that_are_set_on_files_with_dirty_bytes_stand_while_they_are_open_and_after_the_write_back";
    let name = |number: usize| format!("f{number}");
    if role().is_some() {
        // The second directory is none of Headstart's.
        for directory in [managed(), managed().with_file_name("plain")] {
            let files: Vec<File> = (0..SETTERS.len()).map(|number| open(&directory.join(name(number)))).collect();
            let is_as_set = |number: usize, when: &str| {
                let (by_name, file) = (fs::metadata(directory.join(name(number))).unwrap(), &files[number]);
                assert_eq!(times(&by_name), times_set_by(number), "{} {when}", SETTERS[number]);
                assert_eq!(times(&file.metadata().unwrap()), times_set_by(number), "{} {when}", SETTERS[number]);
            };
            for (number, file) in files.iter().enumerate() {
                let path = directory.join(name(number));
                file.write_all_at(&content(number as u64, 0, 9000), 0).unwrap();
                // A time of the last read alone leaves that of the last write as it is.
                let before = times(&file.metadata().unwrap());
                let read = [READ_S, 0].map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 });
                let read = [read[0], libc::timespec { tv_nsec: libc::UTIME_OMIT, ..read[1] }];
                // SAFETY: the times live across the call.
                assert_eq!(unsafe { libc::futimens(file.as_raw_fd(), read.as_ptr()) }, 0);
                assert_eq!(times(&file.metadata().unwrap()), (READ_S, 0, before.2, before.3));
                set_times(SETTERS[number], &path, file, WRITTEN_S + number as i64);
                is_as_set(number, "before the write-back");
            }
            fs::write(managed().with_file_name("set"), b"").unwrap();
            wait_for("everything is written back", || managed().with_file_name("drained").exists());
            (0..SETTERS.len()).for_each(|number| is_as_set(number, "after the write-back"));
            // A later write ends it.
            let started = SystemTime::now() - Duration::from_millis(20);
            files[0].write_all_at(&content(100, 0, 100), 9000).unwrap();
            assert!(files[0].metadata().unwrap().modified().unwrap() >= started);
            set_times(SETTERS[0], &directory.join(name(0)), &files[0], WRITTEN_S);
            is_as_set(0, "set once more");
        }
        return;
    }
    let site = TestSite::with_capacity("8MiB");
    let program = site.play(&[], test, "program").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the times are set", || site.path("set").exists());
    assert!(site.figure("/dirty_bytes") >= 9000 * SETTERS.len() as u64, "{:#}", site.status());
    site.succeed(&["drain"]);
    assert_eq!(site.figure("/dirty_bytes"), 0);
    fs::write(site.path("drained"), b"").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    for (number, how) in SETTERS.iter().enumerate() {
        let path = site.slow.join(name(number));
        assert_eq!(times(&fs::metadata(&path).unwrap()), times_set_by(number), "{how} at the end");
        let more = if number == 0 { content(100, 0, 100) } else { Vec::new() };
        assert!(fs::read(&path).unwrap() == [content(number as u64, 0, 9000), more].concat(), "{how}");
    }
}
