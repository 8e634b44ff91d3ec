//! Headstart on several nodes of one directory (`lab/nodes`).

#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/site.rs"]
mod site;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nodes::Nodes;
use serde_json::Value;
use site::{HEADSTART, TestSite, said, text, wait_for};

/// Two nodes with a site file, in which everything is wanted on flash.
struct Cluster {
    nodes: Nodes,
    slow: PathBuf,
    /// Settings beside the site file's.
    settings: Vec<(&'static str, String)>,
}

impl Cluster {
    fn up(count: usize, options: &[&str]) -> Option<Cluster> {
        let nodes = Nodes::up(count, options)?;
        let site = TestSite::on(nodes.shared.join("slow"), nodes.shared.join("fast"), "64MiB");
        // As a node sees the directory: a file system of the nodes' own may be mounted there.
        let file = fs::read_to_string(&site.file).unwrap();
        nodes.sh("1", &format!("cat >$SHARED/site.toml <<'END'\n{file}\nEND"));
        let slow = nodes.shared.join("slow");
        Some(Cluster { nodes, slow, settings: Vec::new() })
    }

    fn headstart(&self, node: &str, words: &[&str]) -> Command {
        let mut command = self.nodes.on(node, &[HEADSTART]);
        command.args(words).env("HEADSTART_SITE", self.nodes.shared.join("site.toml"));
        command.envs(self.settings.iter().map(|(name, value)| (*name, value)));
        for variable in ["LD_PRELOAD", "HEADSTART_RUNTIME_BASE", "HEADSTART_LIBRARY"] {
            command.env_remove(variable);
        }
        command
    }

    /// `headstart WORDS` on a node, which must succeed; what it printed.
    fn succeed(&self, node: &str, words: &[&str]) -> String {
        let output = self.headstart(node, words).output().unwrap();
        assert!(output.status.success(), "{node}: {words:?}: {}\n{}", output.status, said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn json(&self, node: &str, words: &[&str]) -> Value {
        serde_json::from_str(&self.succeed(node, words)).unwrap()
    }

    /// Names of the nodes that are such, as a node sees them.
    fn members_that(&self, node: &str, is: &str) -> Vec<String> {
        let status = self.json(node, &["cluster", "status", "--json"]);
        let members = status["nodes"]["members"].as_array().unwrap();
        let such = members.iter().filter(|member| member["is"] == is);
        such.map(|member| member["name"].as_str().unwrap().to_string()).collect()
    }

    /// Names of the nodes that have a place, as a node sees them.
    fn members(&self, node: &str) -> Vec<String> {
        let status = self.json(node, &["cluster", "status", "--json"]);
        let members = status["nodes"]["members"].as_array().unwrap();
        members.iter().map(|member| member["name"].as_str().unwrap().to_string()).collect()
    }

    /// A program in Python under `headstart run --keep-dirty`, which goes on past `step(NAME)` once `go` has said so.
    fn start(&self, node: &str, program: &str) -> Running {
        let steps = self.nodes.shared.join(format!("steps{node}"));
        let _ = fs::remove_dir_all(&steps);
        fs::create_dir(&steps).unwrap();
        let head = format!(
            "import os, time\nslow = {:?}\ndef step(name):\n  open({steps:?} + '/' + name, 'w').close()\n  \
             while not os.path.exists({steps:?} + '/' + name + '.go'): time.sleep(0.01)\n",
            text(&self.slow),
            steps = text(&steps),
        );
        let words = ["run", "--keep-dirty", "--", "python3", "-c", &format!("{head}{program}")];
        let child = self.headstart(node, &words).stderr(Stdio::piped()).spawn().unwrap();
        Running { child, steps }
    }
}

struct Running {
    child: Child,
    steps: PathBuf,
}

impl Running {
    /// It has come to the step.
    fn awaits(&mut self, step: &str) {
        let (path, child) = (self.steps.join(step), &mut self.child);
        wait_for(&format!("the program comes to {step}"), || {
            if !path.exists() && child.try_wait().unwrap().is_some() {
                let said = child.stderr.take().map(std::io::read_to_string);
                panic!("it has ended before {step}: {said:?}");
            }
            path.exists()
        });
    }

    fn go(&self, step: &str) {
        fs::write(self.steps.join(format!("{step}.go")), "").unwrap();
    }

    fn ends(self) {
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", output.status, said(&output));
    }
}

/// Writes a file of its own in pieces, and expects it.
fn own_file(name: &str) -> String {
    format!(
        "fd = os.open(slow + '/{name}', os.O_RDWR | os.O_CREAT)
for k in range(256): os.pwrite(fd, bytes([k % 251]) * 4096, k * 4096)
step('written')
for k in range(256): assert os.pread(fd, 4096, k * 4096) == bytes([k % 251]) * 4096, k
os.fsync(fd)
"
    )
}

fn is_own_file(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.len() == 256 * 4096 && bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / 4096 % 251)
}

#[test]
fn two_nodes_join_absorb_files_of_their_own_and_leave() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one = cluster.start("1", &own_file("one"));
    one.awaits("written");
    assert_eq!(cluster.members("1"), ["node1"]);
    // What must be the same on both is not.
    let output = cluster.headstart("2", &["run", "--", "true"]).env("HEADSTART_CLUSTER_HOLD_S", "7").output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    for word in ["node1", "hold_s", "7", "30"] {
        assert!(said(&output).contains(word), "no {word} in {}", said(&output));
    }
    let mut two = cluster.start("2", &own_file("two"));
    two.awaits("written");
    for node in ["1", "2"] {
        assert_eq!(cluster.members(node), ["node1", "node2"]);
        let status = cluster.json(node, &["status", "--json"]);
        assert!(status["mapped_bytes"].as_u64().unwrap() >= 1 << 20, "node{node}: {status}");
    }
    wait_for("both have a deadline", || {
        ["1", "2"].iter().all(|node| !cluster.json(node, &["status", "--json"])["cluster"]["deadline_ms"].is_null())
    });
    [&one, &two].iter().for_each(|program| program.go("written"));
    one.ends();
    two.ends();
    for node in ["2", "1"] {
        cluster.succeed(node, &["drain"]);
        cluster.succeed(node, &["stop"]);
    }
    assert!(cluster.members("1").is_empty());
    assert!(["one", "two"].iter().all(|name| is_own_file(&cluster.slow.join(name))));
    for name in [".headstart-owner", "HEADSTART-DIRTY", "HEADSTART-DIRTY.001"] {
        assert!(!cluster.slow.join(name).exists(), "{name}");
    }
}

#[test]
fn a_file_that_a_second_node_opens_leaves_flash_and_both_read_what_was_written_last() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one = cluster.start(
        "1",
        "fd = os.open(slow + '/both', os.O_RDWR | os.O_CREAT)
for k in range(64): os.pwrite(fd, b'a' * 4096, k * 4096)
step('written')
assert os.pread(fd, 4096, 0) == b'a' * 4096
assert os.pread(fd, 4096, 4096) == b'b' * 4096
os.pwrite(fd, b'c' * 4096, 8192)
step('answered')
",
    );
    one.awaits("written");
    assert!(cluster.json("1", &["status", "--json"])["dirty_bytes"].as_u64().unwrap() > 0);
    let mut two = cluster.start(
        "2",
        "fd = os.open(slow + '/both', os.O_RDWR)
for k in range(64): assert os.pread(fd, 4096, k * 4096) == b'a' * 4096, k
os.pwrite(fd, b'b' * 4096, 4096)
step('written')
assert os.pread(fd, 4096, 8192) == b'c' * 4096
",
    );
    two.awaits("written");
    for node in ["1", "2"] {
        assert_eq!(cluster.json(node, &["status", "--json"])["dirty_bytes"], 0, "it is on the disks");
    }
    one.go("written");
    one.awaits("answered");
    two.go("written");
    one.go("answered");
    one.ends();
    two.ends();
}

#[test]
fn an_agent_among_others_is_killed_and_followed_by_another() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one =
        cluster.start("1", &format!("{}step('again')\nos.pwrite(fd, b'x' * 4096, 0)\nstep('end')", own_file("one")));
    one.awaits("written");
    let mut two = cluster.start("2", &own_file("two"));
    two.awaits("written");
    cluster.nodes.sh("1", "pkill -KILL -f '[h]eadstart agent'");
    one.go("written");
    one.awaits("again");
    one.go("again");
    one.awaits("end");
    let read = "assert open(slow + '/one', 'rb').read(4096) == b'x' * 4096";
    assert!(cluster.headstart("2", &["run", "--", "true"]).status().unwrap().success());
    let mut third = cluster.start("2", &format!("{read}\nstep('read')"));
    third.awaits("read");
    third.go("read");
    third.ends();
    two.go("written");
    one.go("end");
    one.ends();
    two.ends();
}

/// What a node's agent says of itself among the others.
fn own_status(cluster: &Cluster, node: &str) -> Value {
    cluster.json(node, &["cluster", "status", "--json"])["agent"].clone()
}

fn kill_agent(cluster: &Cluster, node: &str) {
    cluster.nodes.sh(node, "pkill -KILL -f '[h]eadstart agent'");
}

#[test]
fn a_file_that_another_node_moved_is_found_by_the_next_agent_of_the_node_that_has_its_bytes() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    ["d", "f"].iter().for_each(|name| fs::create_dir(cluster.slow.join(name)).unwrap());
    let mut one = cluster.start("1", &format!("{}os.close(fd)\nstep('closed')", own_file("d/one")));
    one.awaits("written");
    one.go("written");
    one.awaits("closed");
    let mut two = cluster.start(
        "2",
        "os.rename(slow + '/d', slow + '/e')
os.rename(slow + '/e/one', slow + '/f/two')
step('moved')
bytes = open(slow + '/f/two', 'rb').read()
assert bytes[4096:8192] == b'\\1' * 4096 and len(bytes) == 256 * 4096, len(bytes)
step('read')
",
    );
    two.awaits("moved");
    // Not before it knows: it is told again if not.
    wait_for("the first node has heard it", || {
        let list = fs::read_to_string(cluster.slow.join("HEADSTART-DIRTY")).unwrap_or_default();
        list.contains("f/two")
    });
    kill_agent(&cluster, "1");
    cluster.succeed("1", &["run", "--keep-dirty", "--", "true"]);
    two.go("moved");
    two.awaits("read");
    two.go("read");
    two.ends();
    one.go("closed");
    one.ends();
    assert!(is_own_file(&cluster.slow.join("f/two")));
}

#[test]
fn a_file_that_was_moved_while_nobody_heard_of_it_is_named_and_found_where_another_node_opens_it() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    ["d", "f"].iter().for_each(|name| fs::create_dir(cluster.slow.join(name)).unwrap());
    let mut one = cluster.start("1", &own_file("d/one"));
    one.awaits("written");
    let mut two = cluster.start(
        "2",
        "step('ready')
os.rename(slow + '/d/one', slow + '/f/two')
step('moved')
bytes = open(slow + '/f/two', 'rb').read()
assert bytes[4096:8192] == b'\\1' * 4096 and len(bytes) == 256 * 4096, len(bytes)
step('read')
",
    );
    two.awaits("ready");
    one.go("written");
    one.ends();
    kill_agent(&cluster, "1");
    two.go("ready");
    two.awaits("moved");
    kill_agent(&cluster, "2");
    cluster.succeed("1", &["run", "--keep-dirty", "--", "true"]);
    let missing = own_status(&cluster, "1")["files_missing"].to_string();
    assert!(missing.contains("/d/one"), "{missing}");
    assert!(cluster.succeed("1", &["cluster", "status"]).contains("d/one: it is not there"));
    two.go("moved");
    two.awaits("read");
    assert_eq!(own_status(&cluster, "1")["files_missing"].to_string(), "[]");
    two.go("read");
    two.ends();
    assert!(is_own_file(&cluster.slow.join("f/two")));
}

/// As git does to objects that are there already.
#[test]
fn a_time_that_another_node_sets_is_no_strangers_change_and_a_strangers_fails_whoever_asks() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let (one, two) = (cluster.slow.join("one"), cluster.slow.join("two"));
    let absorbed = |name: &str| {
        let mut program = cluster.start("1", &own_file(name));
        program.awaits("written");
        program
    };
    let program = absorbed("one");
    cluster.succeed("2", &["run", "--", "touch", "-m", "-d", "2001-01-01", text(&one)]);
    program.go("written");
    program.ends();
    cluster.succeed("2", &["run", "--", "cksum", text(&one)]);
    assert!(is_own_file(&one), "it has left flash");
    // Somebody changes the slow file past Headstart while newer bytes are on flash.
    let program = absorbed("two");
    program.go("written");
    program.ends();
    fs::write(&two, "a stranger's").unwrap();
    let output = cluster.headstart("2", &["run", "--", "cksum", text(&two)]).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("Stale file handle"), "{}", said(&output));
    cluster.succeed("1", &["drain", "--over-changes"]);
    cluster.succeed("2", &["run", "--", "cksum", text(&two)]);
    assert!(is_own_file(&two));
}

#[test]
fn a_file_that_another_node_removes_leaves_the_flash_of_the_node_that_has_it() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one = cluster.start("1", &format!("{}os.close(fd)\nstep('closed')", own_file("one")));
    one.awaits("written");
    one.go("written");
    one.awaits("closed");
    assert!(cluster.json("1", &["status", "--json"])["mapped_bytes"].as_u64().unwrap() >= 1 << 20);
    let mut two = cluster.start("2", "os.unlink(slow + '/one')\nstep('removed')");
    two.awaits("removed");
    wait_for("its flash is free", || cluster.json("1", &["status", "--json"])["mapped_bytes"] == 0);
    two.go("removed");
    two.ends();
    one.go("closed");
    one.ends();
}

/// Says what a file holds, and waits until there is another one.
const TOOL: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char bytes[65536];
    ssize_t length = read(open(argv[1], O_RDONLY), bytes, sizeof bytes);
    if (write(1, bytes, length) != length) return 1;
    while (argc > 2 && access(argv[2], F_OK)) usleep(10000);
    return 0;
}
"#;

/// Makes the tool, which the library cannot be in; false, and a line that says why, where it cannot be made.
fn has_tool(cluster: &Cluster) -> bool {
    let at = |name: &str| cluster.nodes.shared.join(name);
    fs::write(at("tool.c"), TOOL).unwrap();
    let tool = Command::new("cc").arg("-static").arg("-o").arg(at("tool")).arg(at("tool.c")).output().unwrap();
    if !tool.status.success() {
        println!("SKIPPED: the C compiler makes no static program here");
    }
    tool.status.success()
}

#[test]
fn who_starts_a_program_without_the_library_is_told_of_a_node_that_does_not_say_that_its_flash_is_empty() {
    let Some(mut cluster) = Cluster::up(2, &[]) else { return };
    // Nobody is given up meanwhile.
    cluster.settings = vec![("HEADSTART_CLUSTER_HOLD_S", "3600".into())];
    if !has_tool(&cluster) {
        return;
    }
    let mut one = cluster.start("1", &own_file("one"));
    one.awaits("written");
    cluster.succeed("2", &["run", "--", "true"]);
    assert!(cluster.json("1", &["status", "--json"])["mapped_bytes"].as_u64().unwrap() >= 1 << 20);
    cluster.nodes.sh("1", "pkill -STOP -f '[h]eadstart agent'");
    let (tool, file) = (cluster.nodes.shared.join("tool"), cluster.slow.join("one"));
    let words = ["run", "--", text(&tool), text(&file)];
    let output = cluster.headstart("2", &words).output().unwrap();
    assert!(output.status.success(), "nobody waits for ever: {}", said(&output));
    let told = said(&output);
    assert!(told.contains("node number 0 does not answer") && told.contains("sees old bytes"), "{told}");
    cluster.nodes.sh("1", "pkill -CONT -f '[h]eadstart agent'");
    let output = cluster.headstart("2", &words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout == fs::read(&file).unwrap()[..65536] && is_own_file(&file), "all of it was written back");
    one.go("written");
    one.ends();
}

#[test]
fn beside_a_program_without_the_library_nothing_is_on_flash_of_any_node() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let at = |name: &str| cluster.nodes.shared.join(name);
    if !has_tool(&cluster) {
        return;
    }
    let mut one = cluster.start(
        "1",
        "fd = os.open(slow + '/one', os.O_RDWR | os.O_CREAT)
for k in range(16): os.pwrite(fd, b'a' * 4096, k * 4096)
step('written')
for k in range(16): os.pwrite(fd, b'b' * 4096, k * 4096)
step('again')
for k in range(16): os.pwrite(fd, b'c' * 4096, k * 4096)
step('last')
",
    );
    one.awaits("written");
    let mapped = |node: &str| cluster.json(node, &["status", "--json"])["mapped_bytes"].as_u64().unwrap();
    assert!(mapped("1") > 0);
    let words = ["run", "--", text(&at("tool")), text(&cluster.slow.join("one")), text(&at("over"))].map(String::from);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut program = cluster.headstart("2", &words).stdout(Stdio::piped()).spawn().unwrap();
    let mut bytes = vec![0; 65536];
    program.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == b'a'), "it has read what was on flash");
    assert_eq!(mapped("1"), 0, "it has left flash");
    one.go("written");
    one.awaits("again");
    assert_eq!(mapped("1"), 0, "while it lives");
    // The next agent of a node knows as well.
    kill_agent(&cluster, "1");
    cluster.succeed("1", &["run", "--keep-dirty", "--", "true"]);
    one.go("again");
    one.awaits("last");
    assert_eq!(mapped("1"), 0, "while it lives");
    fs::write(at("over"), "").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    wait_for("flash is used again", || cluster.json("1", &["status", "--json"])["strangers"] == 0);
    one.go("last");
    one.ends();
}

#[test]
fn a_node_that_lost_its_power_comes_back_or_is_forgotten() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one = cluster.start("1", &own_file("one"));
    one.awaits("written");
    cluster.succeed("2", &["run", "--", "true"]);
    assert_eq!(cluster.members("1"), ["node1", "node2"]);
    let held = cluster.headstart("1", &["cluster", "forget", "node2", "--yes"]).output().unwrap();
    assert!(!held.status.success() && said(&held).contains("holds its lock"), "{}", said(&held));
    cluster.nodes.succeed(&["kill", "2"]);
    cluster.nodes.succeed(&["start", "2"]);
    cluster.succeed("2", &["run", "--", "true"]);
    assert_eq!(cluster.members("2"), ["node1", "node2"]);
    cluster.nodes.succeed(&["kill", "2"]);
    let asked = cluster.headstart("1", &["cluster", "forget", "node2"]).stdin(Stdio::null()).output().unwrap();
    assert!(!asked.status.success() && said(&asked).contains("--yes"), "{}", said(&asked));
    cluster.succeed("1", &["cluster", "forget", "node2", "--yes"]);
    assert_eq!(cluster.members("1"), ["node1"]);
    one.go("written");
    one.ends();
    cluster.nodes.succeed(&["start", "2"]);
    cluster.succeed("2", &["run", "--", "true"]);
    assert_eq!(cluster.members("2"), ["node1", "node2"]);
}

#[test]
fn a_node_that_has_just_joined_drains_all_nodes_though_those_do_not_know_it_yet() {
    let Some(cluster) = Cluster::up(4, &[]) else { return };
    for node in ["1", "2", "3", "4"] {
        let output = cluster.headstart(node, &["drain"]).output().unwrap();
        assert!(output.status.success(), "node {node}: {}", said(&output));
    }
    assert_eq!(cluster.members("1").len(), 4);
}

#[test]
fn the_capacity_of_the_directory_is_shared_out_by_need() {
    const ALL: u64 = 16 << 20;
    let Some(mut cluster) = Cluster::up(2, &[]) else { return };
    cluster.settings.push(("HEADSTART_CAPACITY", "16MiB".into()));
    let may = |node: &str| cluster.json(node, &["status", "--json"])["capacity_bytes"].as_u64().unwrap();
    // Writes again and again what flash has no room for, until it may go on.
    let filling = |name: &str| {
        format!(
            "{}fd = os.open(slow + '/{name}.more', os.O_RDWR | os.O_CREAT)
open(f'{steps}/filling', 'w').close()
while not os.path.exists(f'{steps}/filling.go'):
  for k in range(4096): os.pwrite(fd, b'm' * 4096, k * 4096)
",
            own_file(name),
            steps = text(&cluster.nodes.shared.join(format!("steps{}", if name == "one" { 1 } else { 2 }))),
        )
    };
    let mut one = cluster.start("1", &filling("one"));
    one.awaits("written");
    assert_eq!(may("1"), ALL, "it is alone");
    let mut two = cluster.start("2", &filling("two"));
    two.awaits("written");
    wait_for("both have a part", || may("1") < ALL && may("2") < ALL && may("1") + may("2") <= ALL);
    one.go("written");
    one.awaits("filling");
    wait_for("who needs more has more", || may("1") > ALL / 4 * 3);
    wait_for("the other one has what is left", || may("1") + may("2") <= ALL);
    two.go("written");
    two.awaits("filling");
    wait_for("both need all", || may("1").abs_diff(may("2")) <= ALL / 8 && may("1") + may("2") <= ALL);
    one.go("filling");
    one.ends();
    cluster.succeed("1", &["drain"]);
    wait_for("a node without programs leaves its part to others", || may("2") > ALL / 4 * 3);
    cluster.succeed("1", &["stop"]);
    wait_for("it is alone again", || may("2") == ALL);
    two.go("filling");
    two.ends();
    assert!(["one", "two"].iter().all(|name| is_own_file(&cluster.slow.join(name))));
}

/// What `check` finds, and its exit status.
fn checked(cluster: &Cluster, node: &str) -> (Value, i32) {
    let output = cluster.headstart(node, &["check", "--json"]).output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    (found, output.status.code().unwrap())
}

/// What `headstart WORDS` says that ends with this status.
fn ends_with(cluster: &Cluster, node: &str, words: &[&str], status: i32) -> String {
    let output = cluster.headstart(node, words).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", said(&output));
    said(&output)
}

#[test]
fn what_each_node_has_is_seen_drained_and_stopped_from_any() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    let mut one = cluster.start("1", &format!("{}step('end')", own_file("one")));
    one.awaits("written");
    let mut two = cluster.start("2", &format!("{}step('end')", own_file("two")));
    two.awaits("written");
    [&one, &two].iter().for_each(|program| program.go("written"));
    one.awaits("end");
    two.awaits("end");
    let (found, status) = checked(&cluster, "1");
    assert_eq!(
        (status, &found["others"][0]["name"], &found["others"][0]["is"]),
        (75, &"node2".into(), &"member".into())
    );
    assert!(found["others"][0]["files"][0]["path"].as_str().unwrap().ends_with("/two"), "{found}");
    let said = ends_with(&cluster, "2", &["check"], 75);
    assert!(said.contains("/two") && said.contains("node1 (number 0, member)") && said.contains("/one"), "{said}");
    for node in ["1", "2"] {
        let status = cluster.json(node, &["cluster", "status", "--json"]);
        for member in status["nodes"]["members"].as_array().unwrap() {
            let agent = &member["agent"];
            assert_eq!((&agent["members"], &agent["files_shared"]), (&2.into(), &0.into()), "{status}");
            assert!(agent["view"] == status["agent"]["view"] && agent["dirty_now_bytes"].as_u64() >= Some(1 << 20));
        }
        let said = cluster.succeed(node, &["cluster", "status"]);
        assert!(said.contains("node1 ") && said.contains("node2 ") && !said.contains("waits for"), "{said}");
    }
    // Programs have them open, and lose nothing by it.
    cluster.succeed("2", &["drain", "--this-node"]);
    assert!(is_own_file(&cluster.slow.join("two")));
    assert!(cluster.json("1", &["status", "--json"])["dirty_bytes"].as_u64() >= Some(1 << 20), "it was not asked");
    cluster.succeed("2", &["drain"]);
    assert!(is_own_file(&cluster.slow.join("one")));
    assert_eq!(checked(&cluster, "1").1, 0);
    let said = ends_with(&cluster, "1", &["stop", "--all-nodes"], 125);
    assert!(said.contains("node2: ") && said.contains("threads of programs take part"), "{said}");
    [&one, &two].iter().for_each(|program| program.go("end"));
    one.ends();
    two.ends();
    cluster.succeed("1", &["stop", "--all-nodes"]);
    assert!(cluster.members("2").is_empty());
    assert!(!cluster.slow.join(".headstart-owner").exists());
}

#[test]
fn one_file_is_drained_wherever_it_is() {
    let Some(cluster) = Cluster::up(2, &[]) else { return };
    cluster.succeed("1", &["run", "--", "true"]);
    let mut two = cluster.start("2", &own_file("two"));
    two.awaits("written");
    cluster.succeed("1", &["drain", text(&cluster.slow.join("two"))]);
    assert!(is_own_file(&cluster.slow.join("two")));
    two.go("written");
    two.ends();
}

#[test]
fn a_node_that_does_not_answer_or_is_gone_is_named_with_what_it_has() {
    let Some(mut cluster) = Cluster::up(2, &[]) else { return };
    // Silent for a third of it, a node is out of reach.
    cluster.settings = vec![("HEADSTART_CLUSTER_HOLD_S", "6".into()), ("HEADSTART_CLUSTER_MARGIN_S", "1".into())];
    cluster.succeed("1", &["run", "--", "true"]);
    let mut two = cluster.start("2", &format!("{}step('end')", own_file("two")));
    two.awaits("written");
    two.go("written");
    two.awaits("end");
    wait_for("it lists what is dirty", || checked(&cluster, "1").1 == 75);
    cluster.nodes.sh("2", "pkill -STOP -f '[h]eadstart agent'");
    let said = ends_with(&cluster, "1", &["drain"], 75);
    assert!(said.contains("node2 has not answered"), "{said}");
    let status = cluster.json("1", &["cluster", "status", "--json"]);
    let silent = &status["nodes"]["members"][1];
    assert!(silent["agent"].is_null() && silent["error"].as_str().unwrap().contains("node2"), "{status}");
    cluster.nodes.succeed(&["kill", "2"]);
    let (found, status) = checked(&cluster, "1");
    let gone = &found["others"][0];
    assert_eq!((status, &gone["is"], &gone["journal"]), (75, &"gone".into(), &"usable".into()), "{found}");
    assert_eq!((&gone["dirty_bytes"], &gone["lost_bytes"]), (&(1 << 20).into(), &0.into()), "{found}");
    assert!(gone["files"][0]["path"].as_str().unwrap().ends_with("/two"), "{found}");
    // Its data files lie on the shared flash; without its journal nobody knows what they are.
    let journal = cluster.nodes.shared.join("fast/.headstart/node.001/journal");
    fs::rename(&journal, journal.with_extension("aside")).unwrap();
    let said = ends_with(&cluster, "1", &["check"], 77);
    assert!(said.contains("node2 (number 1, gone)") && said.contains("lost"), "{said}");
    fs::rename(journal.with_extension("aside"), &journal).unwrap();
    let _ = two.child.wait();
    cluster.succeed("1", &["drain"]);
    assert_eq!(checked(&cluster, "1").1, 0);
    assert!(is_own_file(&cluster.slow.join("two")));
}

/// Writes a file of its own, and has it synced.
fn synced_file(name: &str) -> String {
    format!(
        "fd = os.open(slow + '/{name}', os.O_RDWR | os.O_CREAT)
for k in range(256): os.pwrite(fd, bytes([k % 251]) * 4096, k * 4096)
os.fsync(fd)
step('synced')
"
    )
}

/// Reads such a file whole.
fn reads_file(name: &str) -> String {
    format!(
        "fd = os.open(slow + '/{name}', os.O_RDONLY)\nfor k in range(256): assert os.pread(fd, 4096, k * 4096) == bytes([k % 251]) * 4096, k\n"
    )
}

/// Two nodes, of which the second one has a synced file on its flash alone; others wait some seconds for one that is
/// silent.
fn second_has_a_synced_file(then: &str) -> Option<(Cluster, Running, Running)> {
    let (cluster, one, two) = two_have_files(2, &own_file("one"), "written", then)?;
    let status = cluster.json("2", &["status", "--json"]);
    assert_eq!(status["dirty_bytes"], 1 << 20, "{status}");
    Some((cluster, one, two))
}

/// So many nodes, of which the first runs this program up to a step, and the second has a synced file.
fn two_have_files(count: usize, first: &str, step: &str, then: &str) -> Option<(Cluster, Running, Running)> {
    let mut cluster = Cluster::up(count, &[])?;
    cluster.settings = vec![("HEADSTART_CLUSTER_HOLD_S", "5".into()), ("HEADSTART_CLUSTER_MARGIN_S", "1".into())];
    let mut one = cluster.start("1", first);
    one.awaits(step);
    let mut two = cluster.start("2", &format!("{}{then}", synced_file("two")));
    two.awaits("synced");
    wait_for("both have a deadline", || {
        ["1", "2"].iter().all(|node| !cluster.json(node, &["status", "--json"])["cluster"]["deadline_ms"].is_null())
    });
    Some((cluster, one, two))
}

/// So many nodes beside two that have a synced file each, `one` and `two`, on their flash alone, and whose power has
/// failed.
fn all_that_had_it_are_gone(others: usize) -> Option<Cluster> {
    let (cluster, mut one, mut two) = two_have_files(2 + others, &synced_file("one"), "synced", "")?;
    for node in ["1", "2"] {
        let status = cluster.json(node, &["status", "--json"]);
        assert_eq!(status["dirty_bytes"], 1 << 20, "{status}");
    }
    ["1", "2"].iter().for_each(|node| drop(cluster.nodes.succeed(&["kill", node])));
    [&mut one, &mut two].into_iter().for_each(|program| drop(program.child.wait()));
    Some(cluster)
}

impl Cluster {
    /// Nothing speaks of nodes that are gone, and these are members.
    fn is_whole_with(&self, nodes: &[&str]) {
        let members = || BTreeSet::from_iter(self.members("3"));
        let nodes: BTreeSet<String> = nodes.iter().map(|name| name.to_string()).collect();
        wait_for("nothing speaks of those that are gone", || self.left().is_empty() && members() == nodes);
    }

    /// What speaks of a node that is gone.
    fn left(&self) -> Vec<String> {
        let fast = fs::read_dir(self.nodes.shared.join("fast/.headstart")).unwrap();
        let slow = fs::read_dir(&self.slow).unwrap();
        let names = fast.chain(slow).map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let is_left =
            |name: &String| ["cut.", "salvaged.", "HEADSTART-DIRTY.001"].iter().any(|of| name.starts_with(of));
        names.filter(is_left).collect()
    }

    /// A program in Python under `headstart run --keep-dirty`, without steps.
    fn python(&self, node: &str, program: &str) {
        let head = format!("import os\nslow = {:?}\n", text(&self.slow));
        self.succeed(node, &["run", "--keep-dirty", "--", "python3", "-c", &format!("{head}{program}")]);
    }
}

#[test]
fn what_a_node_that_died_had_synced_is_read_by_another_and_goes_to_the_disks() {
    let Some((cluster, one, mut two)) = second_has_a_synced_file("") else { return };
    cluster.nodes.succeed(&["kill", "2"]);
    let began = std::time::Instant::now();
    cluster.python("1", &reads_file("two"));
    println!("read {:.1} s after its node died, with hold_s = 5 and margin_s = 1", began.elapsed().as_secs_f64());
    assert!(is_own_file(&cluster.slow.join("two")));
    wait_for("nothing speaks of it", || cluster.left().is_empty() && cluster.members("1") == ["node1"]);
    let _ = two.child.wait();
    one.go("written");
    one.ends();
    cluster.nodes.succeed(&["start", "2"]);
    cluster.python("2", &reads_file("two"));
    assert_eq!(cluster.members("1"), ["node1", "node2"]);
}

#[test]
fn drain_on_the_last_node_brings_back_what_one_that_died_had() {
    let Some((cluster, one, mut two)) = second_has_a_synced_file("") else { return };
    cluster.nodes.succeed(&["kill", "2"]);
    // Nobody asks for anything of it.
    cluster.succeed("1", &["drain"]);
    assert!(is_own_file(&cluster.slow.join("two")));
    wait_for("nothing speaks of it", || cluster.left().is_empty());
    let _ = two.child.wait();
    one.go("written");
    one.ends();
}

#[test]
fn where_all_nodes_have_died_another_one_goes_on_with_what_they_had_synced() {
    let Some(cluster) = all_that_had_it_are_gone(1) else { return };
    assert_eq!(cluster.members_that("3", "gone"), ["node1", "node2"]);
    let (found, _) = checked(&cluster, "3");
    let gone = found["others"].as_array().unwrap().iter();
    let gone: Vec<_> = gone.map(|node| (node["is"].as_str().unwrap(), node["dirty_bytes"].as_u64().unwrap())).collect();
    assert_eq!(gone, [("gone", 1 << 20); 2], "{found}");
    let began = std::time::Instant::now();
    cluster.python("3", &format!("{}{}", reads_file("one"), reads_file("two")));
    println!("read {:.1} s after all nodes died, with hold_s = 5 and margin_s = 1", began.elapsed().as_secs_f64());
    assert!(["one", "two"].iter().all(|name| is_own_file(&cluster.slow.join(name))));
    cluster.is_whole_with(&["node3"]);
    assert!(!cluster.slow.join("HEADSTART-DIRTY").exists());
    // One of them is back, and finds that others go on.
    cluster.nodes.succeed(&["start", "1"]);
    cluster.python("1", &format!("{}{}", reads_file("one"), reads_file("two")));
    let mut members = cluster.members("3");
    members.sort_unstable();
    assert_eq!(members, ["node1", "node3"]);
}

#[test]
fn two_nodes_that_come_at_once_after_all_have_died_both_read_what_those_had_synced() {
    let Some(cluster) = all_that_had_it_are_gone(2) else { return };
    let program = format!("{}{}step('read')", reads_file("one"), reads_file("two"));
    let mut readers = ["3", "4"].map(|node| cluster.start(node, &program));
    readers.iter_mut().for_each(|reader| reader.awaits("read"));
    let mut members = cluster.members_that("3", "member");
    members.sort_unstable();
    assert_eq!(members, ["node3", "node4"]);
    readers.iter().for_each(|reader| reader.go("read"));
    readers.into_iter().for_each(Running::ends);
    cluster.is_whole_with(&["node3", "node4"]);
    assert!(["one", "two"].iter().all(|name| is_own_file(&cluster.slow.join(name))));
}

#[test]
fn a_drain_brings_back_what_nodes_had_synced_that_have_all_died_and_names_what_cannot_be_read() {
    let Some(cluster) = all_that_had_it_are_gone(1) else { return };
    // As where the flash of a node is not mounted here.
    let journal = cluster.nodes.shared.join("fast/.headstart/node.001/journal");
    fs::rename(&journal, journal.with_extension("aside")).unwrap();
    let drained = ends_with(&cluster, "3", &["drain"], 75);
    assert!(drained.contains("node2 is gone") && drained.contains("cluster forget node2"), "{drained}");
    let lost = cluster.headstart("3", &["cluster", "forget", "node2"]).stdin(Stdio::null()).output().unwrap();
    assert!(!lost.status.success() && said(&lost).contains("1MiB of 1 files"), "{}", said(&lost));
    fs::rename(journal.with_extension("aside"), &journal).unwrap();
    cluster.succeed("3", &["drain"]);
    assert!(["one", "two"].iter().all(|name| is_own_file(&cluster.slow.join(name))));
    assert_eq!(checked(&cluster, "3").1, 0);
    cluster.is_whole_with(&["node3"]);
}

#[test]
fn a_node_that_was_given_up_fails_its_programs_and_joins_anew() {
    let fails = "try:
  os.pwrite(fd, b'x' * 4096, 0)
  os.fsync(fd)
  failed = None
except OSError as error: failed = error.errno
assert failed == 5, failed
step('failed')
";
    let Some((cluster, one, mut two)) = second_has_a_synced_file(fails) else { return };
    cluster.nodes.succeed(&["stop", "2"]);
    let head = format!("import os\nslow = {:?}\n", text(&cluster.slow));
    let words = ["run", "--keep-dirty", "--", "python3", "-c", &format!("{head}{}", reads_file("two"))];
    let mut reader = cluster.headstart("1", &words).spawn().unwrap();
    wait_for("it is given up", || cluster.members_that("1", "gone") == ["node2"]);
    assert!(reader.try_wait().unwrap().is_none(), "what it writes back may still land");
    cluster.nodes.succeed(&["cont", "2"]);
    assert!(reader.wait().unwrap().success());
    two.go("synced");
    two.awaits("failed");
    two.go("failed");
    let _ = two.child.wait();
    wait_for("nothing speaks of it", || cluster.left().is_empty());
    cluster.python("2", &reads_file("two"));
    one.go("written");
    one.ends();
}

#[test]
fn programs_of_a_node_that_is_cut_off_from_the_storage_wait_and_nobody_reads_older_bytes() {
    let Some(mut cluster) = Cluster::up(2, &["--storage", "glusterfs"]) else { return };
    cluster.settings = vec![("HEADSTART_CLUSTER_HOLD_S", "5".into()), ("HEADSTART_CLUSTER_MARGIN_S", "1".into())];
    let again = "try:
  os.pwrite(fd, b'x' * 4096, 0)
  os.fsync(fd)
except OSError as error: print(error)
step('end')
";
    let mut one = cluster.start("1", &format!("{}{again}", synced_file("one")));
    one.awaits("synced");
    // What cannot be written back fails those who ask for it.
    let read = "while True:
  try:
    fd = os.open(slow + '/one', os.O_RDONLY)
    pieces = [os.pread(fd, 4096, k * 4096) for k in range(256)]
    break
  except OSError as error:
    print(error)
    time.sleep(0.1)
assert pieces[0] in (b'\\0' * 4096, b'x' * 4096)
for k in range(1, 256): assert pieces[k] == bytes([k % 251]) * 4096, k
step('read')
";
    let mut two = cluster.start("2", &format!("step('ready')\n{read}"));
    two.awaits("ready");
    // As the other node hears of it; nothing where it does not answer.
    let left_ms = || {
        let status = cluster.json("2", &["cluster", "status", "--json"]);
        let members = status["nodes"]["members"].as_array().unwrap();
        let first = members.iter().find(|member| member["name"] == "node1");
        first.and_then(|member| member["agent"]["deadline_ms"].as_u64())
    };
    wait_for("it has a deadline", || left_ms() > Some(0));
    cluster.nodes.succeed(&["cut", "1", "storage"]);
    one.go("synced");
    two.go("ready");
    wait_for("its programs wait", || left_ms().unwrap_or(0) == 0);
    assert!(!one.steps.join("end").exists(), "what it does now may not count");
    cluster.nodes.succeed(&["heal", "1", "storage"]);
    // The file system may have given it up meanwhile, and node 2 with it; what it had synced is there either way.
    two.awaits("read");
    one.awaits("end");
    two.go("read");
    two.ends();
    one.go("end");
    let _ = one.child.wait();
}

#[test]
fn nodes_whose_page_caches_differ_are_told_so_and_do_not_share_a_directory() {
    let Some(cluster) = Cluster::up(2, &["--storage", "moosefs", "--page-cache"]) else { return };
    cluster.succeed("1", &["run", "--", "true"]);
    let output = cluster.headstart("2", &["run", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    for word in ["cannot be shared with node node1", "moosefs"] {
        assert!(said(&output).contains(word), "no {word} in {}", said(&output));
    }
    assert_eq!(cluster.members("1"), ["node1"], "it took its knock back");
    cluster.succeed("1", &["run", "--", "true"]);
}

#[test]
fn nodes_list_themselves_in_etcd_where_the_site_file_says_so() {
    let Some(mut cluster) = Cluster::up(2, &[]) else { return };
    let Some(endpoints) = cluster.nodes.may(&["etcd"]) else { return };
    let servers: Vec<String> = endpoints
        .trim()
        .split(',')
        .map(|server| format!("\"http://{}\"", server.trim_start_matches("http://")))
        .collect();
    cluster.settings = vec![
        ("HEADSTART_CLUSTER_MEMBERSHIP", "etcd".into()),
        ("HEADSTART_CLUSTER_ETCD", format!("[{}]", servers.join(", "))),
        ("HEADSTART_CLUSTER_ETCD_ACCEPT_OLD", "true".into()),
    ];
    // Where nobody can say who has the directory, a program must not go on with the disks alone.
    let ran = cluster.nodes.shared.join("ran");
    let mut deaf = cluster.headstart("1", &["run", "--", "touch", text(&ran)]);
    let output = deaf.env("HEADSTART_CLUSTER_ETCD", "[\"http://127.0.0.1:1\"]").output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("http://127.0.0.1:1") && !ran.exists(), "{}", said(&output));
    let mut one = cluster.start("1", &own_file("one"));
    one.awaits("written");
    let mut two = cluster.start("2", &own_file("two"));
    two.awaits("written");
    assert_eq!(cluster.members("2"), ["node1", "node2"]);
    assert!(!cluster.nodes.shared.join("fast/.headstart/cluster/views").exists());
    [&one, &two].iter().for_each(|program| program.go("written"));
    one.ends();
    two.ends();
    assert!(["one", "two"].iter().all(|name| cluster.slow.join(name).exists()));
}
