//! Unmodified programs on several nodes of one managed directory (`lab/nodes`): what one node wrote, the others find,
//! whether it lies on flash or on the disks, and all of it is on the disks at the end.
//!
//! Programs written for these tests lie in `programs_across` and, with those of one node, in `programs/sources`.

#[path = "programs/comparison.rs"]
#[allow(dead_code, reason = "made for programs on one node")]
mod comparison;
#[path = "support/launchers.rs"]
mod launchers;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use comparison::{compiled, has, has_modules};
use launchers::{Launcher, MPICH, OPEN_MPI, built};
use nodes::Nodes;
use serde_json::Value;
use site::{said, text};

/// Debian's, which has its packages.
const PYTHON: &str = "/usr/bin/python3";

/// Nodes with Headstart on what they share.
struct Across {
    nodes: Nodes,
    count: usize,
    slow: PathBuf,
}

impl Across {
    fn up(count: usize) -> Option<Across> {
        let nodes = Nodes::up(count, &[])?;
        let slow = nodes.shared.join("slow");
        nodes::write_site(&nodes, slow.clone(), nodes.shared.join("fast"), "16MiB");
        Some(Across { nodes, count, slow })
    }

    fn names(&self) -> Vec<String> {
        (1..=self.count).map(|node| node.to_string()).collect()
    }

    /// A file of the managed directory, as an argument.
    fn file(&self, name: &str) -> String {
        text(&self.slow.join(name)).to_string()
    }

    /// A file that the nodes share and nobody manages.
    fn outside(&self, name: &str) -> String {
        text(&self.nodes.shared.join(name)).to_string()
    }

    /// The words under `headstart run --keep-dirty` on a node, for at most four minutes.
    fn run<S: AsRef<str>>(&self, node: &str, words: &[S]) -> Command {
        let mut command = nodes::headstart(&self.nodes, node, &["run", "--keep-dirty", "--", "timeout", "240"]);
        command.args(words.iter().map(AsRef::as_ref)).current_dir(&self.nodes.shared);
        command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("LC_ALL", "C.UTF-8")]);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// All of them at once, which must succeed; what each printed.
    fn together(&self, runs: Vec<Command>) -> Vec<String> {
        let started = runs.into_iter().map(|mut run| {
            let child = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            (run, child)
        });
        let started: Vec<_> = started.collect();
        let ended = started.into_iter().map(|(run, child)| (run, child.wait_with_output().unwrap()));
        let ended: Vec<(Command, Output)> = ended.collect();
        for (run, output) in &ended {
            let all: Vec<String> = ended.iter().map(|(_, output)| said(output)).collect();
            assert!(output.status.success(), "{run:?}: {}\n{}\nall: {all:#?}", output.status, said(output));
        }
        ended.into_iter().map(|(_, output)| String::from_utf8_lossy(&output.stdout).into_owned()).collect()
    }

    /// One that must succeed; what it printed.
    fn alone(&self, run: Command) -> String {
        self.together(vec![run]).remove(0)
    }

    /// The words in a node without Headstart.
    fn plainly(&self, node: &str, words: &[&str]) -> String {
        let output = self.nodes.on(node, words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}\n{}", output.status, said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn status(&self, node: &str) -> Value {
        let output = nodes::headstart(&self.nodes, node, &["status", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Flash absorbed writes on each of these nodes.
    fn flash_took_part(&self, nodes: &[&str]) {
        for node in nodes {
            let status = self.status(node);
            let absorbed = status.pointer("/agent/absorbed_requests_total").and_then(Value::as_u64);
            assert!(absorbed > Some(0), "node {node}: nothing was absorbed: {status:#}");
        }
    }

    /// Every node drains and leaves: all bytes are on the disks, and nobody has the directory.
    fn leave(&self) {
        for words in [["drain"], ["stop"]] {
            for node in self.names() {
                let output = nodes::headstart(&self.nodes, &node, &words).output().unwrap();
                assert!(output.status.success(), "node {node}: {words:?}: {}\n{}", output.status, said(&output));
            }
        }
        assert!(!self.slow.join(".headstart-owner").exists());
    }
}

/// A program of this test's.
fn own(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs_across").join(name)).into()
}

/// Ranks on these nodes, started under `headstart run` in the first one.
fn launched(across: &Across, launcher: &Launcher, hosts: [&str; 2], words: &[&str]) -> Command {
    let mut command = across.run("1", &[text(&launcher.path())]);
    command.args(&launcher.launch[1..]).args((launcher.hosts)(hosts[0], hosts[1])).args(words);
    command
}

/// Every byte is read back and verified: by the ranks that wrote it and by others, from flash and from the disks.
fn patterns(launcher: &Launcher, ranks: usize) {
    let Some(across) = launcher.is_there().then(|| Across::up(2)).flatten() else { return };
    let program = built(launcher.program);
    let tile = format!("tile --nx 1 --ny {ranks} --sx 32 --sy 12 --element 48 --header 100 --individual");
    let shapes = [
        "ior --transfer 12345 --block 123450 --order deal_global",
        "ior --transfer 4KiB --block 128KiB --file-per-process --sync --reorder-tasks 2",
        "ior --transfer 16KiB --block 128KiB --collective",
        "hpio --region-count 40 --region-size 1536 --region-spacing 700 --prealloc --individual",
        &tile,
    ];
    let words = |operation: &str, number: usize| {
        let mut words = vec![text(&program).to_string()];
        words.extend(shapes[number].split(' ').map(String::from));
        words.extend(["--op", operation, "--verify", "--json", &across.file(&format!("f{number}"))].map(String::from));
        words
    };
    let verified = |printed: &str| {
        let report: Value = serde_json::from_str(printed.trim()).unwrap();
        assert!(report["phases"].as_array().unwrap().iter().all(|phase| phase["errors"] == 0), "{report:#}");
    };
    for (hosts, operation) in [(["node1", "node2"], "write-read"), (["node2", "node1"], "read")] {
        for number in 0..shapes.len() {
            let words = words(operation, number);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            verified(&across.alone(launched(&across, launcher, hosts, &words)));
        }
        across.flash_took_part(&["1", "2"]);
    }
    across.leave();
    for number in 0..shapes.len() {
        let words = words("read", number);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = launcher.ranks(&across.nodes, ["node1", "node2"], &words).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        verified(&String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn patterns_of_open_mpi_are_verified_across_nodes() {
    patterns(&OPEN_MPI, 4);
}

#[test]
fn patterns_of_mpich_are_verified_across_nodes() {
    patterns(&MPICH, 2);
}

/// On Open MPI alone: Debian has HDF5 for its own MPICH, which ends only now and then across nodes.
#[test]
fn parallel_hdf5_finds_its_datasets_across_nodes() {
    let needed = [("h5pcc.openmpi", "libhdf5-openmpi-dev"), ("h5diff", "hdf5-tools")];
    if !OPEN_MPI.is_there() || !has(&needed) {
        return;
    }
    let Some(across) = Across::up(2) else { return };
    let program = compiled("h5pcc.openmpi", &["datasets.c"], &["-Wall", "-Wextra"]);
    let plain = across.outside("plain.h5");
    for io in ["ompio", "romio321"] {
        let words = |file: &str| {
            let words = ["env", &format!("OMPI_MCA_io={io}"), text(&program), file];
            words.map(String::from)
        };
        let name = format!("{io}.h5");
        for hosts in [["node1", "node2"], ["node2", "node1"]] {
            let words = words(&across.file(&name));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            across.alone(launched(&across, &OPEN_MPI, hosts, &words));
        }
        let words = words(&plain);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = OPEN_MPI.ranks(&across.nodes, ["node1", "node2"], &words).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        for node in ["1", "2"] {
            across.alone(across.run(node, &["h5diff", &plain, &across.file(&name)]));
        }
    }
    across.leave();
    for io in ["ompio", "romio321"] {
        across.plainly("1", &["h5diff", &plain, &across.file(&format!("{io}.h5"))]);
    }
}

#[test]
fn h5py_and_mpi4py_find_their_files_across_nodes() {
    let modules =
        [("h5py._debian_h5py_mpi", "python3-h5py-mpi"), ("mpi4py", "python3-mpi4py"), ("numpy", "python3-numpy")];
    if !OPEN_MPI.is_there() || !has_modules(&modules) {
        return;
    }
    let Some(across) = Across::up(2) else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sources");
    let (mpi_file, serial) = (sources.join("mpi_file.py"), sources.join("h5py_datasets.py"));
    let parallel = own("h5py_parallel.py");
    for (number, hosts) in [["node1", "node2"], ["node2", "node1"]].into_iter().enumerate() {
        let words = [PYTHON, &parallel, &across.file("parallel.h5")];
        let printed = across.alone(launched(&across, &OPEN_MPI, hosts, &words));
        assert_eq!(printed.trim(), "0 wrong");
        let words = [PYTHON, text(&mpi_file), &across.file(&format!("mpi.{number}"))];
        across.alone(launched(&across, &OPEN_MPI, hosts, &words));
    }
    // One node makes a file, the other changes it, and both read the same.
    let file = across.file("serial.h5");
    let one = |node: &str, form: &str| across.alone(across.run(node, &[PYTHON, text(&serial), form, &file]));
    one("1", "create");
    one("2", "change");
    let found = [one("1", "read"), one("2", "read")];
    assert_eq!(found[0], found[1]);
    across.leave();
    assert_eq!(across.plainly("1", &[PYTHON, text(&serial), "read", &file]), found[0]);
}

#[test]
fn readers_on_other_nodes_never_find_anything_older_than_what_was_acknowledged() {
    let Some(across) = Across::up(3) else { return };
    let (file, notes) = (across.file("blocks"), across.outside("notes"));
    fs::write(&file, vec![0; 48 * 4000]).unwrap();
    let readers = ["1", "2", "2", "3", "3"];
    fs::write(&notes, vec![0; (49 + readers.len()) * 4]).unwrap();
    let program = own("readers.py");
    let run = |node: &str, role: &str, seed: usize| {
        let (count, seed) = (readers.len().to_string(), seed.to_string());
        across.run(node, &[PYTHON, &program, role, &file, &notes, &count, &seed])
    };
    let mut runs = vec![run("1", "write", 99)];
    runs.extend(readers.iter().enumerate().map(|(number, node)| run(node, &number.to_string(), number)));
    across.together(runs);
    across.leave();
    assert!(fs::read(&file).unwrap() == [25, 0, 0, 0].repeat(48 * 1000));
}

#[test]
fn a_producer_and_a_consumer_on_two_nodes_hand_files_over_by_renaming_them() {
    let Some(across) = Across::up(2) else { return };
    let program = own("handover.py");
    let directory = across.file("handed");
    fs::create_dir(&directory).unwrap();
    let run = |node: &str, role: &str| across.run(node, &[PYTHON, &program, role, &directory]);
    across.together(vec![run("1", "produce"), run("2", "consume")]);
    across.flash_took_part(&["1"]);
    across.leave();
    // Those that nobody has removed.
    for number in (0..40_usize).filter(|number| number % 4 != 0) {
        let bytes = fs::read(Path::new(&directory).join(format!("taken.{number}"))).unwrap();
        let line = format!("{number} of the producer's; ").into_bytes();
        let expected = line.iter().cycle().take(100 + number * 7919 % 150_000).skip(100);
        assert!(bytes.starts_with(&b"taken".repeat(20)) && bytes[100..].iter().eq(expected), "{number}");
    }
}

#[test]
fn two_nodes_commit_to_one_repository_under_a_lock() {
    let Some(across) = has(&[("git", "git"), ("flock", "util-linux")]).then(|| Across::up(2)).flatten() else { return };
    // A write-back changes ctime, which git would take for a change of the file's.
    let settings = "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=core.trustctime GIT_CONFIG_VALUE_0=false
        export GIT_CONFIG_KEY_1=core.fsync GIT_CONFIG_VALUE_1=all
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; set -e\n";
    let git = |node: &str, script: &str| {
        across.run(node, &["bash".into(), "-c".into(), format!("{settings}cd {}\n{script}", across.file("."))])
    };
    across.alone(git("1", "git init -q -b main r; cd r; seq 3000 >numbers; git add .; git commit -qm first"));
    let commits = |node: &str| {
        git(
            node,
            "cd r; for k in 1 2 3 4 5; do exec 9>>../lock; flock 9
             (hostname; seq $k 500) >$(hostname).$k; (hostname; seq $k 3000) >numbers
             git add -A; git commit -qm \"$(hostname) $k\"; exec 9>&-; done",
        )
    };
    across.together(vec![commits("1"), commits("2")]);
    let look = "cd r; git fsck --full --strict 2>&1; git log --format=%s | sort; git status --porcelain; git ls-files";
    let found = across.together(vec![git("1", look), git("2", look)]);
    assert_eq!(found[0], found[1]);
    for line in ["first", "node1 1", "node1 5", "node2 1", "node2 5", "node2.3"] {
        assert!(found[0].lines().any(|found| found == line), "no '{line}' in {}", found[0]);
    }
    across.leave();
    let script = format!("{settings}cd {}\n{look}", across.file("."));
    assert_eq!(across.plainly("1", &["bash", "-c", &script]), found[0]);
}

#[test]
fn two_nodes_insert_into_one_database() {
    let Some(across) = has(&[("sqlite3", "sqlite3")]).then(|| Across::up(2)).flatten() else { return };
    // Its write-ahead log is a mapping that processes share, which those of several nodes cannot.
    for mode in ["delete", "truncate"] {
        let file = across.file(&format!("{mode}.db"));
        let create = format!("pragma journal_mode={mode}; create table t(p, k, v, primary key(p, k));");
        across.alone(across.run("1", &["sqlite3", &file, &create]));
        let insert = |node: &str, part: usize| {
            let script = format!(
                "for k in $(seq 15); do echo '.timeout 200000'; echo 'pragma journal_mode={mode};'; \
                 echo \"insert into t values({part}, $k, printf('%.*c', {part} * $k * 9, 'y'));\"; done | \
                 sqlite3 {file}"
            );
            across.run(node, &["bash", "-c", &script])
        };
        across.together((1..=4).map(|part| insert(&(part % 2 + 1).to_string(), part)).collect());
        let query = "pragma integrity_check; select p, count(*), sum(length(v)) from t group by p;";
        let look = |node: &str| across.alone(across.run(node, &["sqlite3", "-cmd", ".timeout 200000", &file, query]));
        let found = [look("1"), look("2")];
        let rows: Vec<String> = (1..=4).map(|part| format!("{part}|15|{}", part * 9 * 120)).collect();
        assert_eq!(found[0].trim(), format!("ok\n{}", rows.join("\n")));
        assert_eq!(found[0], found[1]);
    }
    across.leave();
    for mode in ["delete", "truncate"] {
        let query = "pragma integrity_check; select count(*) from t;";
        let found = across.plainly("2", &["sqlite3", &across.file(&format!("{mode}.db")), query]);
        assert_eq!(found, "ok\n60\n");
    }
}

#[test]
fn sizes_and_appends_of_all_nodes_are_those_of_one_file() {
    let Some(across) = Across::up(3) else { return };
    let (file, log, notes) = (across.file("sized"), across.file("log"), across.outside("notes"));
    [&file, &log].iter().for_each(|file| fs::write(file, "").unwrap());
    fs::write(&notes, vec![0; 4096]).unwrap();
    let program = own("sizes.py");
    let nodes = ["1", "1", "2", "3"];
    let run = |(rank, node): (usize, &&str)| {
        across.run(node, &[PYTHON, &program, &file, &log, &notes, &rank.to_string(), &nodes.len().to_string()])
    };
    across.together(nodes.iter().enumerate().map(run).collect());
    across.leave();
    let records = fs::read(&log).unwrap();
    assert_eq!(records.len(), 4 * 120 * 100);
    let mut lines: Vec<&[u8]> = records.chunks(100).collect();
    lines.sort_unstable();
    lines.dedup();
    assert!(lines.len() == 480 && lines.iter().all(|line| line.ends_with(b".\n")));
}
