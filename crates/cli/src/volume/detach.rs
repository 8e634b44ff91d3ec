//! `headstart volume detach`: the disk is a plain disk again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use headstart_block::devices::Device;
use headstart_block::recovery;
use headstart_block::recovery::Superblocks;
use headstart_units::ByteSize;
use headstart_volume::detaching::{Detached, detach, resume, undo_guard};
use headstart_volume::device::DeviceName;
use headstart_volume::ends::{Ends, Reading};
use headstart_volume::pair::{Access, OpenDevice, Pair};

use super::{EXIT_LOST, ranges};
use crate::confirming::confirm;

#[derive(Debug, Args)]
#[command(
    after_help = "A volume that is served is stopped first. With --force the flash is not needed, and whatever only it held is lost: the \
    disk keeps what was written back. What the disk holds is told by its partition table or file system; where none \
    is recognised, --guard says whether the volume was served (on) or stopped (off) when the flash was lost."
)]
pub struct Detach {
    /// The disk: a block device, a file, or emulated:PROFILE:FILE
    #[arg(long, value_name = "DEV")]
    hdd: DeviceName,

    /// Its flash, likewise
    #[arg(long, value_name = "DEV", required_unless_present = "force", conflicts_with = "force")]
    ssd: Option<DeviceName>,

    /// Without the flash: what only it held is lost
    #[arg(long)]
    force: bool,

    /// Whether the ends of the disk are hidden, if that cannot be told
    #[arg(long, requires = "force", conflicts_with = "ssd")]
    guard: Option<Guard>,

    /// Do not ask
    #[arg(long, requires = "force", conflicts_with = "ssd")]
    yes: bool,

    /// Where the ends of the disk are kept while they are written, in case that is interrupted
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/tmp", requires = "force")]
    keep_ends: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Guard {
    On,
    Off,
}

impl Detach {
    pub fn execute(&self) -> Result<ExitCode> {
        match &self.ssd {
            Some(ssd) => self.with_flash(ssd),
            None => self.without_flash(),
        }
    }

    fn with_flash(&self, ssd: &DeviceName) -> Result<ExitCode> {
        let mut pair = Pair::open(&self.hdd, ssd)?;
        if is_detached(&mut pair)? {
            println!("{} is detached already: it is a plain disk", self.hdd);
            return Ok(ExitCode::SUCCESS);
        }
        let detached = detach(&mut pair).map_err(|refusal| anyhow!(pair.explain(&refusal)))?;
        match detached {
            Detached::Plain { written_back_bytes } => {
                println!(
                    "{} written back; {} is a plain disk, and {ssd} is free",
                    ByteSize(written_back_bytes),
                    self.hdd
                );
                Ok(ExitCode::SUCCESS)
            }
            Detached::Kept { left } => {
                let bytes = ByteSize(left.iter().map(|(_, length)| length).sum());
                eprintln!(
                    "headstart: {bytes} could not be written back: bytes {}; everything else is on the disk, and the volume stays as it is. \
                     Mend the devices and try again; or 'headstart volume detach --force --hdd {}' gives these bytes up",
                    ranges(&left),
                    self.hdd
                );
                Ok(ExitCode::from(EXIT_LOST))
            }
        }
    }

    fn without_flash(&self) -> Result<ExitCode> {
        let hdd = &self.hdd;
        let disk = OpenDevice::open(hdd, Device::Disk, Access::Serve)?;
        let ends = Ends::read(&disk).with_context(|| format!("{hdd}: cannot read its ends"))?;
        if resume(&disk, &ends, &self.keep_ends)? {
            println!("what was interrupted is done: {hdd} is a plain disk");
            return Ok(ExitCode::SUCCESS);
        }
        let (session, found) = match (self.guard, ends.judge()) {
            (_, Reading::Mixed(_)) => bail!(
                "{hdd}: some of its ends is hidden and some is not: the server died while it started or stopped. \
                 The flash knows what to do: 'headstart volume detach --hdd {hdd} --ssd DEV'"
            ),
            (None, Reading::Plain(found)) => {
                println!("{hdd} is a plain disk already: it holds {}", found.join(" and "));
                return Ok(ExitCode::SUCCESS);
            }
            (Some(Guard::Off), _) => {
                println!("{hdd} is a plain disk, as you say; nothing was written");
                return Ok(ExitCode::SUCCESS);
            }
            (None, Reading::Both(plain, _, hidden)) => bail!(
                "{hdd}: as it is it holds {}, and hidden {}; --guard on|off says which to believe",
                plain.join(" and "),
                hidden.join(" and ")
            ),
            (None, Reading::Neither(session)) => {
                let looks = if session.is_some() { "looks hidden" } else { "does not look hidden" };
                bail!(
                    "{hdd}: no partition table or file system is recognised, hidden or not (it {looks}); --guard on|off says whether the \
                     volume was being served when its flash was lost"
                )
            }
            (_, Reading::Guarded(session, found) | Reading::Both(_, session, found)) => (session, found),
            (Some(Guard::On), Reading::Plain(_) | Reading::Neither(_)) => match ends.session() {
                Some(session) => (session, Vec::new()),
                None => {
                    bail!("{hdd}: nothing in its ends shows how they are hidden; without the flash they cannot be read")
                }
            },
        };
        if !found.is_empty() {
            println!("{hdd} holds {}, hidden", found.join(" and "));
        }
        self.confirm()?;
        undo_guard(&disk, &ends, session, &self.keep_ends)?;
        println!("{hdd} is a plain disk; check its file system before you use it");
        Ok(ExitCode::SUCCESS)
    }

    fn confirm(&self) -> Result<()> {
        println!("what was only on its flash is lost for good: files written last may be old, or damaged");
        confirm(self.yes, "Give it up?", "written")
    }
}

/// Whether the flash says that the disk was detached from it.
fn is_detached(pair: &mut Pair) -> Result<bool> {
    let places = recovery::superblocks(pair);
    let [first, second] = places.map_err(|failed| anyhow!(pair.describe(failed)))?;
    let newest = Superblocks::observe(first, second).newest();
    Ok(newest.is_some_and(|superblock| superblock.detached && superblock.disk == pair.disk.identity))
}
