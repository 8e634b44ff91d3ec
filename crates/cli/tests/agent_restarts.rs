//! The agent is killed again and again while programs read, write, cut and sync: `run` starts the next one,
//! nobody sees an error, and nothing acknowledged is lost. Prints its seed and takes `SEED=`.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::signal::Signal;
use site::{TestSite, content, kill, managed, role, wait_for};

const RANKS: u64 = 4;
const BLOCK: u64 = 4096;
/// Of the file that all share; each rank writes every fourth.
const BLOCKS: u64 = 96;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// A file beside the managed directory, which Headstart does not see.
fn plain(name: &str) -> PathBuf {
    managed().with_file_name("plain").join(name)
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// This program again, as another process of the run.
fn spawn(test: &str, role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env("HEADSTART_TEST_ROLE", role);
    command.spawn().unwrap()
}

/// A block that tells its generation.
fn block(generation: u64, offset: u64) -> Vec<u8> {
    let mut bytes = content(generation, offset, BLOCK as usize);
    bytes[..8].copy_from_slice(&generation.to_le_bytes());
    bytes
}

/// The generation of the block at `offset`, which must be whole. A read beside a write may see a part of
/// each: it is tried again.
fn generation(file: &File, offset: u64) -> u64 {
    for _ in 0..10_000 {
        let mut bytes = vec![0; BLOCK as usize];
        file.read_exact_at(&mut bytes, offset).unwrap();
        let generation = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let expected = if generation == 0 { vec![0; BLOCK as usize] } else { block(generation, offset) };
        if bytes == expected {
            return generation;
        }
    }
    panic!("the block at {offset} is not whole");
}

/// One rank: its blocks of the shared file, everybody's blocks to read, and a file of its own that it also cuts.
fn rank(number: u64, seed: u64) {
    let mut random = Random(seed * 100 + number);
    let shared = open(&managed().join("shared"));
    let own_path = managed().join(format!("own.{number}"));
    let own = open(&own_path);
    // A file without a name goes on, too.
    let nameless_path = managed().join(format!("nameless.{number}"));
    let nameless = open(&nameless_path);
    fs::remove_file(&nameless_path).unwrap();
    let mut nameless_model = vec![0; 40_000];
    nameless.write_all_at(&nameless_model, 0).unwrap();
    let (mut model, mut seen, mut next) = (Vec::new(), vec![0; BLOCKS as usize], 1);
    while !plain("stop").exists() {
        match random.below(10) {
            0..3 => {
                let at = number + RANKS * random.below(BLOCKS / RANKS);
                shared.write_all_at(&block(next, at * BLOCK), at * BLOCK).unwrap();
                seen[at as usize] = next;
                next += 1;
            }
            3..6 => {
                let at = random.below(BLOCKS);
                let found = generation(&shared, at * BLOCK);
                let before = &mut seen[at as usize];
                let own = at % RANKS == number;
                assert!(if own { found == *before } else { found >= *before }, "block {at}: {found} after {before}");
                *before = found;
            }
            6 => step_own(&mut random, &own, &mut model),
            7 => {
                let (offset, length) = (random.below(30_000), 1 + random.below(9_000));
                let bytes = content(next, offset, length as usize);
                nameless.write_all_at(&bytes, offset).unwrap();
                nameless_model[offset as usize..][..length as usize].copy_from_slice(&bytes);
            }
            8 => {
                let mut found = vec![0; nameless_model.len()];
                nameless.read_exact_at(&mut found, 0).unwrap();
                assert!(found == nameless_model, "the file without a name differs");
            }
            _ if random.below(20) == 0 => shared.sync_all().unwrap(),
            _ => step_own(&mut random, &own, &mut model),
        }
    }
    fs::write(plain(&format!("own.{number}")), &model).unwrap();
    let mine: Vec<u8> = seen.iter().flat_map(|generation: &u64| generation.to_le_bytes()).collect();
    fs::write(plain(&format!("seen.{number}")), mine).unwrap();
}

fn step_own(random: &mut Random, file: &File, model: &mut Vec<u8>) {
    let offset = random.below(200_000);
    let longest = if random.below(4) == 0 { 60_000 } else { 5_000 };
    let length = 1 + random.below(longest);
    match random.below(10) {
        0..5 => {
            let bytes = content(random.below(1 << 20), offset, length as usize);
            file.write_all_at(&bytes, offset).unwrap();
            if model.len() < (offset + length) as usize {
                model.resize((offset + length) as usize, 0);
            }
            model[offset as usize..][..length as usize].copy_from_slice(&bytes);
        }
        5..8 => {
            let mut found = vec![0xee; length as usize];
            let count = file.read_at(&mut found, offset).unwrap();
            let end = model.len().min((offset + length) as usize);
            let expected = model.get(offset as usize..end).unwrap_or_default();
            assert!(found[..count] == *expected, "own file at {offset}: {count} bytes, {} expected", expected.len());
        }
        8 => {
            file.set_len(offset).unwrap();
            model.resize(offset as usize, 0);
        }
        _ => file.sync_data().unwrap(),
    }
    assert_eq!(file.metadata().unwrap().len(), model.len() as u64);
}

fn seed() -> u64 {
    let fixed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    fixed.unwrap_or(now.as_nanos() as u64 % 1_000_000)
}

/// The next agent after `last`, once it answers.
fn next_agent(site: &TestSite, last: i32) -> i32 {
    let mut found = last;
    wait_for("another agent serves", || {
        found = site.agent().unwrap_or(last);
        found != last
    });
    found
}

#[test]
fn programs_go_on_while_the_agent_is_killed_again_and_again() {
    let test = "programs_go_on_while_the_agent_is_killed_again_and_again";
    if let Some(role) = role() {
        let numbers: Vec<u64> = role.split('.').map(|number| number.parse().unwrap()).collect();
        if let [number, seed] = numbers[..] {
            return rank(number, seed);
        }
        let shared = open(&managed().join("shared"));
        shared.set_len(BLOCKS * BLOCK).unwrap();
        let ranks: Vec<Child> = (0..RANKS).map(|rank| spawn(test, &format!("{rank}.{}", numbers[0]))).collect();
        let ended: Vec<bool> = ranks.into_iter().map(|mut rank| rank.wait().unwrap().success()).collect();
        assert!(ended.iter().all(|success| *success), "a rank failed");
        return;
    }
    let seed = seed();
    println!("SEED={seed}");
    let mut random = Random(seed);
    for capacity in ["256KiB", "4MiB"] {
        let site = TestSite::with_capacity(capacity);
        let run = site.play(&[], test, &seed.to_string()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut agent = next_agent(&site, 0);
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(600 + random.below(500)));
            kill(agent, Signal::SIGKILL);
            agent = next_agent(&site, agent);
        }
        let report = site.figure("/threads");
        fs::write(site.path("plain").join("stop"), b"").unwrap();
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "SEED={seed} {capacity}: {}", site.say(&output));
        assert_eq!(said.matches("starting another one").count(), 12, "{said}");
        assert!(report > 0, "nobody took part");
        for rank in 0..RANKS {
            let expected = fs::read(site.path("plain").join(format!("own.{rank}"))).unwrap();
            assert!(fs::read(site.slow.join(format!("own.{rank}"))).unwrap() == expected, "SEED={seed}: rank {rank}");
            let seen = fs::read(site.path("plain").join(format!("seen.{rank}"))).unwrap();
            let shared = File::open(site.slow.join("shared")).unwrap();
            for (at, seen) in (0..BLOCKS).zip(seen.chunks(8)) {
                let (found, seen) = (generation(&shared, at * BLOCK), u64::from_le_bytes(seen.try_into().unwrap()));
                let own = at % RANKS == rank;
                assert!(if own { found == seen } else { found >= seen }, "SEED={seed}: block {at}: {found}, {seen}");
            }
        }
        site.succeed(&["stop"]);
    }
}

/// Writes blocks of growing generations, and says outside what was acknowledged.
fn victim() {
    let (file, acknowledged) = (open(&managed().join("victim")), open(&plain("acknowledged")));
    file.set_len(16 * BLOCK).unwrap();
    acknowledged.set_len(16 * 8).unwrap();
    let word = |at: u64| {
        let mut bytes = [0; 8];
        acknowledged.read_exact_at(&mut bytes, at * 8).unwrap();
        u64::from_le_bytes(bytes)
    };
    let mut next = 0;
    for at in 0..16 {
        let found = generation(&file, at * BLOCK);
        assert!(found >= word(at), "block {at} is {found}, {} was acknowledged", word(at));
        next = next.max(found).max(word(at));
    }
    fs::write(plain("victim.new"), std::process::id().to_string()).unwrap();
    fs::rename(plain("victim.new"), plain("victim.pid")).unwrap();
    while !plain("stop").exists() {
        next += 1;
        let at = next % 16;
        file.write_all_at(&block(next, at * BLOCK), at * BLOCK).unwrap();
        acknowledged.write_all_at(&next.to_le_bytes(), at * 8).unwrap();
        if next % 64 == 0 {
            assert_eq!(generation(&file, at * BLOCK), next);
        }
    }
}

#[test]
fn a_rank_killed_with_the_agent_loses_nothing_it_was_told_is_written() {
    let test = "a_rank_killed_with_the_agent_loses_nothing_it_was_told_is_written";
    match role().as_deref() {
        Some("victim") => return victim(),
        Some(_) => {
            // One after the other, until one ends by itself; another process keeps the file open.
            let _held = open(&managed().join("victim"));
            while !plain("stop").exists() {
                let status = spawn(test, "victim").wait().unwrap();
                let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
                assert!(killed || status.success(), "{status}");
            }
            let status = spawn(test, "victim").wait().unwrap();
            assert!(status.success(), "{status}");
            return;
        }
        None => {}
    }
    let site = TestSite::with_capacity("256KiB");
    let run = site.play(&[], test, "parent").spawn().unwrap();
    let mut agent = next_agent(&site, 0);
    let pid_file = site.path("plain").join("victim.pid");
    let mut random = Random(seed());
    for turn in 0..10 {
        wait_for("a victim writes", || pid_file.exists());
        let victim: i32 = fs::read_to_string(&pid_file).unwrap().parse().unwrap();
        fs::remove_file(&pid_file).unwrap();
        std::thread::sleep(Duration::from_millis(600 + random.below(300)));
        let victims = [victim, agent];
        for k in 0..2 {
            kill(victims[(turn + k) % 2], Signal::SIGKILL);
        }
        agent = next_agent(&site, agent);
    }
    wait_for("the last victim writes", || pid_file.exists());
    fs::write(site.path("plain").join("stop"), b"").unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let file = File::open(site.slow.join("victim")).unwrap();
    let acknowledged = fs::read(site.path("plain").join("acknowledged")).unwrap();
    for (at, word) in (0..16).zip(acknowledged.chunks(8)) {
        assert!(generation(&file, at * BLOCK) >= u64::from_le_bytes(word.try_into().unwrap()), "block {at}");
    }
}

#[test]
fn agents_that_cannot_start_under_a_living_program_say_why_and_are_given_up() {
    let test = "agents_that_cannot_start_under_a_living_program_say_why_and_are_given_up";
    if role().is_some() {
        let file = open(&managed().join("a"));
        file.write_all_at(&block(1, 0), 0).unwrap();
        fs::write(plain("written"), b"").unwrap();
        wait_for("the test lets it end", || plain("stop").exists());
        // Closing it would wait for an agent.
        return std::mem::forget(file);
    }
    let site = TestSite::with_capacity("256KiB");
    let run = site.play(&[], test, "program").stderr(std::process::Stdio::piped()).spawn().unwrap();
    let written = site.path("plain").join("written");
    wait_for("the program has written", || written.exists());
    // What was appended is lost with it: an agent that went on could lose what the program was told is written.
    fs::remove_file(site.runtime().join("journal.live")).unwrap();
    // Had it served for less than a tenth of a second, it would count as one of them.
    std::thread::sleep(Duration::from_millis(200));
    site.kill_agent();
    let log = site.runtime().join("log");
    let refused = || fs::read_to_string(&log).unwrap_or_default().matches("whose records in memory are gone").count();
    wait_for("as many agents were refused as are started", || refused() >= 19);
    fs::write(site.path("plain").join("stop"), b"").unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for words in ["starting another one", "still runs with an earlier agent", "19 agents in a row"] {
        assert_eq!(said.matches(words).count(), 1, "'{words}': {}", site.say(&output));
    }
    assert_eq!(said.lines().filter(|line| line.contains("agent")).count(), 3, "one line each: {}", site.say(&output));
    assert!(output.status.success(), "the program itself ended well, and an agent starts without it: {said}");
}
