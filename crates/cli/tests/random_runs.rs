//! Random operations against a byte array, in one run after another, with everything that may happen to the
//! agent in between: nothing, a drain, a stop, kill -9, the loss of memory, a foreign change. Prints its seed
//! and takes `SEED=`.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use site::{TestSite, content, managed, role};

const TEST: &str = "random_operations_over_many_runs_behave_as_on_a_byte_array";
const SIZE_MAX: u64 = 600_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// The file under test and what it must hold.
struct Model {
    random: Random,
    path: PathBuf,
    file: File,
    expected: Vec<u8>,
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

impl Model {
    fn check(&self, offset: u64, length: u64) {
        let mut found = vec![0xee; length as usize];
        let count = self.file.read_at(&mut found, offset).unwrap();
        let end = self.expected.len().min((offset + length) as usize);
        let expected = self.expected.get(offset as usize..end).unwrap_or_default();
        let wrong = found[..count].iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!((count, wrong), (expected.len(), None), "read of {length} at {offset}");
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let end = offset as usize + bytes.len();
        if self.expected.len() < end {
            self.expected.resize(end, 0);
        }
        self.expected[offset as usize..end].copy_from_slice(bytes);
    }

    fn step(&mut self) {
        let offset = self.random.below(SIZE_MAX);
        let length = match self.random.below(4) {
            0 => 1 + self.random.below(100),
            1 => 4096,
            2 => 1 + self.random.below(20_000),
            _ => 1 + self.random.below(200_000),
        };
        let operation = self.random.below(100);
        match operation {
            0..45 => {
                let bytes = content(self.random.below(1 << 20), offset, length as usize);
                self.file.write_all_at(&bytes, offset).unwrap();
                self.write(&bytes, offset);
            }
            45..80 => self.check(offset, length),
            80..86 => {
                self.file.set_len(offset).unwrap();
                self.expected.resize(offset as usize, 0);
            }
            86..90 => {
                let bytes = content(1, offset, length as usize % 5000);
                OpenOptions::new().append(true).open(&self.path).unwrap().write_all(&bytes).unwrap();
                self.write(&bytes, self.expected.len() as u64);
            }
            90..93 => self.file.sync_all().unwrap(),
            93..96 => self.file = open(&self.path),
            96..97 => {
                let moved = self.path.with_extension("moved");
                fs::rename(&self.path, &moved).unwrap();
                self.check(offset, length);
                fs::rename(&moved, &self.path).unwrap();
            }
            97..98 => {
                self.file = OpenOptions::new().read(true).write(true).truncate(true).open(&self.path).unwrap();
                self.expected.clear();
            }
            _ => {
                let bytes = fs::read(&self.path).unwrap();
                assert!(bytes == self.expected, "the whole file differs");
            }
        }
        assert_eq!(fs::metadata(&self.path).unwrap().len(), self.expected.len() as u64, "operation {operation}");
    }
}

fn play(seed: u64) {
    let path = managed().join("a");
    let known = managed().with_file_name("expected");
    let expected = fs::read(&known).unwrap();
    let mut model = Model { random: Random(seed), file: open(&path), path, expected };
    model.check(0, SIZE_MAX * 2);
    for _ in 0..150 {
        model.step();
    }
    model.check(0, SIZE_MAX * 2);
    fs::write(known, &model.expected).unwrap();
}

#[test]
fn random_operations_over_many_runs_behave_as_on_a_byte_array() {
    if let Some(role) = role() {
        return play(role.parse().unwrap());
    }
    let fixed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = fixed.unwrap_or(now.as_nanos() as u64 % 1_000_000);
    for (number, capacity) in ["64KiB", "256KiB", "1MiB"].into_iter().enumerate() {
        let seed = first + number as u64;
        println!("SEED={first} ({capacity})");
        let mut random = Random(seed);
        let site = TestSite::with_capacity(capacity);
        fs::write(site.path("expected"), b"").unwrap();
        let (report, mut absorbed) = (site.path("report.json"), 0);
        let mut story = Vec::new();
        for run in 0..12 {
            let options: &[&str] = if random.below(4) == 0 { &[] } else { &["--keep-dirty"] };
            let policy: &[&str] = if random.below(6) == 0 { &["--policy", "off"] } else { &[] };
            story.push(format!("run {options:?} {policy:?}"));
            let options = [options, policy, &["--report", report.to_str().unwrap()]].concat();
            let output = site.play(&options, TEST, &(seed * 1000 + run).to_string()).output().unwrap();
            assert!(output.status.success(), "SEED={first} {capacity} {story:?}\n{}", site.say(&output));
            let said: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
            absorbed += said["requests"]["absorbed_bytes_total"].as_u64().unwrap();
            story.push(happen(&site, &mut random).into());
        }
        site.succeed(&["drain"]);
        assert!(
            fs::read(site.slow.join("a")).unwrap() == fs::read(site.path("expected")).unwrap(),
            "SEED={first} {capacity} {story:?}: wrong bytes on disk"
        );
        assert!(absorbed > 0, "flash took no part");
        assert!(site.figure("/capacity_bytes") >= site.figure("/mapped_bytes"));
    }
}

/// Something between two runs.
fn happen(site: &TestSite, random: &mut Random) -> &'static str {
    match random.below(6) {
        0 => "nothing",
        1 => {
            site.succeed(&["drain"]);
            "drain"
        }
        2 => {
            site.succeed(&["stop", "--keep-dirty"]);
            "stop"
        }
        3 => {
            site.kill_agent();
            "kill"
        }
        4 => {
            site.kill_agent();
            fs::remove_dir_all(site.runtime_base()).unwrap();
            "loss of memory"
        }
        _ => {
            site.succeed(&["drain"]);
            if random.below(2) == 0 {
                site.kill_agent();
            }
            let length = 1000 + random.below(100_000) as usize;
            let bytes = content(random.below(1 << 20), 0, length);
            fs::write(site.slow.join("a"), &bytes).unwrap();
            fs::write(site.path("expected"), &bytes).unwrap();
            "foreign change"
        }
    }
}
