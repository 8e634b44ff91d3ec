//! Clusters of nodes on one machine (`lab/nodes`) that go down with the test.

#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::site::{HEADSTART, TestSite, said};

/// Nodes are named `node1` and so on, and so are they in commands: `1`.
pub struct Nodes {
    name: String,
    /// What all nodes share; `slow` and `fast` are below it. On the machine it is the same where no file system of
    /// the nodes' own is mounted there.
    pub shared: PathBuf,
}

impl Nodes {
    /// So many nodes, brought up with these options. Nothing, and a line that says why, where the machine lacks
    /// something.
    pub fn up(count: usize, options: &[&str]) -> Option<Nodes> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let base = PathBuf::from(format!("/dev/shm/headstart-nodes-{}", nix::unistd::getuid()));
        let nodes = Nodes { shared: base.join(&name).join("shared"), name };
        let output = nodes.command(&["up", &count.to_string()]).args(options).output().unwrap();
        nodes.is_possible(&output).then_some(nodes)
    }

    /// Whether a call found what it needs; says so if not. It must not fail otherwise.
    fn is_possible(&self, output: &Output) -> bool {
        if output.status.code() == Some(77) {
            println!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr).trim());
            return false;
        }
        assert!(output.status.success(), "{}", said(output));
        true
    }

    /// `lab/nodes ARGUMENTS`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/nodes"));
        command.args(["--name", &self.name]).args(arguments);
        command
    }

    /// `lab/nodes ARGUMENTS`, which must succeed; what it printed.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}\n{}", output.status, said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same, where the machine may lack what it needs: says so then.
    pub fn may(&self, arguments: &[&str]) -> Option<String> {
        let output = self.command(arguments).output().unwrap();
        self.is_possible(&output).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A command in a node.
    pub fn on<S: AsRef<OsStr>>(&self, node: &str, words: &[S]) -> Command {
        let mut command = self.command(&["exec", node, "--"]);
        command.args(words);
        command
    }

    /// A shell's line in a node, which must succeed; what it printed.
    pub fn sh(&self, node: &str, line: &str) -> String {
        let output = self.on(node, &["sh", "-c", line]).output().unwrap();
        assert!(output.status.success(), "{node}: {line}: {}\n{}", output.status, said(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // It says what went wrong itself.
        let _ = self.command(&["down"]).status();
    }
}

/// Headstart on the nodes' shared directories, with everything wanted on flash.
pub fn managed(nodes: &Nodes) -> impl Fn(&str, &[&str]) -> Command {
    managed_in(nodes, nodes.shared.join("slow"), nodes.shared.join("fast"))
}

/// The same on two other directories.
pub fn managed_in(nodes: &Nodes, slow: PathBuf, fast: PathBuf) -> impl Fn(&str, &[&str]) -> Command {
    write_site(nodes, slow, fast, "16MiB");
    move |node, words| headstart(nodes, node, words)
}

/// Writes the nodes' site file, by which everything is wanted on flash.
pub fn write_site(nodes: &Nodes, slow: PathBuf, fast: PathBuf, capacity: &str) {
    let site = TestSite::on(slow, fast, capacity);
    fs::copy(&site.file, nodes.shared.join("site.toml")).unwrap();
}

/// `headstart WORDS` in a node, by that site file.
pub fn headstart(nodes: &Nodes, node: &str, words: &[&str]) -> Command {
    let mut command = nodes.on(node, &[HEADSTART]);
    command.args(words).env("HEADSTART_SITE", nodes.shared.join("site.toml"));
    for variable in ["LD_PRELOAD", "HEADSTART_RUNTIME_BASE", "HEADSTART_LIBRARY"] {
        command.env_remove(variable);
    }
    command
}

/// Puts the word at the start of a file that is there, as a program would that keeps it open.
pub fn write_word(word: &str, file: &Path) -> String {
    format!("printf {word} | dd of={} conv=notrunc status=none", file.display())
}
