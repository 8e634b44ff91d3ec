//! Clusters of nodes on one machine (`lab/nodes`): that they are what tests take them for, that real launchers
//! of MPI run programs across them, and what Headstart says on a node while no agent of the directory's other nodes is
//! there to be joined.

#[path = "support/launchers.rs"]
mod launchers;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use launchers::{Launcher, MPICH, OPEN_MPI, built};
use nodes::{Nodes, managed, write_word};
use site::{said, text, wait_for};

#[test]
fn nodes_have_names_boots_processes_and_memory_of_their_own_and_share_a_directory() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    for question in ["hostname", "cat /proc/sys/kernel/random/boot_id", "readlink /proc/self/ns/net", "stat -c %d /tmp"]
    {
        assert_ne!(nodes.sh("1", question), nodes.sh("2", question), "{question}");
    }
    assert_eq!(nodes.sh("1", "hostname"), "node1");
    assert_ne!(nodes.sh("1", "cat /etc/machine-id"), fs::read_to_string("/etc/machine-id").unwrap_or_default().trim());
    let name = format!("own-{}", std::process::id());
    for directory in ["/tmp", "/var/tmp", "/dev/shm", "/run"] {
        nodes.sh("1", &format!("echo one >{directory}/{name}"));
        nodes.sh("2", &format!("test ! -e {directory}/{name}"));
        assert!(!Path::new(directory).join(&name).exists(), "{directory} of the machine");
    }
    // Clocks that count from the boot are far apart, where the kernel can do that.
    if Path::new("/proc/self/ns/time").exists() {
        let up = |node| nodes.sh(node, "cut -d. -f1 /proc/uptime").parse::<u64>().unwrap();
        assert!(up("2") > up("1") + 50_000);
    }
    // The same numbers mean other processes.
    assert_eq!(nodes.sh("1", "cat /proc/1/comm"), nodes.sh("2", "cat /proc/1/comm"));
    nodes.sh("1", "sleep 1000 >/dev/null 2>&1 & echo $! >$SHARED/pid");
    nodes.sh("1", "kill -0 $(cat $SHARED/pid)");
    nodes.sh("2", "! grep -qs sleep /proc/$(cat $SHARED/pid)/comm");

    nodes.sh("1", "echo written on one >$SLOW/file");
    assert_eq!(nodes.sh("2", "cat $SLOW/file"), "written on one");
    assert_eq!(nodes.on("2", &["sh", "-c", "exit 7"]).output().unwrap().status.code(), Some(7));
    assert_eq!(nodes.on("3", &["true"]).output().unwrap().status.code(), Some(255), "there is no third");
}

#[test]
fn a_node_without_power_loses_its_memory_and_nothing_that_is_shared() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let boot = nodes.sh("2", "cat /proc/sys/kernel/random/boot_id");
    nodes.sh("2", "echo gone >/dev/shm/memory; echo there >$SHARED/disk");
    let mut program = nodes.on("2", &["sleep", "1000"]).spawn().unwrap();
    wait_for("the program runs", || !nodes.sh("2", "pgrep -x sleep || :").is_empty());
    nodes.succeed(&["kill", "2"]);
    wait_for("its caller hears of it", || program.try_wait().unwrap().is_some());
    assert_eq!(program.wait().unwrap().code(), Some(255), "nobody knows what became of it");
    let output = nodes.on("2", &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(255), "{}", said(&output));
    assert!(nodes.succeed(&["status"]).contains("node2  10.77.0.2  down"));
    assert_eq!(nodes.sh("1", "cat $SHARED/disk"), "there");
    nodes.succeed(&["start", "2"]);
    nodes.sh("2", "test ! -e /dev/shm/memory");
    assert_eq!(nodes.sh("2", "cat $SHARED/disk"), "there");
    assert_ne!(nodes.sh("2", "cat /proc/sys/kernel/random/boot_id"), boot);
}

/// What a node finds where it connects to another one: nobody listens there, which that one says itself, or silence.
fn reached(nodes: &Nodes, from: &str, to: &str, seconds: u32) -> bool {
    let program = format!(
        "import socket\ntry: socket.create_connection(('{to}', 7), {seconds})\n\
         except OSError as error: print(type(error).__name__)"
    );
    let output = nodes.on(from, &["python3", "-c", &program]).output().unwrap();
    match said(&output).trim() {
        "ConnectionRefusedError" => true,
        "TimeoutError" => false,
        other => panic!("{from} to {to}: {other}"),
    }
}

/// Whether a node hears what another one sends it, which takes no answer.
fn heard(nodes: &Nodes, from: &str, to: &str, seconds: u32) -> bool {
    let ended = nodes.shared.join(format!("{from}.{to}"));
    let _ = fs::remove_file(&ended);
    let listen = format!(
        "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.bind(('', 9))\ns.settimeout({seconds})\n\
         try: print(s.recv(9).decode())\nexcept TimeoutError: print('silence')\nopen('{}', 'w')",
        ended.display()
    );
    let send = format!(
        "import socket,os,time\ns = socket.socket(type=socket.SOCK_DGRAM)\n\
         while not os.path.exists('{}'): s.sendto(b'word', ('{to}', 9)); time.sleep(0.05)",
        ended.display()
    );
    let sender = nodes.on(from, &["python3", "-c", &send]).spawn().unwrap();
    let output = nodes.on(to, &["python3", "-c", &listen]).output().unwrap();
    assert!({ sender }.wait().unwrap().success());
    match said(&output).trim() {
        "word" => true,
        "silence" => false,
        other => panic!("{from} to {to}: {other}"),
    }
}

#[test]
fn a_pair_that_is_cut_hears_nothing_of_each_other_until_it_is_healed() {
    let Some(nodes) = Nodes::up(3, &[]) else { return };
    assert!(reached(&nodes, "1", "node2", 60));
    nodes.succeed(&["cut", "1", "2"]);
    assert!(!reached(&nodes, "1", "node2", 1) && !reached(&nodes, "2", "node1", 1));
    assert!(reached(&nodes, "1", "node3", 60) && reached(&nodes, "3", "node2", 60), "all others go on");
    // Also when one of the two comes back without knowing.
    nodes.succeed(&["kill", "2"]);
    nodes.succeed(&["start", "2"]);
    assert!(!heard(&nodes, "node1", "node2", 1) && !heard(&nodes, "node2", "node1", 1));
    assert!(heard(&nodes, "node3", "node2", 60));
    nodes.succeed(&["heal", "1", "2"]);
    assert!(reached(&nodes, "1", "node2", 60) && reached(&nodes, "2", "node1", 60));
    let output = nodes.command(&["cut", "1", "storage"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("--storage moosefs"), "{}", said(&output));
}

#[test]
fn a_stopped_node_does_nothing_until_it_goes_on() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let count = || fs::read_to_string(nodes.shared.join("count")).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let script = "while :; do i=$((i + 1)); echo $i >$SHARED/new; mv $SHARED/new $SHARED/count; sleep 0.01; done";
    nodes.succeed(&["exec", "--detach", "2", "--", "sh", "-c", script]);
    wait_for("it counts", || count() > Some(3));
    nodes.succeed(&["stop", "2"]);
    assert!(nodes.succeed(&["status"]).contains("node2  10.77.0.2  stopped"));
    let before = count();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(count(), before);
    nodes.succeed(&["cont", "2"]);
    wait_for("it goes on", || count() > before);
    nodes.sh("2", "true");
}

/// Every byte is read back, by other nodes' ranks too, and verified.
fn patterns_across_two_nodes(nodes: &Nodes, launcher: &Launcher) {
    let succeeded = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hosts = succeeded(launcher.ranks(nodes, ["node1", "node2"], &["hostname"]));
    for node in ["node1", "node2"] {
        assert!(hosts.lines().any(|line| line == node), "no rank on {node}: {hosts}");
    }
    let program = built(launcher.program);
    for (number, pattern) in [
        "ior --transfer 12345 --block 123450 --order deal_global",
        "ior --transfer 16KiB --block 128KiB --collective",
        "hpio --region-count 40 --region-size 1536 --region-spacing 700 --prealloc --individual",
    ]
    .into_iter()
    .enumerate()
    {
        let file = nodes.shared.join(format!("slow/{}.{number}", launcher.program));
        for (hosts, operation) in [(["node1", "node2"], "write-read"), (["node2", "node1"], "read")] {
            let mut words = vec![text(&program)];
            words.extend(pattern.split(' '));
            words.extend(["--op", operation, "--verify", "--json", text(&file)]);
            let report = succeeded(launcher.ranks(nodes, hosts, &words));
            let report: serde_json::Value = serde_json::from_str(report.trim()).unwrap();
            for phase in report["phases"].as_array().unwrap() {
                // Clocks that count from the boot differ by more.
                assert!(phase["seconds"].as_f64().unwrap() < 10_000.0, "{phase}");
            }
        }
    }
}

#[test]
fn open_mpi_runs_verified_patterns_across_two_nodes() {
    if let Some(nodes) = OPEN_MPI.is_there().then(|| Nodes::up(2, &[])).flatten() {
        patterns_across_two_nodes(&nodes, &OPEN_MPI);
    }
}

#[test]
fn mpich_runs_verified_patterns_across_two_nodes() {
    if let Some(nodes) = MPICH.is_there().then(|| Nodes::up(2, &[])).flatten() {
        patterns_across_two_nodes(&nodes, &MPICH);
    }
}

/// A file system with servers of its own, up to where a node was cut off from it and is back.
fn mounted_in_each_node(storage: &str, launchers: &[Launcher]) -> Option<Nodes> {
    let nodes = Nodes::up(2, &["--storage", storage])?;
    nodes.sh("1", "echo written on one >$SLOW/file");
    assert_eq!(nodes.sh("2", "cat $SLOW/file"), "written on one");
    assert_ne!(nodes.sh("1", "stat -c %d $SLOW"), nodes.sh("2", "stat -c %d $SLOW"), "they are two mounts");
    assert_eq!(nodes.sh("1", "stat -c %i $SLOW/file"), nodes.sh("2", "stat -c %i $SLOW/file"));
    for launcher in launchers.iter().filter(|launcher| launcher.is_there()) {
        patterns_across_two_nodes(&nodes, launcher);
    }
    nodes.succeed(&["cut", "1", "storage"]);
    let mut write = nodes.on("1", &["sh", "-c", "echo cut off >$SLOW/other"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(write.try_wait().unwrap().is_none(), "it waits");
    nodes.sh("2", "echo written on two >$SLOW/file");
    nodes.succeed(&["heal", "1", "storage"]);
    assert!(write.wait().unwrap().success());
    assert_eq!(nodes.sh("1", "cat $SLOW/file $SLOW/other"), "written on two\ncut off");
    Some(nodes)
}

#[test]
fn moosefs_has_a_mount_in_each_node_and_servers_that_a_node_can_be_cut_off_from() {
    let Some(nodes) = mounted_in_each_node("moosefs", &[OPEN_MPI, MPICH]) else { return };
    nodes.succeed(&["kill", "storage"]);
    nodes.succeed(&["start", "storage"]);
    assert_eq!(nodes.sh("2", "cat $SLOW/file $SLOW/other"), "written on two\ncut off", "it was stored");
}

/// Not with Open MPI, whose four ranks take half a minute for each pattern there.
#[test]
fn glusterfs_has_a_mount_in_each_node_and_servers_that_a_node_can_be_cut_off_from() {
    mounted_in_each_node("glusterfs", &[MPICH]);
}

#[test]
fn etcd_on_three_nodes_goes_on_when_it_loses_one() {
    let Some(nodes) = Nodes::up(3, &[]) else { return };
    let Some(endpoints) = nodes.may(&["etcd"]) else { return };
    let control = |node: &str, words: &str| {
        let line = format!("ETCDCTL_API=3 etcdctl --endpoints={} {words}", endpoints.trim());
        let output = nodes.on(node, &["sh", "-c", &line]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    wait_for("it takes a value", || control("1", "put key first").is_some());
    nodes.succeed(&["kill", "3"]);
    wait_for("two take another", || control("1", "put key second").is_some());
    assert_eq!(control("2", "get --print-value-only key").as_deref(), Some("second\n"));
    nodes.succeed(&["start", "3"]);
    nodes.succeed(&["etcd", "3"]);
    nodes.succeed(&["kill", "1"]);
    wait_for("the third is needed and answers", || {
        control("3", "get --print-value-only key").as_deref() == Some("second\n")
    });
}

#[test]
fn a_second_node_is_refused_clearly_while_only_an_agent_that_has_ended_could_answer() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = managed(&nodes);
    let file = nodes.shared.join("slow/file");
    fs::write(&file, "old").unwrap();
    let output =
        headstart("1", &["run", "--keep-dirty", "--", "sh", "-c", &write_word("new", &file)]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(headstart("1", &["stop", "--keep-dirty"]).status().unwrap().success());
    for words in [&["run", "--", "cat", text(&file)][..], &["drain"]] {
        let output = headstart("2", words).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", said(&output));
        for word in [text(&nodes.shared.join("slow")), "node1", "headstart drain", "headstart disown"] {
            assert!(said(&output).contains(word), "no '{word}' in {}", said(&output));
        }
        assert!(!said(&output).contains("old"), "the program must not run");
    }
    assert_eq!(headstart("2", &["check"]).output().unwrap().status.code(), Some(78));
    assert!(headstart("1", &["drain"]).status().unwrap().success());
    assert!(headstart("1", &["stop"]).status().unwrap().success());
    let output = headstart("2", &["run", "--", "cat", text(&file)]).output().unwrap();
    assert!(output.status.success() && said(&output).contains("new"), "{}", said(&output));
    assert!(headstart("2", &["stop"]).status().unwrap().success());
}

#[test]
fn a_node_whose_owner_lost_its_power_is_refused_until_that_is_back() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let headstart = managed(&nodes);
    let file = nodes.shared.join("slow/file");
    fs::write(&file, "old").unwrap();
    let program = format!("{}; sync {}", write_word("new", &file), file.display());
    let output = headstart("1", &["run", "--keep-dirty", "--", "sh", "-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    nodes.succeed(&["kill", "1"]);
    let output = headstart("2", &["run", "--", "cat", text(&file)]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("headstart cluster down"), "{}", said(&output));
    nodes.succeed(&["start", "1"]);
    let output = headstart("1", &["drain"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert!(headstart("1", &["stop"]).status().unwrap().success());
}

#[test]
fn a_node_goes_on_with_what_the_only_one_had_synced_once_somebody_says_that_it_is_down() {
    let Some(nodes) = Nodes::up(2, &[]) else { return };
    let managed = managed(&nodes);
    let headstart = |node: &str, words: &[&str]| {
        let mut command = managed(node, words);
        command.envs([("HEADSTART_CLUSTER_HOLD_S", "3"), ("HEADSTART_CLUSTER_MARGIN_S", "1")]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let file = nodes.shared.join("slow/file");
    fs::write(&file, "old").unwrap();
    let program = format!("{}; sync {}", write_word("new", &file), file.display());
    let output = headstart("1", &["run", "--keep-dirty", "--", "sh", "-c", &program]);
    assert!(output.status.success(), "{}", said(&output));
    let down = ["cluster", "down", "node1", "--yes"];
    let output = headstart("2", &down);
    assert!(!output.status.success(), "its agent lives: {}", said(&output));
    nodes.succeed(&["kill", "1"]);
    let output = headstart("2", &down[..3]);
    assert!(!output.status.success() && said(&output).contains("--yes"), "{}", said(&output));
    let output = headstart("2", &["run", "--", "cat", text(&file)]);
    assert_eq!(output.status.code(), Some(125), "nobody has said so: {}", said(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    let output = headstart("2", &down);
    assert!(output.status.success(), "{}", said(&output));
    let output = headstart("2", &["run", "--", "cat", text(&file)]);
    assert!(output.status.success() && output.stdout == b"new", "{}", said(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    // It is back, and has no part in what others have by now.
    nodes.succeed(&["start", "1"]);
    let output = headstart("1", &["run", "--", "cat", text(&file)]);
    assert!(output.status.success() && output.stdout == b"new", "{}", said(&output));
    for node in ["1", "2"] {
        let output = headstart(node, &["stop"]);
        assert!(output.status.success(), "{node}: {}", said(&output));
    }
}
