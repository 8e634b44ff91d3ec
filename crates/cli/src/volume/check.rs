//! `headstart volume check`.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use headstart_units::ByteSize;
use headstart_volume::pair::{Access, Pair};
use headstart_volume::survey::{self, Survey, Verdict};

use super::{Devices, Found, exit_status, heads, ranges};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 the disk alone has everything; 75 flash is needed, and has all that it should; 77 bytes are lost, or a \
    server would refuse to start; 78 the flash holds no volume of this disk; 125 it could not be looked at."
)]
pub struct Check {
    #[command(flatten)]
    devices: Devices,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn execute(&self) -> Result<ExitCode> {
        let devices = self.devices.find()?;
        let found = look(&devices, false)?;
        if self.json {
            print_json(&found)?;
        } else {
            print(&found);
            print_verdict(&devices, &found);
        }
        Ok(ExitCode::from(exit_status(found.verdict)))
    }
}

/// Looks at both devices and writes nothing.
pub fn look(devices: &Found, details: bool) -> Result<Survey> {
    let mut pair = Pair::open_for(Access::Look, &devices.hdd, &devices.ssd)?;
    survey::look(&mut pair, details).map_err(|failed| anyhow!(pair.describe(failed)))
}

/// As JSON, with the exit status.
pub fn print_json(found: &Survey) -> Result<()> {
    #[derive(serde::Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        found: &'a Survey,
        exit_status: u8,
    }
    let whole = Whole { found, exit_status: exit_status(found.verdict) };
    serde_json::to_writer_pretty(std::io::stdout().lock(), &whole)?;
    println!();
    Ok(())
}

/// What there is.
pub fn print(found: &Survey) {
    let size = |bytes| ByteSize(bytes).to_string();
    println!("disk       {}, {}, {}", found.disk.name, size(found.disk.bytes), found.disk.identity);
    println!("flash      {}, {}", found.flash.name, size(found.flash.bytes));
    match &found.volume {
        None => println!("volume     none that counts"),
        Some(volume) => {
            let state = if volume.detached { "detached" } else { "attached" };
            println!("volume     {}, {state}, started {} times", volume.uuid, volume.epoch - 1);
            println!("           of disk {}, {}", volume.disk_identity, size(volume.disk_bytes));
            println!("           {} of flash, {}, policy {}", size(volume.flash_bytes), volume.mode, volume.policy);
            if let Some(segments) = &volume.segments {
                println!("{}", heads(segments.slots, segments.head_bytes, segments.segment_bytes));
                println!("sizes      {}", segments.basis);
            }
        }
    }
    for (place, superblock) in ["A", "B"].iter().zip(&found.superblocks) {
        let number = superblock.volume.as_ref().map(|volume| format!(", number {}", volume.number));
        println!("superblock {place} {}{}", superblock.state, number.unwrap_or_default());
    }
    if found.superblocks.iter().filter(|place| place.volume.is_some()).count() == 1 {
        println!(
            "           one is enough, and the next start writes the other again; a power failure can leave it so"
        );
    }
    if let Some(guard) = &found.guard {
        println!("guard      {}", guard.state);
    }
    println!("log        {} records behind the checkpoint, {} extents", found.records_total, found.extents_total);
    if found.dirty_bytes > 0 {
        println!("dirty      {} only on flash: bytes {}", size(found.dirty_bytes), ranges(&found.dirty));
    }
    if found.lost_bytes > 0 {
        println!("lost       {} of the disk: bytes {}", size(found.lost_bytes), ranges(&found.lost));
    }
    if !found.doubted.is_empty() {
        println!("doubted    later records speak of bytes {}", ranges(&found.doubted));
    }
}

fn print_verdict(devices: &Found, found: &Survey) {
    let Found { hdd, ssd } = devices;
    let is_detached = found.volume.as_ref().is_some_and(|volume| volume.detached);
    match (found.verdict, &found.refusal) {
        (Verdict::Clean, _) if is_detached => println!("{hdd} is a plain disk, and has everything"),
        (Verdict::Clean, _) => println!("{hdd} has everything"),
        (Verdict::Dirty, _) if found.dirty_bytes == 0 => {
            println!(
                "nothing is only on flash, but {hdd} is hidden from others until the volume is served and stopped, or detached"
            );
        }
        (Verdict::Dirty, _) => println!(
            "{hdd} is not whole without its flash: 'headstart volume serve' goes on with both, \
             'headstart volume detach --hdd {hdd} --ssd {ssd}' writes everything back"
        ),
        (Verdict::Damaged | Verdict::Foreign, Some(refusal)) => println!("problem    {refusal}"),
        (Verdict::Damaged | Verdict::Foreign, None) => println!(
            "reads of the lost bytes fail until they are written again; everything else is sound and can be written back"
        ),
    }
}
