//! What is counted is what happened: requests and bytes of programs that know their own, and the metrics socket.

#[path = "support/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use headstart_agent::site::{AgentSettings, CostModels, Site};
use headstart_agent::status::{Counters, RequestCounters, ServiceCounters};
use headstart_policy::cost::benefit::Parameters;
use headstart_protocol::counters::families;
use serde_json::Value;
use site::{TestSite, content, managed, role, wait_for};

const THREADS: u64 = 4;
const WRITES: u64 = 200;
const PIECE: u64 = 3000;
const APPENDS: u64 = 50;
/// Reads of what was written, and as many behind the end of the file.
const READS: u64 = 300;

/// Writes, appends and reads in several threads, each its own files; what the constants say, and nothing else.
fn play() {
    let thread = |number: u64| {
        let (path, log) = (managed().join(format!("data {number}")), managed().join(format!("log {number}")));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        for piece in 0..WRITES {
            let offset = piece * 7 % WRITES * PIECE;
            file.write_all_at(&content(number, offset, PIECE as usize), offset).unwrap();
        }
        for read in 0..READS {
            let offset = read % WRITES * PIECE;
            let mut found = vec![0; PIECE as usize];
            file.read_exact_at(&mut found, offset).unwrap();
            assert!(found == content(number, offset, PIECE as usize), "wrong bytes at {offset}");
            assert_eq!(file.read_at(&mut found, (WRITES + read) * PIECE).unwrap(), 0);
        }
        let mut log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        (0..APPENDS).for_each(|line| log.write_all(&[line as u8; 10]).unwrap());
        // Neither counts: no bytes, and no right to write.
        assert_eq!(file.write_at(&[], 0).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
        assert!(File::open(managed().join(format!("data {number}"))).unwrap().write_at(b"x", 0).is_err());
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|number| drop(scope.spawn(move || thread(number)))));
}

fn site_with(capacity: &str, agent: AgentSettings) -> TestSite {
    let site = TestSite::with_capacity(capacity);
    let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
    settings.agent = Some(AgentSettings { journal_bytes_max: Some(8192), ..agent });
    fs::write(&site.file, settings.to_toml()).unwrap();
    site
}

fn requests(site: &TestSite) -> RequestCounters {
    serde_json::from_value(site.status()["requests"].clone()).unwrap()
}

/// One request to the metrics socket.
fn scrape(socket: &Path) -> String {
    let mut connection = UnixStream::connect(socket).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_string()
}

/// The sum of a metric's samples whose labels include `labels`.
fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let samples = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let with = samples.filter(|line| labels.iter().all(|label| line.contains(label)));
    with.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A process for each piece: none has a request of its own before.
#[test]
fn what_processes_write_together_stays_on_the_disks_where_the_site_says_so() {
    const PIECES: u64 = 100;
    const BYTES: u64 = 64 << 10;
    let absorbed = |interleaved_stays, step: u64| {
        let site = TestSite::with_capacity("64MiB");
        let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
        settings.s4d.write.interleaved_stays = interleaved_stays;
        fs::write(&site.file, settings.to_toml()).unwrap();
        let bytes: Vec<u8> = (0..PIECES).flat_map(|piece| content(1, piece * BYTES, BYTES as usize)).collect();
        fs::write(site.path("whole"), &bytes).unwrap();
        let script = format!(
            "for k in $(seq 0 {step} {}); do
                 dd if={whole} of={slow}/file bs={BYTES} count=1 skip=$k seek=$k conv=notrunc status=none || exit 1
             done
             cmp -n {BYTES} {whole} {slow}/file",
            PIECES - 1,
            whole = site.path("whole").display(),
            slow = site.slow.display(),
        );
        site.succeed(&["run", "--", "sh", "-c", &script]);
        if step == 1 {
            assert!(fs::read(site.slow.join("file")).unwrap() == bytes, "other bytes");
        }
        let found = requests(&site);
        assert_eq!(found.sum(&families::REQUESTS, &[("direction", "write")]), PIECES.div_ceil(step), "{found:?}");
        found.absorbed_requests_total
    };
    assert_eq!((absorbed(false, 1), absorbed(true, 2)), (PIECES, PIECES / 2), "all, with or without gaps");
    let absorbed = absorbed(true, 1);
    assert!((31..40).contains(&absorbed), "{absorbed}: until it is known after two MiB");
}

#[test]
fn every_request_and_byte_of_a_program_is_counted_once() {
    let test = "every_request_and_byte_of_a_program_is_counted_once";
    if role().is_some() {
        return play();
    }
    for (capacity, options) in [("64MiB", &[][..]), ("256KiB", &[]), ("64MiB", &["--policy", "off"])] {
        let metrics = AgentSettings { metrics: Some(true), ..AgentSettings::default() };
        let site = site_with(capacity, metrics);
        site.played(options, test, "all");
        let found = requests(&site);
        let count = |labels: &[(&str, &str)]| found.sum(&families::REQUESTS, labels);
        let bytes = |labels: &[(&str, &str)]| found.sum(&families::REQUEST_BYTES, labels);
        let (write, read) = (("direction", "write"), ("direction", "read"));
        assert_eq!(count(&[write]), THREADS * (WRITES + APPENDS), "{capacity} {options:?} {found:?}");
        assert_eq!(count(&[read]), THREADS * 2 * READS, "{capacity} {options:?} {found:?}");
        assert_eq!(bytes(&[write]), THREADS * (WRITES * PIECE + APPENDS * 10), "{found:?}");
        assert_eq!(bytes(&[read]), THREADS * READS * PIECE, "{found:?}");
        assert_eq!(found.disk_write_append_requests_total, THREADS * APPENDS);
        assert!(found.disk_read_end_requests_total <= THREADS * READS);
        assert_eq!(count(&[("outcome", "failed")]), 0);
        match (capacity, options) {
            ("256KiB", _) => assert!(found.disk_write_no_space_requests_total > 0, "{found:?}"),
            (_, []) => assert_eq!(found.absorbed_requests_total, THREADS * WRITES),
            _ => assert_eq!(found.disk_write_off_requests_total, THREADS * WRITES),
        }
        // The socket says the same.
        let text = scrape(&site.runtime().join("metrics"));
        for direction in ["write", "read"] {
            let label = format!("direction=\"{direction}\"");
            let labels = [("direction", direction)];
            assert_eq!(sum(&text, "headstart_requests_total", &[&label]), count(&labels) as f64);
            assert_eq!(sum(&text, "headstart_request_bytes_total", &[&label]), bytes(&labels) as f64);
        }
        // The agent saw each byte that the library says it absorbed, and flash has what came and did not leave.
        let agent: Counters = serde_json::from_value(site.status()["agent"].clone()).unwrap();
        assert_eq!(agent.absorbed_bytes_total, found.absorbed_bytes_total);
        assert_eq!(sum(&text, "headstart_dirty_bytes", &[]), 0.0);
        // What was fetched is dropped, too.
        assert!(agent.written_back_bytes_total + agent.dropped_bytes() >= agent.absorbed_bytes_total);
        assert_eq!(agent.seeks_avoided_total + agent.write_backs_total, agent.written_back_extents_total);
        // Every question had its message.
        let service: ServiceCounters = serde_json::from_value(site.status()["service"].clone()).unwrap();
        let messages = service.figures().filter(|(figure, _)| *figure.family == families::MESSAGES);
        let asked: u64 = messages.map(|(_, count)| count).sum();
        let unasked = service.hello_messages_total + service.control_messages_total + service.marked_messages_total;
        assert_eq!(asked - unasked, found.round_trips_total);
        let said = site.succeed(&["status"]);
        for word in ["writes, disk: append", "% on flash", "journal"] {
            assert!(said.contains(word), "no '{word}' in\n{said}");
        }
    }
}

#[test]
fn no_counter_falls_while_threads_and_processes_come_and_go() {
    let test = "no_counter_falls_while_threads_and_processes_come_and_go";
    if role().is_some() {
        return play();
    }
    let metrics = AgentSettings { metrics: Some(true), ..AgentSettings::default() };
    let site = site_with("1MiB", metrics);
    site.played(&[], test, "first");
    let mut programs: Vec<_> = (0..3).map(|_| site.play(&[], test, "all").spawn().unwrap()).collect();
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    let (mut ended, mut looks) = (0, 0);
    while ended < programs.len() {
        ended = programs.iter_mut().filter_map(|program| program.try_wait().unwrap()).count();
        let text = scrape(&site.runtime().join("metrics"));
        let mut counter = false;
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                counter = kind.ends_with(" counter");
            } else if counter && !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                let earlier = before.insert(name.into(), value).unwrap_or(0.0);
                assert!(value >= earlier, "{name} fell from {earlier} to {value}");
            }
        }
        looks += 1;
    }
    assert!(programs.into_iter().all(|mut program| program.wait().unwrap().success()));
    assert!(looks > 3, "it was looked at {looks} times only");
}

#[test]
fn metrics_are_off_by_default_and_where_the_site_says() {
    let site = TestSite::with_capacity("1MiB");
    site.succeed(&["run", "--", "true"]);
    assert!(!site.runtime().join("metrics").exists());
    site.succeed(&["stop"]);
    let socket = site.path("elsewhere").join("metrics socket");
    fs::create_dir(site.path("elsewhere")).unwrap();
    let site = {
        let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
        settings.agent =
            Some(AgentSettings { metrics_socket: Some(socket.clone()), ..settings.agent.unwrap_or_default() });
        fs::write(&site.file, settings.to_toml()).unwrap();
        site
    };
    site.succeed(&["run", "--", "true"]);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let text = scrape(&socket);
    let directory = format!("directory=\"{}\"", site.slow.display());
    assert!(sum(&text, "headstart_agent_starts_total", &[&directory]) >= 2.0, "{text}");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--unix-socket"]).arg(&socket).arg("http://localhost/metrics");
    match curl.output() {
        Err(error) => println!("SKIPPED: curl: {error}"),
        Ok(output) => assert!(String::from_utf8(output.stdout).unwrap().contains("headstart_capacity_bytes{")),
    }
    // An agent that is killed leaves its socket; the next one takes the place.
    site.kill_agent();
    site.succeed(&["run", "--", "true"]);
    scrape(&socket);
    site.succeed(&["stop"]);
    assert!(!socket.exists());
    // A place where none can be is no reason not to serve.
    fs::write(&socket, b"precious").unwrap();
    site.succeed(&["run", "--", "true"]);
    assert_eq!(fs::read(&socket).unwrap(), b"precious");
    let log = fs::read_to_string(site.runtime().join("log")).unwrap();
    assert!(log.contains("there are no metrics") && log.contains("something else is there"), "{log}");
}

#[test]
fn requests_wait_no_longer_than_they_are_said_to() {
    let site = TestSite::with_capacity("1MiB");
    site.succeed(&[
        "run",
        "--",
        "sh",
        "-c",
        "cd \"$HEADSTART_SLOW\" && dd if=/dev/zero of=a bs=4k count=9 conv=fsync 2>&1",
    ]);
    let agent: Counters = serde_json::from_value::<Counters>(site.status()["agent"].clone()).unwrap();
    assert!(agent.barrier_waits_total >= 1, "{agent:?}");
    assert!(agent.barrier_wait_ns_max > 0 && agent.barrier_wait_ns_max <= agent.barrier_wait_ns_total);
    assert!(agent.barriers_total >= 1);
    let value: Value = site.status();
    assert!(value["service"]["journal_rotations_total"].as_u64().is_some());
    wait_for("the journal is counted", || site.figure("/service/journal_appended_bytes_total") > 0);
}

/// What a program does with files of the managed directory, of which `disk` has 5000 bytes; and what moves
/// among the figures of requests and their bytes.
type Reason = (&'static [&'static str], &'static str, &'static [(&'static str, u64)]);

const REASONS: [Reason; 11] = [
    (&[], "pwrite('a', 0)", &[("absorbed_requests_total", 1), ("absorbed_bytes_total", 5000)]),
    (
        &[],
        "pwrite('b', 0); pread('b', 0)",
        &[
            ("absorbed_requests_total", 1),
            ("absorbed_bytes_total", 5000),
            ("flash_read_requests_total", 1),
            ("flash_read_bytes_total", 5000),
        ],
    ),
    (&[], "pread('disk', 0)", &[("disk_read_miss_requests_total", 1), ("disk_read_miss_bytes_total", 5000)]),
    (&[], "pread('disk', 5000)", &[("disk_read_end_requests_total", 1)]),
    (
        &["--policy", "off"],
        "pread('disk', 0); pwrite('d', 0)",
        &[
            ("disk_read_off_requests_total", 1),
            ("disk_read_off_bytes_total", 5000),
            ("disk_write_off_requests_total", 1),
            ("disk_write_off_bytes_total", 5000),
        ],
    ),
    (
        &[],
        "pwrite('e.log', 0); pread('e.log', 0)",
        &[
            ("disk_read_excluded_requests_total", 1),
            ("disk_read_excluded_bytes_total", 5000),
            ("disk_write_excluded_requests_total", 1),
            ("disk_write_excluded_bytes_total", 5000),
        ],
    ),
    (
        &[],
        "mapped = mmap.mmap(opened('disk'), 5000); pread('disk', 0); pwrite('disk', 0)",
        &[
            ("disk_read_bypassed_requests_total", 1),
            ("disk_read_bypassed_bytes_total", 5000),
            ("disk_write_bypassed_requests_total", 1),
            ("disk_write_bypassed_bytes_total", 5000),
        ],
    ),
    (
        &[],
        "os.pwrite(opened('f'), b'x' * (1 << 20), 0)",
        &[("disk_write_no_space_requests_total", 1), ("disk_write_no_space_bytes_total", 1 << 20)],
    ),
    (
        &[],
        "os.write(opened('g', os.O_APPEND), b'x' * 5000)",
        &[("disk_write_append_requests_total", 1), ("disk_write_append_bytes_total", 5000)],
    ),
    (
        &[],
        "pwrite('h', 2 << 40)",
        &[("disk_write_too_far_requests_total", 1), ("disk_write_too_far_bytes_total", 5000)],
    ),
    (
        &[],
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\ntry: pwrite('i', 2000)\nexcept OSError as e: assert e.errno == 27",
        &[("failed_write_requests_total", 1)],
    ),
];

const UNWANTED: Reason = (
    &[],
    "pread('disk', 0); pwrite('c', 0)",
    &[
        ("disk_read_unwanted_requests_total", 1),
        ("disk_read_unwanted_bytes_total", 5000),
        ("disk_write_unwanted_requests_total", 1),
        ("disk_write_unwanted_bytes_total", 5000),
    ],
);

/// A site without space for large writes, some files of which never come to flash.
fn site_of_reasons(parameters: Parameters) -> TestSite {
    let site = site_with("256KiB", AgentSettings::default());
    let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
    settings.exclude = vec!["*.log".into()];
    settings.s4d = CostModels { read: parameters.clone(), write: parameters };
    fs::write(&site.file, settings.to_toml()).unwrap();
    site
}

/// Does it, and asserts what moves.
fn assert_moves(site: &TestSite, (options, what, expected): Reason) {
    fs::write(site.slow.join("disk"), [7; 5000]).unwrap();
    let program = format!(
        "import os, mmap, resource\nos.chdir(os.environ['HEADSTART_SLOW'])\nfiles = {{}}\n\
         def opened(name, more=0):\n    \
             if name not in files: files[name] = os.open(name, os.O_RDWR | os.O_CREAT | more)\n    \
             return files[name]\n\
         def pwrite(name, at): assert os.pwrite(opened(name), b'x' * 5000, at) == 5000\n\
         def pread(name, at): os.pread(opened(name), 5000, at)\n{what}\n"
    );
    let before = site.agent().map_or_else(RequestCounters::default, |_| requests(site));
    site.succeed(&[&["run"], options, &["--", "python3", "-c", &program]].concat());
    let since = requests(site).since(&before);
    let of_requests = [&families::REQUESTS, &families::REQUEST_BYTES];
    let moved = since.figures().filter(|(figure, value)| of_requests.contains(&figure.family) && *value > 0);
    let moved: BTreeMap<&str, u64> = moved.map(|(figure, value)| (figure.key, value)).collect();
    assert_eq!(moved, expected.iter().copied().collect(), "{options:?} {what}");
    let hints = (since.hints_left_total, since.hints_lost_total);
    assert_eq!(hints, (moved.get("disk_read_miss_requests_total").copied().unwrap_or(0), 0), "{options:?} {what}");
    fs::remove_file(site.slow.join("disk")).unwrap();
}

#[test]
fn each_request_moves_the_figures_of_what_served_it_and_why_and_no_others() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("SKIPPED: there is no python3");
    }
    let site = site_of_reasons(Parameters::default());
    REASONS.into_iter().for_each(|reason| assert_moves(&site, reason));
    // Flash that serves nothing sooner.
    let site = site_of_reasons(Parameters { ssd_s_per_byte: 1.0, ..Parameters::default() });
    assert_moves(&site, UNWANTED);
}

/// What a program does, and the messages that the agent gets for it.
type Messages = (&'static str, &'static [(&'static str, u64)]);

const MESSAGES: [Messages; 2] = [
    // What is read again is listed with the second answer.
    (
        "f = os.open('a', os.O_RDWR | os.O_CREAT)\nos.pwrite(f, b'x' * 4096, 0)
assert [os.pread(f, 4096, 0) for _ in range(9)] == 9 * [b'x' * 4096]\nos.fsync(f)
os.ftruncate(f, 1000)\nos.utime(f, (1000, 1000))\nos.rename('a', 'b')\nos.unlink('b')\nos.close(f)",
        &[
            ("open", 1),
            ("slab", 1),
            ("commit", 1),
            ("read", 2),
            ("sync", 1),
            ("truncate", 1),
            ("truncate_done", 1),
            ("times_set", 1),
            ("renamed", 1),
            ("unlinked", 1),
            ("close", 1),
        ],
    ),
    // One of two names is told before it goes and after; an append asks; a mapping makes the file whole first,
    // and that durable, as what it writes may become so unseen.
    (
        "f = os.open('c', os.O_RDWR | os.O_CREAT)\nos.pwrite(f, b'x' * 4096, 0)\nos.link('c', 'd')\nos.unlink('c')
os.write(os.open('d', os.O_WRONLY | os.O_APPEND), b'y' * 10)\nmapped = mmap.mmap(f, 4106)\nassert mapped[4090:] == b'x' * 6 + b'y' * 10",
        &[("open", 1), ("slab", 1), ("commit", 1), ("name", 2), ("write", 1), ("write_done", 1), ("bypass", 1), ("sync", 1)],
    ),
];

#[test]
fn each_call_sends_the_agent_the_messages_that_it_needs_and_no_others() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("SKIPPED: there is no python3");
    }
    for (what, expected) in MESSAGES {
        let site = site_with("64MiB", AgentSettings::default());
        let program = format!("import os, mmap\nos.chdir(os.environ['HEADSTART_SLOW'])\n{what}\n");
        site.succeed(&["run", "--", "python3", "-c", &program]);
        let service: ServiceCounters = serde_json::from_value(site.status()["service"].clone()).unwrap();
        let messages = service.figures().filter(|(figure, value)| *figure.family == families::MESSAGES && *value > 0);
        let messages: BTreeMap<&str, u64> = messages
            .map(|(figure, value)| (figure.key.strip_suffix("_messages_total").unwrap(), value))
            .filter(|(kind, _)| !["hello", "control"].contains(kind))
            .collect();
        assert_eq!(messages, expected.iter().copied().collect(), "{what}");
        assert!(service.hello_messages_total >= 1 && service.connections_total >= service.hello_messages_total);
        assert_eq!(
            (service.agent_starts_total, service.errors_answered_total, service.opens_excluded_total),
            (1, 0, 0)
        );
        assert!(service.drains_total >= 1, "the run's end drains");
    }
}
