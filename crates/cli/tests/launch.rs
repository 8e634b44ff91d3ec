//! Runs whose programs are started on several nodes (`lab/nodes`): by Open MPI, by MPICH, and by launchers that only
//! hand their environment on, as Slurm's srun does.
//!
//! Ranks of real launchers share a directory with those of the other node. What concerns one node's agent alone is
//! seen on directories that each node has of its own, at the same path. A node cannot take part where its site file
//! differs from that of a node which has the directory: the site files lie in each node's own memory then.

#[path = "support/launchers.rs"]
mod launchers;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use launchers::{Launcher, MPICH, OPEN_MPI, OPEN_MPI_5};
use nodes::{Nodes, managed, managed_in, write_word};
use site::{HEADSTART, TestSite, said, text, wait_for};

/// In each node's own memory.
const SLOW: &str = "/var/tmp/slow";
const FAST: &str = "/var/tmp/fast";

/// Of a node's own, where nodes are to differ.
const OWN_SITE: &str = "/var/tmp/site.toml";

/// Nodes, each with a managed directory of its own.
fn apart(nodes: &Nodes, count: usize) -> impl Fn(&str, &[&str]) -> Command {
    for node in 1..=count {
        nodes.sh(&node.to_string(), &format!("mkdir {SLOW} {FAST}; printf OLD >{SLOW}/file"));
    }
    managed_in(nodes, SLOW.into(), FAST.into())
}

/// Two nodes with one managed directory and site files of their own, of which the second one's differs.
fn differing(nodes: &Nodes) -> impl Fn(&str, &[&str]) -> Command {
    let headstart = managed(nodes);
    for (node, hold) in [("1", ""), ("2", "\n[cluster]\nhold_s = 7\n")] {
        nodes.sh(node, &format!("(cat $SHARED/site.toml; printf '{hold}') >{OWN_SITE}"));
    }
    move |node, words| {
        let mut command = headstart(node, words);
        command.env("HEADSTART_SITE", OWN_SITE);
        command
    }
}

/// `headstart run OPTIONS -- LAUNCHER WORDS` in node 1.
fn run(
    headstart: &impl Fn(&str, &[&str]) -> Command,
    options: &[&str],
    launcher: &Launcher,
    more: &[&str],
    words: &[&str],
) -> Output {
    let mut command = headstart("1", &["run"]);
    command.args(options).args(["--", "timeout", "300"]).arg(launcher.path()).args(&launcher.launch[1..]).args(more);
    command.args((launcher.hosts)("node1", "node2")).args(words).output().unwrap()
}

/// A figure of the agent of a node.
fn figure(headstart: &impl Fn(&str, &[&str]) -> Command, node: &str, name: &str) -> Option<u64> {
    let output = headstart(node, &["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    status.get(name)?.as_u64()
}

/// What a rank finds: its node, whether the library is in it, a setting; and it writes.
const RANK: &str = "echo rank on $(hostname): library $(grep -c -m1 libheadstart.so /proc/self/maps) user $OF_USER; \
                    printf NEW | dd of=/var/tmp/slow/file conv=notrunc status=none";

/// The same in the directory that the nodes share, to a file of its node's.
fn rank(slow: &Path) -> String {
    RANK.replace("/var/tmp/slow/file", &format!("{}/file.$(hostname)", text(slow)))
}

fn ranks_on_two_nodes(nodes: &Nodes, launcher: &Launcher, more: &[&str]) {
    let headstart = managed(nodes);
    let slow = nodes.shared.join("slow");
    let on_disk = |node: &str| fs::read_to_string(slow.join(format!("file.node{node}"))).unwrap();
    ["1", "2"].iter().for_each(|node| fs::write(slow.join(format!("file.node{node}")), "OLD").unwrap());
    let output = run(&headstart, &["--keep-dirty"], launcher, more, &["sh", "-c", &rank(&slow)]);
    assert!(output.status.success(), "{}", said(&output));
    for node in ["1", "2"] {
        let line = format!("rank on node{node}: library 1 user");
        assert!(said(&output).contains(&line), "no '{line}' in {}", said(&output));
        assert_eq!(on_disk(node), "OLD", "node {node}: it is on flash alone");
        assert_eq!(figure(&headstart, node, "dirty_bytes"), Some(3), "node {node}");
        assert_eq!(nodes.sh(node, "pgrep -c -f '[h]eadstart agent'"), "1", "node {node}");
    }
    // What another node's ranks wrote, and what one's own did. Each node's run drains what is dirty there.
    let read = format!("cat {slow}/file.node1 {slow}/file.node2; echo", slow = text(&slow));
    let output = run(&headstart, &[], launcher, more, &["sh", "-c", &read]);
    assert!(output.status.success(), "{}", said(&output));
    let read = String::from_utf8_lossy(&output.stdout);
    assert!(read.matches("NEWNEW").count() >= 2 && !read.contains("OLD"), "{}", said(&output));
    for node in ["1", "2"] {
        wait_for("its drain", || on_disk(node) == "NEW");
        assert!(headstart(node, &["stop"]).status().unwrap().success());
    }
}

#[test]
fn ranks_that_open_mpi_starts_on_another_node_are_in_the_run() {
    if let Some(nodes) = OPEN_MPI.is_there().then(|| Nodes::up(2, &[])).flatten() {
        ranks_on_two_nodes(&nodes, &OPEN_MPI, &["-x", "OF_USER=1"]);
    }
}

#[test]
fn ranks_that_open_mpi_5_starts_on_another_node_are_in_the_run() {
    if let Some(nodes) = OPEN_MPI_5.is_there().then(|| Nodes::up(2, &[])).flatten() {
        ranks_on_two_nodes(&nodes, &OPEN_MPI_5, &["-x", "OF_USER=1"]);
    }
}

#[test]
fn ranks_that_mpich_starts_on_another_node_are_in_the_run() {
    if let Some(nodes) = MPICH.is_there().then(|| Nodes::up(2, &[])).flatten() {
        ranks_on_two_nodes(&nodes, &MPICH, &[]);
    }
}

/// Daemons of Open MPI start others in their turn, as they do on many nodes.
#[test]
fn daemons_that_daemons_start_are_in_the_run() {
    let Some(nodes) = OPEN_MPI.is_there().then(|| Nodes::up(3, &[])).flatten() else { return };
    let headstart = apart(&nodes, 3);
    let mut command = headstart("1", &["run", "--", "timeout", "300", "mpirun.openmpi", "--oversubscribe"]);
    command.args([
        "--mca",
        "routed",
        "radix",
        "--mca",
        "routed_radix",
        "1",
        "-H",
        "node1,node2,node3",
        "sh",
        "-c",
        RANK,
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for node in ["1", "2", "3"] {
        assert!(said(&output).contains(&format!("rank on node{node}: library 1")), "{}", said(&output));
        assert!(headstart(node, &["drain"]).status().unwrap().success());
        assert_eq!(nodes.sh(node, &format!("cat {SLOW}/file")), "NEW");
        assert!(headstart(node, &["stop"]).status().unwrap().success());
    }
}

#[test]
fn ranks_on_another_node_are_traced_too() {
    let launchers = [&OPEN_MPI, &MPICH].into_iter().filter(|launcher| launcher.is_there());
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = apart(&nodes, 2);
    for launcher in launchers {
        let trace = nodes.shared.join(launcher.program);
        let mut command = headstart("1", &["trace", "--output", text(&trace), "--", "timeout", "300"]);
        command.arg(launcher.path()).args(&launcher.launch[1..]).args((launcher.hosts)("node1", "node2"));
        let output = command.args(["sh", "-c", RANK]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output).matches("the trace is in").count(), 1, "{}", said(&output));
        let names: Vec<String> =
            fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        for node in ["node1.", "node2."] {
            assert!(names.iter().any(|name| name.starts_with(node)), "{node}: {names:?}");
        }
        assert_eq!(nodes.sh("2", &format!("cat {SLOW}/file")), "NEW", "no agent had it");
    }
}

/// It fails, says why, and no rank has begun on the second node. MPICH starts those of the first meanwhile.
fn refused(nodes: &Nodes, output: &Output, words: &[&str]) {
    assert!(!output.status.success(), "{}", said(output));
    for word in words {
        assert!(said(output).contains(word), "no '{word}' in {}", said(output));
    }
    assert!(!said(output).contains("OLD"), "{}", said(output));
    assert!(!nodes.shared.join("began.node2").exists(), "{}", said(output));
}

/// What a rank does that must not come to run on the second node.
fn forbidden(nodes: &Nodes, file: &Path) -> String {
    format!(
        ": >{}.$(hostname); test $(hostname) = node1 || cat {}",
        nodes.shared.join("began").display(),
        file.display()
    )
}

#[test]
fn a_node_that_cannot_take_part_ends_the_job_before_a_rank_starts_there() {
    if !OPEN_MPI.is_there() || !MPICH.is_there() {
        return;
    }
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = differing(&nodes);
    let file = nodes.shared.join("slow/file");
    fs::write(&file, "OLD").unwrap();
    let output = headstart("1", &["run", "--keep-dirty", "--", "sh", "-c", &write_word("NEW", &file)]).output();
    assert!(output.unwrap().status.success());
    let slow = nodes.shared.join("slow");
    for launcher in [&OPEN_MPI, &MPICH, &OPEN_MPI_5].into_iter().filter(|launcher| launcher.is_there()) {
        let output = run(&headstart, &["--keep-dirty"], launcher, &[], &["sh", "-c", &forbidden(&nodes, &file)]);
        let words = ["node node2 cannot take part", "began on node node1", text(&slow), "hold_s is 30", "here it is 7"];
        refused(&nodes, &output, &words);
    }
    // A run of its own on each node: the second one is refused, and with it the job.
    let variable = format!("HEADSTART_SITE={OWN_SITE}");
    let words = ["env", &variable, HEADSTART, "run", "--keep-dirty", "--", "cat", text(&file)];
    let output = OPEN_MPI.ranks(&nodes, ["node1", "node2"], &words).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("on node node1") && !said(&output).contains("OLD"), "{}", said(&output));
    assert!(headstart("1", &["drain"]).status().unwrap().success());
    assert!(headstart("1", &["stop"]).status().unwrap().success());
}

/// The dynamic linker only grumbles about a library that is missing, and the program would read the disks.
#[test]
fn a_node_without_headstart_ends_the_job_before_a_rank_starts_there() {
    if !OPEN_MPI.is_there() || !MPICH.is_there() {
        return;
    }
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = apart(&nodes, 2);
    // What is installed below /var/tmp is in memory of node 1 alone.
    let beside = Path::new(HEADSTART).with_file_name("libheadstart.so");
    nodes.sh("1", &format!("mkdir /var/tmp/bin; cp {HEADSTART} {} /var/tmp/bin", text(&beside)));
    let site = nodes.shared.join("site.toml");
    let script = forbidden(&nodes, &Path::new(SLOW).join("file"));
    for (program, library, word) in [
        ("/var/tmp/bin/headstart", "/var/tmp/bin/libheadstart.so", "/var/tmp/bin/headstart"),
        (HEADSTART, "/var/tmp/bin/libheadstart.so", "/var/tmp/bin/libheadstart.so, which does not exist"),
    ] {
        for launcher in [&OPEN_MPI, &MPICH] {
            let mut command = nodes.on("1", &["env"]);
            command.args([format!("HEADSTART_SITE={}", site.display()), format!("HEADSTART_LIBRARY={library}")]);
            command.args([program, "run", "--", "timeout", "300"]).arg(launcher.path()).args(&launcher.launch[1..]);
            command.args((launcher.hosts)("node1", "node2")).args(["sh", "-c", &script]);
            refused(&nodes, &command.output().unwrap(), &[word]);
        }
    }
    // On the first node a program runs on the disks alone then.
    nodes.sh("2", &format!("rm -r {FAST}"));
    let output = run(&headstart, &[], &OPEN_MPI, &[], &["sh", "-c", &script]);
    refused(&nodes, &output, &["node node2 cannot take part", FAST]);
    assert!(headstart("1", &["stop"]).status().unwrap().success());
}

/// Starts a command on each of some nodes with its own environment, as srun does: `srun NODES COMMAND`.
fn srun(nodes: &Nodes) -> PathBuf {
    let path = nodes.shared.join("srun");
    let script = "#!/usr/bin/python3\n\
        import os, shlex, subprocess, sys\n\
        environment = shlex.join(f'{name}={value}' for name, value in os.environ.items())\n\
        words = f'cd {shlex.quote(os.getcwd())} && exec env - {environment} {shlex.join(sys.argv[2:])}'\n\
        rsh = os.environ['OMPI_MCA_plm_rsh_agent']\n\
        steps = [subprocess.Popen([rsh, node, words]) for node in sys.argv[1].split(',')]\n\
        sys.exit(max([step.wait() for step in steps]))\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn ranks_of_a_launcher_that_hands_its_environment_on_start_an_agent_where_there_is_none() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = apart(&nodes, 2);
    let srun = srun(&nodes);
    let ranks = format!("exec 9>/var/tmp/held; {RANK} & {RANK} & {RANK} & wait");
    let output = headstart("1", &["run", "--", text(&srun), "node1,node2,node2", "sh", "-c", &ranks]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output).matches("rank on node2: library 1").count(), 6, "{}", said(&output));
    assert_eq!(nodes.sh("2", "pgrep -c -x headstart"), "1", "one for all of them");
    let blocked = |node| nodes.sh(node, "grep SigBlk /proc/$(pgrep -x headstart)/status");
    assert_eq!(blocked("2"), blocked("1"), "it hears the same signals as one that a run starts");
    nodes.sh("2", "! ls -l /proc/$(pgrep -x headstart)/fd | grep held");
    assert_eq!(nodes.sh("2", &format!("cat {SLOW}/file")), "OLD");
    assert_eq!(figure(&headstart, "2", "dirty_bytes"), Some(3));
    // One that is killed is followed by another.
    nodes.sh("2", "pkill -9 -x headstart");
    let output = headstart("1", &["run", "--", text(&srun), "node2", "cat", &format!("{SLOW}/file")]).output().unwrap();
    assert!(output.status.success() && said(&output) == "NEW", "{}", said(&output));
    // What started the agent is no child of the program's that it could come upon.
    assert!(headstart("2", &["stop", "--keep-dirty"]).status().unwrap().success());
    let program = format!(
        "import os, signal\nsignal.signal(signal.SIGCHLD, lambda *_: print('a signal came'))\n\
         print(open('{SLOW}/file').read())\nos.wait()"
    );
    let output = headstart("1", &["run", "--", text(&srun), "node2", "python3", "-c", &program]).output().unwrap();
    assert!(said(&output).contains("ChildProcessError") && !said(&output).contains("a signal"), "{}", said(&output));
    // No run of its own is there to drain.
    assert!(headstart("2", &["drain"]).status().unwrap().success());
    assert_eq!(nodes.sh("2", &format!("cat {SLOW}/file")), "NEW");
    ["1", "2"].iter().for_each(|node| assert!(headstart(node, &["stop"]).status().unwrap().success()));
}

/// As Open MPI's are that srun starts: the library is in them, and would ask an agent before there is one.
#[test]
fn a_daemon_that_has_the_library_already_becomes_a_run_of_its_node() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = apart(&nodes, 2);
    let script = format!("set -- $HEADSTART_LAUNCH; {} node2 $1 launch $2 sh -c '{RANK}'", text(&srun(&nodes)));
    let output = headstart("1", &["run", "--", "sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("rank on node2: library 1"), "{}", said(&output));
    assert_eq!(nodes.sh("2", &format!("cat {SLOW}/file")), "NEW", "it has drained");
    assert_eq!(figure(&headstart, "2", "mapped_bytes"), Some(4096), "by way of flash");
    ["1", "2"].iter().for_each(|node| assert!(headstart(node, &["stop"]).status().unwrap().success()));
    // Where it cannot, it reads what the other node put into a managed directory.
    let headstart = differing(&nodes);
    let output = headstart("1", &["run", "--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("is in use on node node1, where [cluster] hold_s is 30"), "{}", said(&output));
    assert_eq!(said(&output).matches("cannot take part").count(), 1, "{}", said(&output));
    assert!(headstart("1", &["stop"]).status().unwrap().success());
}

/// Each rank writes a file of its own and reads those of all others: what lies on another node's flash comes from there.
#[test]
fn ranks_of_a_launcher_that_hands_its_environment_on_share_a_directory() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = managed(&nodes);
    let (slow, srun) = (nodes.shared.join("slow"), srun(&nodes));
    let script = format!(
        "import os\nslow, own = {:?}, int(os.environ['OWN'])\nranks = range(4)\n\
         piece = lambda rank, k: bytes([16 * rank + k + 1]) * 3000\n\
         fd = os.open(f'{{slow}}/{{own}}', os.O_RDWR | os.O_CREAT)\n\
         for k in range(16): os.pwrite(fd, piece(own, k), 3000 * k)\n\
         open(f'{{slow}}/{{own}}.done', 'w').close()\n\
         import time\n\
         for rank in ranks:\n  \
           while not os.path.exists(f'{{slow}}/{{rank}}.done'): time.sleep(0.02)\n  \
           found = open(f'{{slow}}/{{rank}}', 'rb').read()\n  \
           assert found == b''.join(piece(rank, k) for k in range(16)), (own, rank, len(found))\n\
         print(f'rank {{own}} on {{os.uname().nodename}} is done')",
        text(&slow)
    );
    // One after another in a node, as a step of two tasks is there.
    let file = nodes.shared.join("ranks.py");
    fs::write(&file, script).unwrap();
    let ranks = format!(
        "first=$(($(hostname | tail -c 2) * 2 - 2)); OWN=$first python3 {file} & OWN=$((first + 1)) python3 {file} && wait $!",
        file = text(&file)
    );
    let words = ["run", "--keep-dirty", "--", text(&srun), "node1,node2", "sh", "-c", &ranks];
    let output = headstart("1", &words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for rank in 0..4 {
        let line = format!("rank {rank} on node{} is done", rank / 2 + 1);
        assert!(said(&output).contains(&line), "no '{line}' in {}", said(&output));
    }
    for node in ["1", "2"] {
        assert!(headstart(node, &["drain"]).status().unwrap().success());
        assert!(headstart(node, &["stop"]).status().unwrap().success());
    }
    for rank in 0..4_u8 {
        let expected: Vec<u8> = (0..16).flat_map(|k| vec![16 * rank + k + 1; 3000]).collect();
        assert!(fs::read(slow.join(rank.to_string())).unwrap() == expected, "rank {rank}");
    }
}

#[test]
fn ranks_of_a_launcher_that_hands_its_environment_on_fail_where_their_node_cannot_take_part() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = differing(&nodes);
    let (file, srun) = (nodes.shared.join("slow/file"), srun(&nodes));
    fs::write(&file, "OLD").unwrap();
    let script = format!(
        "test $(hostname) != node1 || {{ {}; : >{flag}; }}; until test -e {flag}; do sleep 0.05; done; cat {}",
        write_word("NEW", &file),
        file.display(),
        flag = nodes.shared.join("written").display()
    );
    let words = ["run", "--keep-dirty", "--", text(&srun), "node1,node2", "sh", "-c", &script];
    let output = headstart("1", &words).output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    let slow = nodes.shared.join("slow");
    for words in ["node node2 cannot take part", "began on node node1", text(&slow), "Input/output error"] {
        assert!(said(&output).contains(words), "no '{words}' in {}", said(&output));
    }
    assert!(said(&output).contains("NEW") && !said(&output).contains("OLD"), "{}", said(&output));
    // A name that the first node was given is not the other's: it would take itself for the owner.
    assert!(headstart("1", &["drain"]).status().unwrap().success());
    assert!(headstart("1", &["stop"]).status().unwrap().success());
    let words = ["run", "--", text(&srun), "node2", "cat", text(&file)];
    let output = headstart("1", &words).env("HEADSTART_NODE", "first").output().unwrap();
    for words in ["node node2 cannot take part", "began on node first", "is in use on node first"] {
        assert!(said(&output).contains(words), "no '{words}' in {}", said(&output));
    }
    assert!(headstart("1", &["stop"]).env("HEADSTART_NODE", "first").status().unwrap().success());
    // Also where the directory seems to be nobody's: what the first node put there may not be seen here yet.
    let gone =
        |names: &str| format!("cd {} && for f in .headstart-owner HEADSTART-DIRTY; do {names}; done", text(&slow));
    let hidden = gone("test ! -e $f || mv $f ../$f");
    let script = format!("{}; {hidden}; {} node2 cat {}", write_word("NEWER", &file), text(&srun), file.display());
    let output = headstart("1", &["run", "--keep-dirty", "--", "sh", "-c", &script]).output().unwrap();
    nodes.sh("1", &gone("test ! -e ../$f || mv ../$f $f"));
    assert!(said(&output).contains("Input/output error"), "{}", said(&output));
    assert!(!said(&output).contains("OLD"), "{}", said(&output));
    assert!(headstart("1", &["drain"]).status().unwrap().success());
    assert!(headstart("1", &["stop"]).status().unwrap().success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "NEWER");
}

/// Two ranks on one node, each with a run of its own. The first ends while the second one's program lives, which looks
/// what the disk has then; and what a run leaves behind that is no rank.
fn the_last_drains(site: &TestSite, by: &str, launched: impl FnOnce(&str) -> Output) {
    let (file, began, ended) = (site.slow.join(by), site.path("began"), site.path("ended"));
    fs::write(&file, "OLD").unwrap();
    let wait = |flag: &Path| format!("until test -e {}; do sleep 0.05; done", flag.display());
    let first = format!("{}; {}", wait(&began), write_word("NEW", &file));
    let second = format!(": >{}; {}; HEADSTART=off cat {}", began.display(), wait(&ended), file.display());
    let rank = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}";
    let script = format!(
        "if test {rank} = 0; then {HEADSTART} run -- sh -c '{first}' && : >{}; \
         else {HEADSTART} run -- sh -c '{second}'; fi",
        ended.display()
    );
    let output = launched(&script);
    assert!(output.status.success() && said(&output) == "OLD", "{by}: {}", said(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "NEW", "{by}: the last one drained for both");
    [began, ended].iter().for_each(|flag| fs::remove_file(flag).unwrap());
}

#[test]
fn the_last_rank_of_a_job_drains_for_all_of_its_node() {
    let site = TestSite::with_capacity("16MiB");
    // As Slurm starts them.
    the_last_drains(&site, "srun", |script| {
        let task = |rank: &str| {
            let mut command = site.command("sh");
            command.args(["-c", script]).envs([("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0"), ("SLURM_PROCID", rank)]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let tasks = [task("0"), task("1")];
        let [first, second] = tasks.map(|task| task.wait_with_output().unwrap());
        assert!(first.status.success(), "{}", said(&first));
        second
    });
    for launcher in [&OPEN_MPI, &MPICH].into_iter().filter(|launcher| launcher.is_there()) {
        the_last_drains(&site, launcher.program, |script| {
            let mut command = site.command("timeout");
            command.arg("300").arg(launcher.path()).args(&launcher.launch[1..]).args(["-n", "2", "sh", "-c", script]);
            command.output().unwrap()
        });
    }
}
