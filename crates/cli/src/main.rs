//! The `headstart` command.

#[macro_use(print, println, eprintln)]
extern crate headstart_cli;

mod advise;
mod agent;
mod arrival;
mod calibrate;
mod capacity;
mod check;
mod cluster;
mod confirming;
mod convert;
mod discard;
mod durable;
mod following;
mod interrupts;
mod launch;
mod looks;
mod moved;
mod others;
mod place;
mod plan;
mod program;
mod progress;
mod recording;
mod run;
mod service;
mod site;
mod start;
mod status;
mod supervision;
mod unseen;
mod volume;
mod write_back;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use headstart_agent::client::{EXIT_ALREADY_SERVED, EXIT_IN_USE};
use headstart_cli::command::{EXIT_FAILED, abort_on_panic, end, end_with_reader, refuse};
use headstart_cli::documents::{Completion, Manual};
use headstart_cli::version;

/// What the manual page says beside the commands.
const AFTER: &str = "\
Site file: --site FILE, else $HEADSTART_SITE, else ~/.config/headstart/site.toml, else /etc/headstart/site.toml. Each of \
its keys has an environment variable, HEADSTART_KEY or HEADSTART_TABLE_KEY, which comes before it. \
HEADSTART=off runs a program without Headstart.

Exit status: 'run' and 'trace' end as the program does. 75: all went well, but dirty bytes stay on flash that nobody asked \
to keep there. 125: Headstart itself failed, and says why. 'check' and 'volume check' have statuses of their own.";

/// Makes a little flash do for a lot of disk, beneath unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "headstart", version, long_version = version::long(), propagate_version = true, after_long_help = AFTER)]
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
    /// The nodes that share the directories
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show or change how much flash the running agent uses
    Capacity(capacity::CapacityArguments),
    Calibrate(Box<calibrate::Calibrate>),
    /// Check or show a site file
    #[command(subcommand)]
    Site(site::SiteCommand),
    /// The server side: volumes, each a disk with a slice of flash
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Print what makes a shell complete this command
    Completion(Completion),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Manual(Manual),
    /// Take part, as another node, in a run that began elsewhere (started by launchers in a `run`)
    #[command(hide = true)]
    Launch(launch::Launch),
    /// Serve as the agent, in the foreground (started by `run`)
    #[command(hide = true)]
    Agent(agent::AgentArguments),
    /// Keep the node's lock while agents come and go (started by one)
    #[command(hide = true)]
    HoldPresence,
    /// A command of `headstart-lab`
    #[command(hide = true)]
    Sim(moved::Moved),
    /// A command of `headstart-lab`
    #[command(hide = true)]
    Paper(moved::Moved),
    /// A command of `headstart-lab`
    #[command(hide = true)]
    Testbed(moved::Moved),
}

impl Command {
    fn only_prints(&self) -> bool {
        use Command::{Advise, Check, Cluster, Completion, Plan, Site, Status, Volume};
        match self {
            Volume(command) => command.only_prints(),
            Cluster(command) => command.only_prints(),
            _ => matches!(self, Advise(_) | Check(_) | Completion(_) | Plan(_) | Site(_) | Status(_)),
        }
    }
}

fn main() -> ExitCode {
    abort_on_panic();
    if launch::remote_shell::is_called() {
        return end(launch::remote_shell::NAME, launch::remote_shell::execute(), |_| EXIT_FAILED);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
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
        Command::Place(arguments) => arguments.execute(site),
        Command::Unplace(arguments) => arguments.execute(site),
        Command::Drain(arguments) => arguments.execute(site),
        Command::Status(arguments) => arguments.execute(site),
        Command::Stop(arguments) => arguments.execute(site),
        Command::Check(arguments) => arguments.execute(site),
        Command::Disown(arguments) => arguments.execute(site),
        Command::Capacity(arguments) => arguments.execute(site),
        Command::Calibrate(arguments) => arguments.execute(site),
        Command::Site(command) => command.execute(site),
        Command::Volume(command) => command.execute(),
        Command::Cluster(command) => command.execute(site),
        Command::Agent(arguments) => arguments.execute(site),
        Command::Completion(arguments) => arguments.execute(Cli::command()),
        Command::Manual(arguments) => arguments.execute(Cli::command()),
        Command::Launch(arguments) => arguments.execute(),
        Command::HoldPresence => agent::hold_presence(),
        Command::Sim(arguments) => arguments.refuse("sim"),
        Command::Paper(arguments) => arguments.refuse("paper"),
        Command::Testbed(arguments) => arguments.refuse("testbed"),
    };
    end("headstart", result, |error| match error.downcast_ref() {
        Some(headstart_agent::Error::AlreadyServed { .. }) => EXIT_ALREADY_SERVED as u8,
        Some(error) if in_foreground && error.means_in_use() => EXIT_IN_USE as u8,
        _ => EXIT_FAILED,
    })
}
