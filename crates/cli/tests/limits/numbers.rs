//! Many processes, many threads, many open files.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::{Barrier, Mutex};

use headstart_protocol::shared::SLOTS_MAX;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::opened;
use super::site::{HEADSTART, TestSite, content, managed, role, wait_for};

/// Makes room for so many descriptors, for this process and those it starts; false, and says so, where that
/// is not permitted.
fn descriptors(wanted: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let permitted = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok();
    if !permitted {
        println!("SKIPPED: {wanted} descriptors are needed, and {hard} permitted");
    }
    permitted
}

const RANKS: u64 = 200;
const PIECES: u64 = 40;
const PIECE: u64 = 1000;

/// One rank's pieces are far from each other in the file, as those of a strided array.
fn rank(number: u64) {
    let file = opened(&managed().join("shared"));
    for piece in 0..PIECES {
        let offset = (piece * RANKS + number) * PIECE;
        file.write_all_at(&content(number, offset, PIECE as usize), offset).unwrap();
    }
    for piece in 0..PIECES {
        let offset = (piece * RANKS + number) * PIECE;
        let mut found = vec![0; PIECE as usize];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == content(number, offset, PIECE as usize), "rank {number} at {offset}");
    }
}

#[test]
fn two_hundred_processes_write_one_file() {
    let test = "numbers::two_hundred_processes_write_one_file";
    if let Some(role) = role() {
        if let Ok(number) = role.parse() {
            return rank(number);
        }
        let start = |number: u64| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([test, "--exact", "--test-threads=1"]).env("HEADSTART_TEST_ROLE", number.to_string());
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        let ranks: Vec<_> = (0..RANKS).map(start).collect();
        let ended: Vec<bool> = ranks.into_iter().map(|mut rank| rank.wait().unwrap().success()).collect();
        assert!(!ended.contains(&false));
        return;
    }
    let site = TestSite::with_capacity("2MiB");
    site.played(&[], test, "all");
    let found = fs::read(site.slow.join("shared")).unwrap();
    assert_eq!(found.len() as u64, RANKS * PIECES * PIECE);
    for (place, piece) in found.chunks(PIECE as usize).enumerate() {
        let number = place as u64 % RANKS;
        assert!(piece == content(number, place as u64 * PIECE, PIECE as usize), "piece {place}");
    }
    assert!(site.figure("/requests/absorbed_requests_total") > 0, "{:#}", site.status());
    assert_eq!(site.figure("/threads"), 0);
}

/// More threads than slots. All live at once; those beyond the limit fail with EAGAIN, and can go on when
/// others have ended.
fn crowd() {
    if !descriptors(3 * SLOTS_MAX as u64) {
        return;
    }
    let threads = SLOTS_MAX + 50;
    let (tried, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let failed = Mutex::new(Vec::new());
    let file = opened(&managed().join("crowd"));
    std::thread::scope(|scope| {
        for number in 0..threads as u64 {
            let (tried, done, failed, file) = (&tried, &done, &failed, &file);
            let body = move || {
                let bytes = content(1, number * 100, 100);
                if let Err(error) = file.write_all_at(&bytes, number * 100) {
                    failed.lock().unwrap().push((number, error.raw_os_error().unwrap()));
                }
                tried.wait();
                done.wait();
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body).unwrap();
        }
        tried.wait();
        let failed = failed.lock().unwrap();
        assert!(failed.len() >= 50 && failed.len() < threads / 2, "{} threads failed", failed.len());
        assert!(failed.iter().all(|(_, errno)| *errno == libc::EAGAIN), "{failed:?}");
        done.wait();
    });
    for (number, _) in failed.into_inner().unwrap() {
        let mut tries = 0;
        // The agent hears of threads that ended a moment later.
        while let Err(error) = file.write_all_at(&content(1, number * 100, 100), number * 100) {
            assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
            tries += 1;
            assert!(tries < 6000, "no slot becomes free");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn threads_beyond_the_limit_fail_with_eagain_and_work_when_others_have_ended() {
    let test = "numbers::threads_beyond_the_limit_fail_with_eagain_and_work_when_others_have_ended";
    if role().is_some() {
        return crowd();
    }
    // The agent needs a descriptor for each as well, and gets its limit from here.
    if !descriptors(3 * SLOTS_MAX as u64) {
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    let output = site.play(&[], test, "all").output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("4096 threads take part at once, which is the limit"), "{said}");
    let found = fs::read(site.slow.join("crowd")).unwrap();
    for (number, piece) in found.chunks(100).enumerate() {
        assert!(piece == content(1, number as u64 * 100, 100), "thread {number}");
    }
    wait_for("every thread has left", || site.figure("/threads") == 0);
}

const FILES: u64 = 10_000;
const AGENTS_DESCRIPTORS: u64 = 2 * FILES;

/// Starts an agent that is permitted so many descriptors; a program's are its own.
fn start_agent(site: &TestSite, descriptors: u64) {
    let script = format!("ulimit -n {descriptors}; exec \"$0\" run -- true");
    assert!(site.command("sh").args(["-c", &script, HEADSTART]).status().unwrap().success());
}

/// Opens so many files at once, and writes and reads each while all are open.
fn library_of(first: u64, count: u64) {
    let name = |number: u64| managed().join(format!("{}/{number}", number % 100));
    (0..100).for_each(|directory| drop(fs::create_dir(managed().join(directory.to_string()))));
    let files: Vec<_> = (first..first + count).map(|number| (number, opened(&name(number)))).collect();
    for (number, file) in &files {
        file.write_all_at(&content(*number, 0, 500), number % 5000).unwrap();
    }
    for (number, file) in &files {
        let mut found = vec![0; 500];
        file.read_exact_at(&mut found, number % 5000).unwrap();
        assert!(found == content(*number, 0, 500), "file {number}");
    }
}

#[test]
fn ten_thousand_files_are_open_in_one_process_and_across_several() {
    let test = "numbers::ten_thousand_files_are_open_in_one_process_and_across_several";
    if let Some(role) = role() {
        let (first, count) = role.split_once(' ').unwrap();
        return library_of(first.parse().unwrap(), count.parse().unwrap());
    }
    if !descriptors(AGENTS_DESCRIPTORS) {
        return;
    }
    let site = TestSite::with_capacity("256MiB");
    // The agent has one for each file and lets go of data files: with two for each it could not serve so many.
    start_agent(&site, AGENTS_DESCRIPTORS);
    let check = || {
        for number in 0..FILES {
            let found = fs::read(site.slow.join(format!("{}/{number}", number % 100))).unwrap();
            assert!(found[(number % 5000) as usize..] == content(number, 0, 500), "file {number}");
        }
    };
    site.played(&[], test, &format!("0 {FILES}"));
    check();
    assert!(site.figure("/requests/absorbed_requests_total") >= FILES, "{:#}", site.status());
    let roles =
        (0..4).map(|part| site.play(&[], test, &format!("{} {}", part * FILES / 4, FILES / 4)).spawn().unwrap());
    let programs: Vec<_> = roles.collect();
    let ended: Vec<bool> = programs.into_iter().map(|mut program| program.wait().unwrap().success()).collect();
    assert!(!ended.contains(&false));
    check();
}

/// Opens files until that fails; what is open can be written and read all the same.
fn too_many() {
    let mut files = Vec::new();
    let error = loop {
        let path = managed().join(files.len().to_string());
        match fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
        assert!(files.len() < 300, "the agent has 200 descriptors");
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENFILE));
    assert!(files.len() > 20, "{} files", files.len());
    for (number, file) in files.iter().enumerate() {
        file.write_all_at(&content(1, number as u64, 3000), 0).unwrap();
        let mut found = vec![0; 3000];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == content(1, number as u64, 3000), "file {number}");
    }
    println!("{} files were open", files.len());
}

#[test]
fn files_beyond_the_agents_descriptors_are_refused_and_the_others_served() {
    let test = "numbers::files_beyond_the_agents_descriptors_are_refused_and_the_others_served";
    match role().as_deref() {
        Some("later") => return opened(&managed().join("later")).write_all_at(b"later", 0).unwrap(),
        Some(_) => return too_many(),
        None => {}
    }
    let site = TestSite::with_capacity("64MiB");
    start_agent(&site, 200);
    let pid = site.agent().unwrap();
    let output = site.play(&[], test, "all").output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("files are open"), "{}", site.say(&output));
    assert!(site.figure("/mapped_bytes") > 0, "clean bytes stay on flash");
    // Files that nobody uses give way.
    site.played(&[], test, "later");
    assert_eq!(site.agent(), Some(pid), "it lives on");
    assert_eq!(fs::read(site.slow.join("later")).unwrap(), b"later");
    assert!(fs::read(site.slow.join("7")).unwrap() == content(1, 7, 3000));
}

#[test]
fn a_program_has_most_of_the_descriptors_that_it_is_permitted() {
    let test = "numbers::a_program_has_most_of_the_descriptors_that_it_is_permitted";
    if role().is_some() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 256, hard).unwrap();
        let files: Vec<fs::File> = (0..180).map(|number| opened(&managed().join(number.to_string()))).collect();
        let check = |number: usize| {
            let mut found = vec![0; 3000];
            files[number].read_exact_at(&mut found, 0).unwrap();
            assert!(found == content(1, number as u64, 3000), "file {number}");
        };
        for (number, file) in files.iter().enumerate() {
            file.write_all_at(&content(1, number as u64, 3000), 0).unwrap();
            check(number);
        }
        // What is open stays readable when it has them all.
        let rest: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        assert!(rest.len() > 10);
        (0..files.len()).for_each(check);
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&[], test, "program");
    assert!(site.figure("/requests/absorbed_requests_total") >= 180, "{:#}", site.status());
}
