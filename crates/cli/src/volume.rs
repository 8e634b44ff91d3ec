//! `headstart volume`: the server side.

mod check;
mod create;
mod detach;
mod flush;
mod inspect;
mod list;
mod named;
mod serve;
mod socket;
mod status;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use headstart_units::ByteSize;
use headstart_volume::device::DeviceName;
use headstart_volume::survey::Verdict;

use named::{Name, Named};

#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Put flash in front of a disk, which keeps its data
    Create(create::Create),
    /// Serve a volume as a disk, over NBD or as a file that can be mounted, until Ctrl-C
    Serve(serve::Serve),
    /// List volumes: those that have a name in /etc/headstart/volumes, and those that are served
    List(list::List),
    /// Show how volumes that are served stand
    Status(status::StatusArguments),
    /// Write back to the disk what only flash holds, while the volume is served
    Flush(flush::Flush),
    /// Say how a volume stands that is not being served: what only flash holds, what is lost. Nothing is written
    Check(check::Check),
    /// Show what a volume has on flash: superblocks, guard, records, extents. Nothing is written
    Inspect(inspect::Inspect),
    /// Write everything back and give the disk back as a plain disk; or, with --force, without its flash
    Detach(detach::Detach),
}

impl VolumeCommand {
    pub fn execute(&self) -> Result<ExitCode> {
        match self {
            VolumeCommand::Create(arguments) => arguments.execute(),
            VolumeCommand::Serve(arguments) => arguments.execute(),
            VolumeCommand::List(arguments) => arguments.execute(),
            VolumeCommand::Status(arguments) => arguments.execute(),
            VolumeCommand::Flush(arguments) => arguments.execute(),
            VolumeCommand::Check(arguments) => arguments.execute(),
            VolumeCommand::Inspect(arguments) => arguments.execute(),
            VolumeCommand::Detach(arguments) => arguments.execute(),
        }
    }

    pub fn only_prints(&self) -> bool {
        matches!(
            self,
            VolumeCommand::Check(_) | VolumeCommand::Inspect(_) | VolumeCommand::List(_) | VolumeCommand::Status(_)
        )
    }
}

/// The devices of a volume, as the command line names them.
#[derive(Debug, Args)]
pub struct Devices {
    /// The disk: a block device, a file, or emulated:PROFILE:FILE
    #[arg(long, value_name = "DEV", required_unless_present = "name")]
    hdd: Option<DeviceName>,

    /// Its flash, likewise
    #[arg(long, value_name = "DEV", required_unless_present = "name")]
    ssd: Option<DeviceName>,

    /// Instead of both: the volume of this name, whose devices /etc/headstart/volumes/NAME.toml has
    #[arg(long, value_name = "NAME", conflicts_with_all = ["hdd", "ssd"])]
    name: Option<Name>,
}

/// The devices themselves.
pub struct Found {
    pub hdd: DeviceName,
    pub ssd: DeviceName,
}

impl Devices {
    pub fn find(&self) -> Result<Found> {
        match (&self.hdd, &self.ssd, &self.name) {
            (Some(hdd), Some(ssd), _) => Ok(Found { hdd: hdd.clone(), ssd: ssd.clone() }),
            (_, _, Some(name)) => Named::read(name).map(|named| Found { hdd: named.hdd, ssd: named.ssd }),
            _ => unreachable!("the command line asks for both or for a name"),
        }
    }
}

/// Exit status of `check` and `inspect`.
fn exit_status(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Clean => 0,
        Verdict::Dirty => headstart_cli::command::EXIT_DIRTY,
        Verdict::Damaged => EXIT_LOST,
        Verdict::Foreign => 78,
    }
}

/// Room for heads, as `create`, `check` and `inspect` say it.
fn heads(slots: u32, head_bytes: u64, segment_bytes: u64) -> String {
    let (head, segment) = (ByteSize(head_bytes), ByteSize(segment_bytes));
    format!("heads      room for {slots}, of {head} of each segment of {segment}")
}

/// Bytes are lost.
const EXIT_LOST: u8 = 77;

/// Ranges printed at once; `inspect --json` has all.
const RANGES_PRINTED: usize = 8;

fn ranges(ranges: &[(u64, u64)]) -> String {
    let named = ranges.iter().take(RANGES_PRINTED).map(|(offset, length)| format!("{offset}-{}", offset + length));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if ranges.len() > RANGES_PRINTED {
        text.push_str(&format!(" and {} more ranges", ranges.len() - RANGES_PRINTED));
    }
    text
}
