//! What launchers of parallel programs take from the environment, so that their ranks on other nodes are in the run.
//!
//! | launcher | what of its environment reaches other nodes | what is set |
//! |---|---|---|
//! | Open MPI 4 | `OMPI_*` alone; ranks have what its daemon there has | the command that starts the daemon |
//! | Open MPI 5 (PRRTE) | likewise | likewise |
//! | Hydra (MPICH) | all, to ranks alone | the program that reaches other nodes ([`remote_shell`]) |
//! | Slurm's srun | all, unless it is told otherwise | what it is told in the environment |
//! | Flux | all | nothing |
//!
//! Open MPI's list of variables to export (`mca_base_env_list`) is not used: an `-x` beside it is an error there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use headstart_program::preloading;
use headstart_protocol::{
    ENVIRONMENT_LAUNCH, ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_STRANGERS,
    ENVIRONMENT_TRACE,
};

use super::remote_shell;

/// By what command Open MPI, version 4 and 5, starts its daemon on another node, and that daemon.
const DAEMONS: [(&str, &str); 2] = [("OMPI_MCA_orte_launch_agent", "orted"), ("PRTE_MCA_prte_launch_agent", "prted")];

/// Which variables Slurm hands to the tasks of a step.
const SLURM_EXPORTS: &str = "SLURM_EXPORT_ENV";

/// What the library needs in a rank.
const NEEDED: [&str; 7] = [
    preloading::VARIABLE,
    ENVIRONMENT_LAUNCH,
    ENVIRONMENT_POLICY,
    ENVIRONMENT_RUNTIME,
    ENVIRONMENT_SLOW,
    ENVIRONMENT_STRANGERS,
    ENVIRONMENT_TRACE,
];

/// Sets it for a program that may be a launcher or start one. `launch` is the command line that a daemon goes behind:
/// program, `launch` and a word. Without a runtime directory Hydra's ranks have the library alone.
pub fn prepare(command: &mut Command, launch: [&OsStr; 3], runtime: Option<&Path>) -> Result<()> {
    for (variable, daemon) in DAEMONS {
        let given = std::env::var_os(variable);
        command.env(variable, wrapped(launch, given.as_deref().unwrap_or(OsStr::new(daemon))));
    }
    if let Some(exports) = std::env::var_os(SLURM_EXPORTS) {
        command.env(SLURM_EXPORTS, with_needed(&exports));
    }
    runtime.map_or(Ok(()), |runtime| remote_shell::prepare(command, runtime))
}

/// The command of a daemon behind ours, which takes the place of one of ours that is there.
fn wrapped(launch: [&OsStr; 3], daemon: &OsStr) -> OsString {
    let words: Vec<&[u8]> = daemon.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let is_ours = words.len() > 3 && words[1] == launch[1].as_bytes() && words[0] == launch[0].as_bytes();
    let words = if is_ours { &words[3..] } else { &words[..] };
    let all: Vec<&[u8]> = launch.iter().map(|word| word.as_bytes()).chain(words.iter().copied()).collect();
    OsString::from_vec(all.join(&b' '))
}

/// A list of names for Slurm, with ours in it: `ALL` has them, `NONE` means none but Slurm's own.
fn with_needed(exports: &OsStr) -> OsString {
    let names: Vec<&[u8]> = exports.as_bytes().split(|byte| *byte == b',').collect();
    if names[0].eq_ignore_ascii_case(b"ALL") {
        return exports.to_os_string();
    }
    let of_name = |word: &[u8]| word.split(|byte| *byte == b'=').next().unwrap_or_default().to_vec();
    let given = names.iter().copied().filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"NONE"));
    let missing = NEEDED.iter().map(|name| name.as_bytes()).filter(|name| !names.iter().any(|n| of_name(n) == *name));
    OsString::from_vec(given.chain(missing).collect::<Vec<_>>().join(&b','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_started_behind_ours_once() {
        let launch = |word: &'static str| ["/opt/headstart", "launch", word].map(OsStr::new);
        let once = wrapped(launch("w1"), OsStr::new("orted"));
        assert_eq!(once, "/opt/headstart launch w1 orted");
        assert_eq!(wrapped(launch("w2"), &once), "/opt/headstart launch w2 orted", "of a run within a run");
        let own = wrapped(launch("w1"), OsStr::new("singularity exec image orted --debug"));
        assert_eq!(own, "/opt/headstart launch w1 singularity exec image orted --debug");
    }

    #[test]
    fn slurm_exports_what_the_library_needs_and_what_it_was_told() {
        let exported = |text: &str| with_needed(OsStr::new(text)).into_string().unwrap();
        for text in ["ALL", "all", "ALL,X=1"] {
            assert_eq!(exported(text), text);
        }
        assert_eq!(exported("NONE"), NEEDED.join(","));
        let some = exported("PATH,LD_PRELOAD,X=1");
        assert!(some.starts_with("PATH,LD_PRELOAD,X=1,HEADSTART_"), "{some}");
        assert_eq!(some.matches("LD_PRELOAD").count(), 1);
        for name in NEEDED {
            assert!(some.split(',').any(|word| word == name), "{name} in {some}");
        }
    }
}
