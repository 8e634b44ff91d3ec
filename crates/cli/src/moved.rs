//! Commands of `headstart-lab` that somebody gives to `headstart`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// Whatever arguments such a command has; `--help` is one of them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl Moved {
    /// Says which program has the command.
    pub fn refuse(&self, command: &str) -> Result<ExitCode> {
        bail!(
            "'{command}' is a command of headstart-lab, which takes the same arguments: headstart-lab {command} ...; \
             'make install-lab' installs it"
        )
    }
}
