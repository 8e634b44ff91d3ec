//! What Hydra reaches other nodes by: a link to this program, which puts `headstart launch` before Hydra's proxy and
//! becomes the program that Hydra would have called (`ssh`, `srun`, what the user named).
//!
//! Hydra quotes the proxy for those programs that hand the command to a shell on the other node.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use headstart_program::preloading::file_name;
use headstart_protocol::ENVIRONMENT_LAUNCH;

use crate::program::link_in;

/// The name of the link, by which this program knows what it is called for.
pub const NAME: &str = "headstart-remote-shell";
/// Names Hydra's program.
const VARIABLE: &str = "HYDRA_LAUNCHER_EXEC";
/// What the user had there.
const GIVEN: &str = "HEADSTART_REMOTE_SHELL";
/// Proxies of Hydra, of older ones and of Intel's.
const PROXIES: [&[u8]; 3] = [b"hydra_pmi_proxy", b"pmi_proxy", b"hydra_bstrap_proxy"];

/// Makes Hydra call the link.
pub fn prepare(command: &mut Command, runtime: &Path) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let link = link_in(runtime, NAME, &program)?;
    let given = std::env::var_os(VARIABLE);
    if let Some(given) = given.filter(|given| file_name(given.as_bytes()) != NAME.as_bytes()) {
        command.env(GIVEN, given);
    }
    command.env(VARIABLE, link);
    Ok(())
}

/// Whether this program was called by the link.
pub fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| file_name(name.as_bytes()) == NAME.as_bytes())
}

/// Becomes the program that Hydra would have called.
pub fn execute() -> Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let launch = std::env::var_os(ENVIRONMENT_LAUNCH)
        .with_context(|| format!("{NAME} is called by Hydra in a run of 'headstart run', and by nobody else"))?;
    let shell = std::env::var_os(GIVEN).unwrap_or_else(|| usual(&arguments).into());
    let error = Command::new(&shell).args(with_launch(arguments, &launch)).exec();
    Err(error).with_context(|| format!("cannot start {}, by which Hydra reaches other nodes", shell.display()))
}

/// What Hydra calls if it is told nothing, by how it is called.
fn usual(arguments: &[OsString]) -> &'static str {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    match arguments.first().and_then(|first| first.to_str()) {
        // The first of them where Hydra does not take the nodes from Slurm.
        Some("--nodelist" | "-N") => "srun",
        _ if has("-inherit") => "qrsh",
        Some("-x" | "-X") => "ssh",
        Some("-n") => "blaunch",
        _ => "rsh",
    }
}

/// The arguments, with ours before the proxy.
fn with_launch(mut arguments: Vec<OsString>, launch: &OsStr) -> Vec<OsString> {
    let unquoted = |text: &OsString| text.as_bytes().iter().copied().filter(|byte| *byte != b'"').collect::<Vec<u8>>();
    let proxy = arguments.iter().position(|argument| PROXIES.contains(&file_name(&unquoted(argument))));
    let Some(proxy) = proxy else { return arguments };
    let is_quoted = arguments[proxy].as_bytes().starts_with(b"\"");
    let (program, word) = super::split(launch);
    let program = if is_quoted { [b"\"", program.as_bytes(), b"\""].concat() } else { program.as_bytes().to_vec() };
    arguments.splice(proxy..proxy, [OsString::from_vec(program), super::COMMAND.into(), word.into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_before_the_proxy_however_hydra_calls() {
        for (called, usually, becomes) in [
            (
                "-x node2 \"/b/hydra_pmi_proxy\" --proxy-id 1",
                "ssh",
                "-x node2 \"/h\" launch w \"/b/hydra_pmi_proxy\" --proxy-id 1",
            ),
            ("node2 \"/b/pmi_proxy\" --x", "rsh", "node2 \"/h\" launch w \"/b/pmi_proxy\" --x"),
            (
                "--nodelist a,b -N 2 /b/hydra_pmi_proxy 1",
                "srun",
                "--nodelist a,b -N 2 /h launch w /b/hydra_pmi_proxy 1",
            ),
            (
                "-N 2 -n 2 --input none /b/hydra_pmi_proxy 1",
                "srun",
                "-N 2 -n 2 --input none /h launch w /b/hydra_pmi_proxy 1",
            ),
            ("node2 date", "rsh", "node2 date"),
        ] {
            let arguments: Vec<OsString> = called.split(' ').map(OsString::from).collect();
            assert_eq!(usual(&arguments), usually, "{called}");
            assert_eq!(with_launch(arguments, OsStr::new("/h w")).join(OsStr::new(" ")), becomes);
        }
    }
}
