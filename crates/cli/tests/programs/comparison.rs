//! The same script in a plain directory and, under Headstart, in managed ones.
//!
//! One managed directory has little flash, so that write-back, fetch and eviction run beneath the program;
//! the other has so much that everything stays dirty until the end of the script. Compared are standard
//! output and exit status; what another program under Headstart reads while the bytes are still dirty; and,
//! after the drain, every name, kind, mode, size and byte on the slow directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::site::{HEADSTART, TestSite};

/// Capacities: one that churns beneath a script of a few hundred KiB, one that holds everything.
const CAPACITIES: [&str; 2] = ["192KiB", "256MiB"];

/// Longest time for one script; only a program that hangs needs it.
const SCRIPT_SECONDS_MAX: &str = "400";

/// See the module.
pub struct Comparison {
    /// The managed directories' sites, the one with little flash first.
    pub sites: Vec<TestSite>,
    environment: Vec<(&'static str, PathBuf)>,
    /// Where scripts run without Headstart.
    pub plain: PathBuf,
}

impl Comparison {
    /// Empty directories. Nothing, and a line that says why, if one of `programs` is missing: pairs of a
    /// program and the package to install.
    pub fn new(programs: &[(&str, &str)]) -> Option<Comparison> {
        has(programs).then(|| Comparison::on(CAPACITIES.into_iter().map(TestSite::with_capacity).collect()))
    }

    /// The same on sites made before.
    pub fn on(sites: Vec<TestSite>) -> Comparison {
        let plain = sites[0].path("plain/work");
        for directory in sites.iter().map(managed).chain([plain.clone()]) {
            fs::create_dir(directory).unwrap();
        }
        Comparison { sites, environment: Vec::new(), plain }
    }

    /// A compiled program or a directory that scripts find in the environment.
    pub fn with(mut self, variable: &'static str, path: PathBuf) -> Comparison {
        self.environment.push((variable, path));
        self
    }

    /// Runs the script stock and in every managed directory, and compares. What it printed.
    pub fn same(&self, script: &str) -> String {
        let stock = self.stock(script);
        for site in &self.sites {
            self.under_headstart(site, script, &stock, &["--keep-dirty"]);
            self.read_by_another(site);
            site.succeed(&["drain"]);
            self.same_on_disk(site, script);
        }
        String::from_utf8_lossy(&stock.stdout).into_owned()
    }

    /// The same, with the drain at the end of the run itself.
    pub fn same_once_drained(&self, script: &str) -> String {
        let stock = self.stock(script);
        for site in &self.sites {
            self.under_headstart(site, script, &stock, &[]);
            self.same_on_disk(site, script);
        }
        String::from_utf8_lossy(&stock.stdout).into_owned()
    }

    /// The same, with all bytes left dirty for the next script.
    pub fn same_and_kept_dirty(&self, script: &str) -> String {
        let stock = self.stock(script);
        for site in &self.sites {
            self.under_headstart(site, script, &stock, &["--keep-dirty"]);
        }
        String::from_utf8_lossy(&stock.stdout).into_owned()
    }

    /// Flash absorbed writes and gave them back in every directory; where it is small, other bytes made room for them.
    pub fn flash_took_part(&self) {
        for site in &self.sites {
            for figure in ["absorbed_requests_total", "written_back_extents_total"] {
                assert!(site.figure(&format!("/agent/{figure}")) > 0, "{figure} is zero: {:#}", site.status());
            }
        }
        let small = &self.sites[0];
        assert!(small.figure("/agent/evicted_extents_total") > 0, "nothing was evicted: {:#}", small.status());
    }

    fn script(&self, script: &str) -> [String; 7] {
        ["timeout", "-k", "5", SCRIPT_SECONDS_MAX, "bash", "-c", script].map(String::from)
    }

    /// What a script sees, but for its directory: the same everywhere.
    fn prepare(&self, site: &TestSite, command: &mut Command, directory: &Path) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sources");
        command.current_dir(directory).env("SOURCES", sources).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", site.directory.path()).env("TMPDIR", site.directory.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("HDF5_USE_FILE_LOCKING", "TRUE");
        command.env("CASES", cases().to_string());
        command.envs(self.environment.iter().map(|(name, path)| (name, path)));
    }

    fn stock(&self, script: &str) -> Output {
        let words = self.script(script);
        let site = &self.sites[0];
        let mut command = site.command(&words[0]);
        self.prepare(site, &mut command, &self.plain);
        let output = command.args(&words[1..]).output().unwrap();
        assert_ne!(output.status.code(), Some(124), "without Headstart it hangs: {script}\n{}", site.say(&output));
        output
    }

    /// A script under Headstart, its output with the name of the plain directory for its own.
    pub fn run(&self, site: &TestSite, script: &str, options: &[&str]) -> Output {
        let words = self.script(script);
        let mut command = site.command(HEADSTART);
        self.prepare(site, &mut command, &managed(site));
        let mut output = command.arg("run").args(options).arg("--").args(words).output().unwrap();
        output.stdout = replace(&output.stdout, bytes(&managed(site)), bytes(&self.plain));
        output
    }

    fn under_headstart(&self, site: &TestSite, script: &str, stock: &Output, options: &[&str]) {
        let output = self.run(site, script, options);
        let context = || format!("{script}\n{}\n{:#}", site.say(&output), site.status());
        assert_eq!(output.status.code(), stock.status.code(), "stock:\n{}\n{}", text(stock), context());
        assert!(output.stdout == stock.stdout, "another output than stock:\n{}\n{}", text(stock), context());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("headstart: "), "the library complains: {}", context());
    }

    /// A process of a run of its own reads everything, wherever it is, and sees what lies in the plain directory.
    fn read_by_another(&self, site: &TestSite) {
        let archive = "find . -mindepth 1 | LC_ALL=C sort | tar --no-recursion --mtime=@0 --format=gnu -T - -cf -";
        let plain = self.stock(archive);
        let output = self.run(site, archive, &["--keep-dirty"]);
        assert!(plain.status.success() && output.status.success(), "{}{}", text(&plain), site.say(&output));
        let differs = plain.stdout.iter().zip(&output.stdout).position(|(a, b)| a != b);
        let lengths = (plain.stdout.len(), output.stdout.len());
        if let Some(place) = differs.or((lengths.0 != lengths.1).then(|| lengths.0.min(lengths.1))) {
            let (name, offset) = member(&plain.stdout, place);
            panic!("another process reads other bytes: {name} from {offset} on, {lengths:?}\n{:#}", site.status());
        }
    }

    fn same_on_disk(&self, site: &TestSite, script: &str) {
        assert_eq!(site.figure("/dirty_bytes"), 0, "{script}");
        let (plain, slow) = (tree(&self.plain), tree(&managed(site)));
        let names = |tree: &BTreeMap<PathBuf, Entry>| tree.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&slow), names(&plain), "after {script}");
        for (name, expected) in &plain {
            let found = &slow[name];
            let describe = |entry: &Entry| (entry.mode, entry.links, entry.bytes.len());
            assert_eq!(describe(found), describe(expected), "mode, links, size of {} after {script}", name.display());
            let differs = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            assert_eq!(differs, None, "first wrong byte of {} after {script}\n{:#}", name.display(), site.status());
        }
    }
}

/// Where scripts run under Headstart: not at the top, where Headstart itself says who owns the directory and
/// what is dirty.
pub fn managed(site: &TestSite) -> PathBuf {
    site.slow.join("work")
}

struct Entry {
    mode: u32,
    links: u64,
    bytes: Vec<u8>,
}

/// Everything below a directory, read without Headstart.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            let kind = facts.file_type();
            let bytes = match () {
                () if kind.is_symlink() => bytes(&fs::read_link(&path).unwrap()).to_vec(),
                () if kind.is_file() => fs::read(&path).unwrap(),
                () => Vec::new(),
            };
            if kind.is_dir() {
                left.push(path.clone());
            }
            assert!(!kind.is_socket(), "{} is a socket", path.display());
            // Whether a directory counts its subdirectories as links is the file system's affair.
            let links = if kind.is_dir() { 0 } else { facts.nlink() };
            let name = path.strip_prefix(directory).unwrap().to_path_buf();
            found.insert(name, Entry { mode: facts.mode(), links, bytes });
        }
    }
    found
}

/// The member of a tar archive that holds the byte at `place`, and the byte's offset in it; negative in the header.
fn member(archive: &[u8], place: usize) -> (String, i64) {
    let (mut start, mut name) = (0, String::new());
    while start + 512 <= archive.len() {
        let header = &archive[start..start + 512];
        name = String::from_utf8_lossy(&header[..100]).trim_end_matches('\0').to_string();
        let size = String::from_utf8_lossy(&header[124..135]).to_string();
        let end = start + 512 + usize::from_str_radix(&size, 8).unwrap_or(0).next_multiple_of(512);
        if place < end {
            break;
        }
        start = end;
    }
    (name, place as i64 - start as i64 - 512)
}

/// Whether all `programs` are there, pairs of a program and the package to install; a line that names the
/// first missing one.
pub fn has(programs: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let missing = programs.iter().find(|(name, _)| !is_there(name));
    if let Some((name, package)) = missing {
        println!("SKIPPED: no {name}: apt-get install {package}");
    }
    missing.is_none()
}

/// Whether /usr/bin/python3, which Debian's packages are for, has all modules: pairs of a module and its package.
pub fn has_modules(modules: &[(&str, &str)]) -> bool {
    let imports =
        |module: &str| Command::new("/usr/bin/python3").args(["-c", &format!("import {module}")]).output().ok();
    let missing = modules.iter().find(|(module, _)| !imports(module).is_some_and(|output| output.status.success()));
    if let Some((module, package)) = missing {
        println!("SKIPPED: no Python module {module}: apt-get install {package}");
    }
    missing.is_none()
}

/// A program made of `sources`, in `programs/sources` unless they are paths, by `compiler` with `options`. It
/// lies in a directory of this test run, named after the compiler and the first source.
pub fn compiled<S: AsRef<Path>>(compiler: &str, sources: &[S], options: &[&str]) -> PathBuf {
    let name = sources[0].as_ref().file_name().unwrap().to_string_lossy();
    // Tests at the same time each make their own: a program cannot be started while it is written.
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{}-{number}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join(format!("{compiler}-{name}"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sources");
    let sources = sources.iter().map(|source| own.join(source));
    let output =
        // h5pcc leaves object files where it runs.
        Command::new(compiler).current_dir(&directory).arg("-O1").arg("-o").arg(&program).args(sources).args(options).output().unwrap();
    assert!(output.status.success(), "{compiler} {name}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// How many times the usual effort is wanted.
pub fn cases() -> usize {
    std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        let (taken, copied) = if rest.starts_with(old) { (old.len(), new) } else { (1, std::slice::from_ref(first)) };
        result.extend_from_slice(copied);
        rest = &rest[taken..];
    }
    result
}
