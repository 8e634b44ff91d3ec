//! The `headstart-lab` command: what shows that Headstart does what it says. A cluster in virtual time
//! (`sim`, `scale`), the figures of the papers beside ours (`paper`), and emulated file servers in real time, mounted
//! (`testbed`). Nobody needs it to use Headstart.

#[macro_use(println, eprintln)]
extern crate headstart_cli;

mod canvas;
mod paper;
mod scale;
mod simulate;
mod testbed;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use headstart_cli::command::{EXIT_FAILED, abort_on_panic, end, end_with_reader, refuse};
use headstart_cli::documents::{Completion, Manual};
use headstart_cli::version;

/// Shows what Headstart does: simulations, the papers' figures beside ours, emulated file servers.
#[derive(Debug, Parser)]
#[command(name = "headstart-lab", version, long_version = version::long(), propagate_version = true)]
struct Cli {
    /// The site file: `sim` takes machines and costs from it, `testbed up` writes it [default: as of `headstart`]
    #[arg(long, global = true, value_name = "FILE")]
    site: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate a cluster, its programs and policies in virtual time
    Sim(simulate::Simulate),
    Paper(paper::PaperArguments),
    /// Simulate the workloads of IO500 on so many nodes, each with its agent: what is gained, and what agents say
    Scale(scale::Scale),
    /// Emulated disk and flash servers, mounted as two directories
    #[command(subcommand)]
    Testbed(testbed::TestbedCommand),
    /// Print what makes a shell complete this command
    Completion(Completion),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Manual(Manual),
}

fn main() -> ExitCode {
    abort_on_panic();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let site = cli.site.as_deref();
    let result = match cli.command {
        Command::Sim(arguments) => {
            end_with_reader();
            arguments.execute(site)
        }
        Command::Paper(arguments) => arguments.execute(),
        Command::Scale(arguments) => {
            end_with_reader();
            arguments.execute()
        }
        Command::Testbed(command) => command.execute(site),
        Command::Completion(arguments) => arguments.execute(Cli::command()),
        Command::Manual(arguments) => arguments.execute(Cli::command()),
    };
    end("headstart-lab", result, |_| EXIT_FAILED)
}
