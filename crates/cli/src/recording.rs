//! `headstart trace`: a program with the library preloaded, which writes its requests down and otherwise
//! stays out of the way.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::site::Site;
use headstart_agent::{Error, claim};
use headstart_protocol::{ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_SWITCH, ENVIRONMENT_TRACE};

use crate::interrupts::Interrupts;
use crate::launch;
use crate::looks::Looks;
use crate::program::{Program, check_library, exit_code, library, nameable};
use crate::unseen;
use headstart_cli::trace;

#[derive(Debug, Args)]
pub struct Recording {
    /// Where each process records its requests [default: headstart-trace-TIME here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// The directory whose files are traced [default: the site's slow directory]. Where other sites manage
    /// directories below it, drain them first: files there are read and written as they are on disk
    #[arg(long, value_name = "DIR")]
    slow: Option<PathBuf>,

    /// The node where the recording began that this one is part of
    #[arg(long, value_name = "NODE", hide = true)]
    joins: Option<String>,

    /// The program and its arguments, for example: -- mpirun -n 16 ./app
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Recording {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let program = Program(&self.program);
        if self.joins.is_none() && std::env::var_os(ENVIRONMENT_SWITCH).is_some_and(|value| value == "off") {
            eprintln!("headstart: {ENVIRONMENT_SWITCH}=off: nothing is recorded");
            return Ok(exit_code(program.wait(program.command(), &Interrupts::listen()?)?));
        }
        let library = library()?;
        check_library(&library)?;
        let slow = self.managed(site)?;
        let output = self.output.clone().unwrap_or_else(default_output);
        let was_there = output.exists();
        let began_on = self.joins.as_deref();
        let command = alone(&program, &library, &slow, &output, began_on)?;
        unseen::warn_untraced(&self.program[0]);
        let status = program.wait(command, &Interrupts::listen()?)?;
        if began_on.is_some() {
            // The node where it began tells of all.
        } else if trace::is_recorded(&output) {
            eprintln!("headstart: the trace is in {}; 'headstart convert' reads it", output.display());
        } else {
            eprintln!("headstart: no request on a file below {} was seen", slow.display());
            if !was_there {
                // Somebody may have put something into it.
                let _ = fs::remove_dir(&output);
            }
        }
        Ok(exit_code(status))
    }

    /// The directory whose files are traced. Nothing of it may be only on flash, as no agent is asked.
    fn managed(&self, site: Option<&Path>) -> Result<PathBuf> {
        if let Some(slow) = &self.slow {
            let given = || format!("cannot use --slow {}", slow.display());
            let slow = slow.canonicalize().with_context(given)?;
            if !slow.is_dir() {
                bail!("{}: it is not a directory; name the one that holds the files", given());
            }
            // It may lie in a managed directory, or around that of the site.
            let below = Site::read(&Site::locate(site)).ok().map(|site| site.slow).filter(|dir| dir.starts_with(&slow));
            slow.ancestors().chain(below.as_deref()).try_for_each(claim::refuse_debt).context(ON_FLASH)?;
            return Ok(slow);
        }
        let (slow, fast) = match Site::load(&Site::locate(site)) {
            Ok(site) => (site.slow, site.fast),
            Err(Error::FastDirectory { slow, fast, .. }) => (slow, fast),
            Err(error) => return Err(anyhow::Error::new(error).context("no directory to trace: name one with --slow")),
        };
        match claim::refuse_if_owed(&slow, &fast) {
            // An agent of ours that has nothing dirty: its clean bytes are dropped where the program changes them.
            Err(Error::Owned { .. }) => claim::refuse_debt(&slow),
            result => result,
        }
        .context(ON_FLASH)?;
        Ok(slow)
    }
}

const ON_FLASH: &str = "tracing alone uses the disks alone; 'headstart run --trace DIR' traces a run with flash";

fn default_output() -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PathBuf::from(format!("headstart-trace-{}", since.as_secs()))
}

/// A program that records its requests on files below `slow` and has no agent, and so do those it starts on other
/// nodes.
pub fn alone(program: &Program, library: &Path, slow: &Path, output: &Path, began_on: Option<&str>) -> Result<Command> {
    let library = nameable(library.to_path_buf(), None)?;
    let mut command = program.preloaded(&library, &Looks::of(&program.0[0]));
    record_in(&mut command, output, began_on.is_some())?;
    command.env(ENVIRONMENT_SLOW, slow).env_remove(ENVIRONMENT_RUNTIME).env_remove(ENVIRONMENT_SWITCH);
    let output = output.canonicalize().with_context(|| format!("cannot find {}", output.display()))?;
    let arguments = ["trace".into(), "--output".into(), output.into(), "--slow".into(), slow.into()];
    launch::prepare(&mut command, arguments.into(), began_on, None)?;
    Ok(command)
}

/// Makes a program record its requests in a directory, which is made if need be. Only the node where the run began
/// insists that no trace is there: others add theirs.
pub fn record_in(command: &mut Command, directory: &Path, is_begun: bool) -> Result<()> {
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {shown} for the trace"))?;
    let directory = directory.canonicalize().with_context(|| format!("cannot use {shown} for the trace"))?;
    if !is_begun && trace::is_recorded(&directory) {
        bail!("the directory {shown} holds a trace already; name another one, or remove it");
    }
    command.env(ENVIRONMENT_TRACE, directory);
    Ok(())
}
