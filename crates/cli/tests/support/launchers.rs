//! Launchers of MPI that have ranks on several nodes.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::nodes::Nodes;

/// A program that `make build` makes.
pub fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap().join("../../build").join(name)
}

/// A launcher of MPI, and the workload program for it, or itself where there is none.
pub struct Launcher {
    pub launch: &'static [&'static str],
    pub program: &'static str,
    /// How it is told of two nodes, with `1` and `2` for their names.
    pub hosts: fn(&str, &str) -> Vec<String>,
}

/// Its OMPIO writes wrong bytes of its own when it sieves data.
pub const OPEN_MPI: Launcher = Launcher {
    launch: &["mpirun.openmpi", "--oversubscribe", "--mca", "fbtl_posix_write_datasieving", "0"],
    program: "patterns",
    hosts: |one, two| vec!["-H".into(), format!("{one}:2,{two}:2")],
};

/// Of PyPI, as Debian's ends only now and then across nodes. Its ranks spin while they wait: one on each node.
pub const MPICH: Launcher = Launcher {
    launch: &["mpirun"],
    program: "patterns.mpich",
    hosts: |one, two| ["-hosts", &format!("{one},{two}"), "-ppn", "1", "-n", "2"].map(String::from).to_vec(),
};

/// Of PyPI. Its daemons have other names than those of 4.1, and so have its parameters.
pub const OPEN_MPI_5: Launcher = Launcher {
    launch: &["mpirun", "--map-by", "slot:OVERSUBSCRIBE"],
    program: "openmpi5/bin/mpirun",
    hosts: OPEN_MPI.hosts,
};

impl Launcher {
    /// Whether it is there; says so if not.
    pub fn is_there(&self) -> bool {
        let launcher = self.path();
        let there = built(self.program).exists() && Command::new(&launcher).arg("--version").output().is_ok();
        if !there {
            println!("SKIPPED: {} and build/{} are needed; make setup build", launcher.display(), self.program);
        }
        there
    }

    pub fn path(&self) -> PathBuf {
        match self.program {
            program if program == MPICH.program => built("python/bin/mpirun"),
            program if program == OPEN_MPI_5.program => built(program),
            _ => self.launch[0].into(),
        }
    }

    /// Started in node 1: ranks on these two nodes.
    pub fn ranks(&self, nodes: &Nodes, hosts: [&str; 2], words: &[&str]) -> Command {
        let mut command = nodes.on("1", &["timeout", "300"]);
        command.arg(self.path()).args(&self.launch[1..]).args((self.hosts)(hosts[0], hosts[1])).args(words);
        command
    }
}
