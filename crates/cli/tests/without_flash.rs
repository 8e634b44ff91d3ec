//! Where flash or the agent fails, programs go on with the disks as long as no byte is lost by it.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use site::{HEADSTART, TestSite, content, data_files, kill, managed, role, said, text, wait_for};

/// A run goes on without flash: it says so in one line with `word` in it.
fn goes_on(site: &TestSite, word: &str) {
    let mark = site.slow.join("mark");
    let output = site.headstart(&["run", "--", "sh", "-c", &format!("echo done > {}; exit 3", text(&mark))]);
    assert_eq!(output.status.code(), Some(3), "{}", site.say(&output));
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains(word) && lines.contains("without flash"), "{lines}");
    assert_eq!(fs::read(&mark).unwrap(), b"done\n");
    fs::remove_file(mark).unwrap();
    assert!(!site.slow.join(".headstart-owner").exists(), "nobody owns it");
}

#[test]
fn a_run_whose_fast_directory_fails_goes_on_where_nothing_is_owed() {
    let site = TestSite::with_capacity("1MiB");
    fs::remove_dir(&site.fast).unwrap();
    goes_on(&site, text(&site.fast));
    fs::write(&site.fast, b"no directory").unwrap();
    goes_on(&site, text(&site.fast));
    fs::remove_file(&site.fast).unwrap();
    fs::create_dir(&site.fast).unwrap();
    fs::create_dir(site.fast.join(".headstart")).unwrap();
    fs::write(site.fast.join(".headstart/journal"), b"nonsense").unwrap();
    goes_on(&site, "journal");
    fs::remove_dir_all(site.fast.join(".headstart")).unwrap();
    match mount(Some("tmpfs"), &site.fast, Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>) {
        Ok(()) => {
            goes_on(&site, "Read-only file system");
            umount2(&site.fast, MntFlags::MNT_DETACH).unwrap();
        }
        Err(error) => println!("SKIPPED in part: mounting a tmpfs needs root ({error})"),
    }
}

#[test]
fn a_run_without_a_runtime_directory_goes_on_where_nothing_is_owed() {
    let site = TestSite::with_capacity("1MiB");
    fs::write(site.runtime_base(), b"no directory").unwrap();
    goes_on(&site, text(&site.runtime_base()));
    fs::remove_file(site.runtime_base()).unwrap();
}

#[test]
fn a_run_does_not_go_on_where_bytes_are_owed() {
    let test = "a_run_does_not_go_on_where_bytes_are_owed";
    if role().is_some() {
        return fs::write(managed().join("a"), content(1, 0, 9000)).unwrap();
    }
    let site = TestSite::with_capacity("1MiB");
    site.played(&["--keep-dirty"], test, "program");
    site.succeed(&["stop", "--keep-dirty"]);
    let mark = site.path("mark");
    let run = ["run", "--", "touch", text(&mark)];
    let moved = site.path("moved");
    fs::rename(&site.fast, &moved).unwrap();
    site.fail(125, &run, &["9000 bytes of 1 files", text(&site.fast), "make it available"]);
    fs::rename(&moved, &site.fast).unwrap();
    let base = site.path("no-directory");
    fs::write(&base, b"").unwrap();
    let mut command = site.command(HEADSTART);
    let output = command.env("HEADSTART_RUNTIME_BASE", &base).args(run).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(!mark.exists());
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 9000));
}

/// Bytes per piece; the data file is cut so that flash gives only the first of them.
const PIECE: usize = 4096;
const LENGTH: usize = 40 * PIECE;

fn whole() -> Vec<u8> {
    (0..LENGTH).step_by(PIECE).flat_map(|offset| content(1, offset as u64, PIECE)).collect()
}

#[test]
fn flash_that_cannot_be_read_is_answered_by_the_disk_for_clean_bytes_and_by_eio_for_dirty_ones() {
    let test = "flash_that_cannot_be_read_is_answered_by_the_disk_for_clean_bytes_and_by_eio_for_dirty_ones";
    match role().as_deref() {
        Some("write") => {
            let file = fs::File::create(managed().join("a")).unwrap();
            for offset in (0..LENGTH).step_by(PIECE) {
                file.write_all_at(&content(1, offset as u64, PIECE), offset as u64).unwrap();
            }
            return;
        }
        Some("read") => {
            let file = fs::File::open(managed().join("a")).unwrap();
            let mut found = vec![0; LENGTH];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == whole(), "wrong bytes");
            return;
        }
        Some(_) => {
            let file = fs::File::open(managed().join("a")).unwrap();
            let mut found = vec![0; PIECE];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == content(1, 0, PIECE), "what flash still gives");
            let error = file.read_at(&mut found, 20 * PIECE as u64).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            return;
        }
        None => {}
    }
    for dirty in [false, true] {
        let site = TestSite::with_capacity("64MiB");
        site.played(if dirty { &["--keep-dirty"] } else { &[] }, test, "write");
        let data = data_files(&site.fast);
        assert_eq!(data.len(), 1);
        fs::OpenOptions::new().write(true).open(&data[0]).unwrap().set_len(PIECE as u64).unwrap();
        let before = site.figure("/mapped_bytes");
        let role = if dirty { "read dirty" } else { "read" };
        // Nothing may be fetched: the data file would grow again, and give zeros for what was cut off.
        let output = site.play(&["--keep-dirty", "--policy", "off"], test, role).output().unwrap();
        assert!(output.status.success(), "{}", site.say(&output));
        assert_eq!(site.figure("/requests/failed_read_requests_total"), u64::from(dirty));
        assert!(dirty || site.figure("/service/flash_failed_messages_total") > 0);
        let lines = String::from_utf8_lossy(&output.stderr).into_owned();
        if dirty {
            for word in [text(&site.slow), "/a: bytes 81920 to 86016", "headstart check"] {
                assert!(lines.contains(word), "no '{word}' in {lines}");
            }
            assert_eq!(site.headstart(&["check"]).status.code(), Some(77));
            site.succeed(&["drain", "--discard", "--yes"]);
        } else {
            assert!(!lines.contains("headstart:"), "{lines}");
            assert!(site.figure("/mapped_bytes") < before, "what flash does not give leaves the map");
        }
    }
}

#[test]
fn a_process_without_an_agent_uses_the_slow_directory_where_nobody_owns_it_and_fails_where_somebody_does() {
    let test = "a_process_without_an_agent_uses_the_slow_directory_where_nobody_owns_it_and_fails_where_somebody_does";
    if let Some(role) = role() {
        let go = managed().with_file_name("go");
        fs::write(managed().with_file_name("started"), b"").unwrap();
        wait_for("go", || go.exists());
        let written = fs::write(managed().join("a"), content(1, 0, 9000));
        fs::write(managed().with_file_name("written"), b"").unwrap();
        match role.as_str() {
            "nobody's" => {
                written.unwrap();
                fs::rename(managed().join("a"), managed().join("b")).unwrap();
                assert!(fs::read(managed().join("b")).unwrap() == content(1, 0, 9000));
            }
            _ => assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::EIO)),
        }
        return;
    }
    for nobodys in [true, false] {
        let site = TestSite::with_capacity("1MiB");
        let role = if nobodys { "nobody's" } else { "somebody's" };
        let mut program = site.play(&["--keep-dirty"], test, role);
        let program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("the program has started", || site.path("started").exists());
        match nobodys {
            true => drop(site.succeed(&["stop"])),
            false => {
                // `run` would start another agent, and the program would wait for it as long as a socket tells of one.
                kill(program.id() as i32, Signal::SIGSTOP);
                site.kill_agent();
                fs::remove_file(site.runtime().join("socket")).unwrap();
            }
        }
        assert_eq!(site.slow.join(".headstart-owner").exists(), !nobodys);
        fs::write(site.path("go"), b"").unwrap();
        wait_for("the program has tried", || site.path("written").exists());
        kill(program.id() as i32, Signal::SIGCONT);
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", site.say(&output));
        if nobodys {
            assert_eq!(said(&output).matches("no agent serves").count(), 1, "{}", said(&output));
            assert!(fs::read(site.slow.join("b")).unwrap() == content(1, 0, 9000));
        }
    }
}

#[test]
fn a_slab_that_cannot_be_written_sends_the_bytes_to_disk() {
    let test = "a_slab_that_cannot_be_written_sends_the_bytes_to_disk";
    if role().is_some() {
        let file = fs::File::create(managed().join("a")).unwrap();
        let flash = Path::new(&std::env::var("HEADSTART_TEST_FAST").unwrap()).join(".headstart");
        for offset in (0..LENGTH).step_by(PIECE) {
            if offset == LENGTH / 2 {
                // From here on no data file can be opened by its name.
                fs::rename(&flash, flash.with_extension("away")).unwrap();
            }
            let path = managed().join(if offset < LENGTH / 2 { "a" } else { "b" });
            let other = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
            other.write_all_at(&content(1, offset as u64, PIECE), offset as u64).unwrap();
        }
        drop(file);
        return fs::rename(flash.with_extension("away"), flash).unwrap();
    }
    let site = TestSite::with_capacity("64MiB");
    let output = site.play(&[], test, "program").env("HEADSTART_TEST_FAST", &site.fast).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let mut found = fs::read(site.slow.join("a")).unwrap();
    found.extend_from_slice(&fs::read(site.slow.join("b")).unwrap()[LENGTH / 2..]);
    assert!(found == whole());
    let failed = site.figure("/requests/disk_write_flash_failed_requests_total");
    assert!(failed > 0);
    assert_eq!(site.figure("/requests/disk_write_flash_failed_bytes_total"), failed * PIECE as u64);
}

#[test]
fn a_capacity_made_smaller_is_kept_to_and_stays_until_it_is_changed() {
    let test = "a_capacity_made_smaller_is_kept_to_and_stays_until_it_is_changed";
    if role().is_some() {
        let file = fs::File::create(managed().join("a")).unwrap();
        for offset in (0..2u64 << 20).step_by(PIECE) {
            file.write_all_at(&content(1, offset, PIECE), offset).unwrap();
        }
        return;
    }
    for keep in [&["--keep-dirty"][..], &[]] {
        let site = TestSite::with_capacity("64MiB");
        site.fail(125, &["capacity", "1MiB"], &["no agent runs", text(&site.file)]);
        site.played(keep, test, "program");
        assert!(site.figure("/mapped_bytes") >= 2 << 20);
        site.fail(125, &["capacity", "lots"], &["lots"]);
        assert!(site.succeed(&["capacity", "512KiB"]).contains("512KiB (512KiB)"), "{}", site.succeed(&["capacity"]));
        wait_for("flash holds no more", || site.figure("/mapped_bytes") <= 512 << 10);
        let figures: serde_json::Value = serde_json::from_str(&site.succeed(&["capacity", "--json"])).unwrap();
        assert_eq!((&figures["capacity"], &figures["capacity_bytes"]), (&"512KiB".into(), &(512 << 10).into()));
        let expected: Vec<u8> = (0..2u64 << 20).step_by(PIECE).flat_map(|at| content(1, at, PIECE)).collect();
        site.succeed(&["drain"]);
        assert!(fs::read(site.slow.join("a")).unwrap() == expected);
        // `run --capacity` says that it lasts.
        let output = site.headstart(&["run", "--capacity", "1MiB", "--", "true"]);
        assert!(said(&output).contains("until the agent ends"), "{}", said(&output));
        assert_eq!(site.figure("/capacity_bytes"), 1 << 20);
        let output = site.headstart(&["run", "--capacity", "64MiB", "--", "true"]);
        assert_eq!(said(&output), "", "that is what the site file says");
    }
}

/// Of the file that [`write_until_stopped`] makes.
const CHANGING: usize = 2 << 20;

/// Writes, reads and cuts a file, compares it with an array of bytes, and says how far it is, until it is told to stop.
fn write_until_stopped(mut random: u64) {
    let plain = |name: &str| managed().with_file_name("plain").join(name);
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(managed().join("a")).unwrap();
    let mut model = vec![0; CHANGING];
    file.set_len(CHANGING as u64).unwrap();
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % limit
    };
    for done in 1u64.. {
        let (offset, length) = (below(CHANGING - 20_000), 1 + below(20_000));
        let range = offset..offset + length;
        match below(10) {
            0..6 => {
                model[range].copy_from_slice(&content(done, offset as u64, length));
                file.write_all_at(&model[offset..][..length], offset as u64).unwrap();
            }
            6..9 => {
                let mut found = vec![0; length];
                file.read_exact_at(&mut found, offset as u64).unwrap();
                assert!(found == model[range], "{length} bytes at {offset} differ after {done} operations");
            }
            _ if below(10) == 0 => {
                file.set_len(offset as u64).unwrap();
                file.set_len(CHANGING as u64).unwrap();
                model[offset..].fill(0);
            }
            _ => file.sync_data().unwrap(),
        }
        if done % 20 == 0 {
            fs::write(plain("done.new"), done.to_string()).unwrap();
            fs::rename(plain("done.new"), plain("done")).unwrap();
            if plain("stop").exists() {
                break;
            }
        }
    }
    assert!(fs::read(managed().join("a")).unwrap() == model);
    fs::write(plain("model"), model).unwrap();
}

#[test]
fn a_program_that_writes_has_the_right_bytes_whatever_its_capacity_becomes_meanwhile() {
    let test = "a_program_that_writes_has_the_right_bytes_whatever_its_capacity_becomes_meanwhile";
    if let Some(seed) = role() {
        return write_until_stopped(seed.parse().unwrap());
    }
    let seed = std::env::var("SEED").unwrap_or_else(|_| std::process::id().to_string());
    println!("SEED={seed}");
    let site = TestSite::with_capacity("64MiB");
    let run = site.play(&[], test, &seed).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let plain = |name: &str| site.path("plain").join(name);
    let done = || fs::read_to_string(plain("done")).map_or(0, |text| text.parse::<u64>().unwrap());
    // So much of it is on flash that the first change takes most of that away.
    wait_for("a good part of the file is on flash", || done() > 0 && site.figure("/mapped_bytes") > 1 << 20);
    for capacity in ["256KiB", "64MiB", "64KiB", "1MiB", "10%", "128KiB", "4MiB", "96KiB", "50%", "32MiB", "512KiB"] {
        site.succeed(&["capacity", capacity]);
        assert_eq!(site.status()["capacity"], capacity);
        let before = done();
        wait_for("the program goes on", || done() >= before + 200);
    }
    fs::write(plain("stop"), b"").unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "SEED={seed}: {}", site.say(&output));
    assert!(fs::read(site.slow.join("a")).unwrap() == fs::read(plain("model")).unwrap(), "SEED={seed}");
    wait_for("flash holds no more than it may", || site.figure("/mapped_bytes") <= 512 << 10);
    let evicted = site.figure("/agent/evicted_extents_total");
    assert!(evicted > 100, "SEED={seed}: {evicted} extents were evicted");
    println!("{evicted} extents were evicted");
}

#[test]
fn a_slow_directory_that_cannot_be_written_is_used_without_flash() {
    let site = TestSite::with_capacity("1MiB");
    fs::write(site.path("plain/file"), b"x").unwrap();
    if let Err(error) = mount(Some("tmpfs"), &site.slow, Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>) {
        return println!("SKIPPED: mounting a tmpfs needs root ({error})");
    }
    let output = site.headstart(&["run", "--", "ls", text(&site.slow)]);
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(said(&output).contains("without flash") && said(&output).contains("Read-only"), "{}", said(&output));
    umount2(&site.slow, MntFlags::MNT_DETACH).unwrap();
    fs::set_permissions(&site.slow, fs::Permissions::from_mode(0o755)).unwrap();
}
