//! The `headstart` command.

#[macro_use]
mod printing;

mod advise;
mod agent;
mod arrival;
mod calibrate;
mod capacity;
mod check;
mod convert;
mod discard;
mod interrupts;
mod paper;
mod place;
mod plan;
mod program;
mod recording;
mod run;
mod service;
mod simulate;
mod site;
mod status;
mod supervision;
mod testbed;
mod trace;
mod unseen;
mod volume;
mod write_back;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use headstart_agent::client::{EXIT_ALREADY_SERVED, EXIT_IN_USE};

/// Makes a little flash do for a lot of disk, beneath unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "headstart", version, propagate_version = true)]
struct Cli {
    /// The site file: which directories, and what they cost [default: $HEADSTART_SITE, else
    /// ~/.config/headstart/site.toml, else /etc/headstart/site.toml]
    #[arg(long, global = true, value_name = "FILE")]
    site: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program with flash in front of the slow directory
    Run(run::Run),
    /// Run a program and record each of its requests, without flash and without an agent
    Trace(recording::Recording),
    /// Turn a trace into lines of JSON or a table
    Convert(convert::Convert),
    /// Choose from a trace which regions of which files belong on flash, and say what that is worth
    Plan(plan::PlanArguments),
    /// Say what flash would do for a run that was traced: how much of it, which policy, what to run next
    Advise(advise::Advise),
    /// Simulate a cluster, its programs and policies in virtual time
    Sim(simulate::Simulate),
    /// Copy the regions that a plan chose to flash, where they stay
    Place(place::Place),
    /// Give flash back that regions of plans take
    Unplace(place::Unplace),
    /// Write dirty bytes back to the slow directory
    Drain(write_back::Drain),
    /// Show what is on flash and what happened so far
    Status(status::StatusArguments),
    /// Stop the agent of this site
    Stop(write_back::Stop),
    /// Say how a managed directory stands: who owns it, what is only on flash, what is lost
    Check(check::Check),
    /// Give up what a node or flash that is gone for good kept of a managed directory
    Disown(discard::Disown),
    /// Show or change how much flash the running agent uses
    Capacity(capacity::CapacityArguments),
    Calibrate(Box<calibrate::Calibrate>),
    Paper(paper::PaperArguments),
    /// Check or show a site file
    #[command(subcommand)]
    Site(site::SiteCommand),
    /// Emulated disk and flash servers, mounted as two directories
    #[command(subcommand)]
    Testbed(testbed::TestbedCommand),
    /// The server side: volumes, each a disk with a slice of flash
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Serve as the agent, in the foreground (started by `run`)
    #[command(hide = true)]
    Agent(agent::AgentArguments),
}

impl Command {
    fn only_prints(&self) -> bool {
        use Command::{Advise, Check, Plan, Sim, Site, Status, Volume};
        match self {
            Volume(command) => command.only_prints(),
            _ => matches!(self, Advise(_) | Check(_) | Plan(_) | Sim(_) | Site(_) | Status(_)),
        }
    }
}

/// A broken invariant ends the process, whichever thread finds it: what it would do next cannot be trusted.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say(what);
        std::process::abort();
    }));
}

/// Whoever reads what is printed may have enough, as `head` has: then the command ends, without a word. Not
/// for commands that have something to finish, nor for those that start programs, which would inherit it.
fn end_with_reader() {
    // SAFETY: the default action runs no code of this process, and no other thread runs yet.
    let set =
        unsafe { nix::sys::signal::signal(nix::sys::signal::Signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl) };
    set.expect("the signal exists");
}

fn main() -> ExitCode {
    abort_on_panic();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS };
        }
    };
    let site = cli.site.as_deref();
    let in_foreground = matches!(cli.command, Command::Agent(_));
    if cli.command.only_prints() {
        end_with_reader();
    }
    let result = match cli.command {
        Command::Run(arguments) => arguments.execute(site),
        Command::Trace(arguments) => arguments.execute(site),
        Command::Convert(arguments) => arguments.execute(),
        Command::Plan(arguments) => arguments.execute(site),
        Command::Advise(arguments) => arguments.execute(site),
        Command::Sim(arguments) => arguments.execute(site),
        Command::Place(arguments) => arguments.execute(site),
        Command::Unplace(arguments) => arguments.execute(site),
        Command::Drain(arguments) => arguments.execute(site),
        Command::Status(arguments) => arguments.execute(site),
        Command::Stop(arguments) => arguments.execute(site),
        Command::Check(arguments) => arguments.execute(site),
        Command::Disown(arguments) => arguments.execute(site),
        Command::Capacity(arguments) => arguments.execute(site),
        Command::Calibrate(arguments) => arguments.execute(site),
        Command::Paper(arguments) => arguments.execute(),
        Command::Site(command) => command.execute(site),
        Command::Testbed(command) => command.execute(site),
        Command::Volume(command) => command.execute(),
        Command::Agent(arguments) => arguments.execute(site),
    };
    let code = result.unwrap_or_else(|error| {
        eprintln!("headstart: {}", in_words(&error));
        match error.downcast_ref() {
            Some(headstart_agent::Error::AlreadyServed { .. }) => ExitCode::from(EXIT_ALREADY_SERVED as u8),
            Some(error) if in_foreground && error.means_in_use() => ExitCode::from(EXIT_IN_USE as u8),
            _ => ExitCode::from(EXIT_FAILED),
        }
    });
    match printing::failed() {
        Some(error) if code == ExitCode::SUCCESS => {
            eprintln!("headstart: cannot print: {error}");
            ExitCode::from(EXIT_FAILED)
        }
        _ => code,
    }
}

/// An error and its causes; what already names its cause does not name it twice.
fn in_words(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

/// Headstart itself failed; programs rarely use this status.
const EXIT_FAILED: u8 = 125;
/// The program ended well, but dirty bytes stay on flash that nobody asked to keep there.
const EXIT_DIRTY: u8 = 75;

/// Writes log lines to stderr: warnings, or what `HEADSTART_LOG` asks for.
fn log_to_stderr(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HEADSTART_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // A line that cannot be written, as where the agent's log lies in a full tmpfs, is lost; saying so would
    // end the agent.
    log.log_internal_errors(false).init();
}
