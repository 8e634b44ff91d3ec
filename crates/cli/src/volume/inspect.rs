//! `headstart volume inspect`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use headstart_units::ByteSize;
use headstart_volume::survey::{ExtentReport, RecordReport, Survey};

use super::check::{look, print, print_json};
use super::{Devices, exit_status};

/// Records and extents printed; `--json` has all.
const ROWS_PRINTED: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = "Exit status: as of 'headstart volume check'. The fields: docs/reference/format.md.")]
pub struct Inspect {
    #[command(flatten)]
    devices: Devices,

    /// Print JSON, with every record and every extent
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub fn execute(&self) -> Result<ExitCode> {
        let found = look(&self.devices.find()?, true)?;
        if self.json {
            print_json(&found)?;
        } else {
            print_all(&found);
        }
        Ok(ExitCode::from(exit_status(found.verdict)))
    }
}

fn print_all(found: &Survey) {
    print(found);
    if let Some(refusal) = &found.refusal {
        println!("problem    {refusal}");
    }
    if let Some(volume) = &found.volume {
        println!(
            "epoch      {}; replay begins at record {}, block {} of the log",
            volume.epoch, volume.start_seq, volume.start_block
        );
        println!("log        {} of flash", ByteSize(volume.log_bytes));
        println!("checkpoint {} bytes at byte {} of flash", volume.checkpoint_bytes, volume.checkpoint_offset);
        let guard = &volume.guard;
        println!(
            "guard      {}, session {}, {} blocks changed since",
            guard.state, guard.session, guard.changed_blocks
        );
    }
    rows(found.records.as_deref(), "records", print_record);
    rows(found.extents.as_deref(), "extents", print_extent);
}

fn rows<T>(rows: Option<&[T]>, what: &str, print: impl Fn(&T)) {
    let rows = rows.unwrap_or_default();
    rows.iter().take(ROWS_PRINTED).for_each(print);
    if rows.len() > ROWS_PRINTED {
        println!("           and {} more {what}; --json has all", rows.len() - ROWS_PRINTED);
    }
}

fn print_record(record: &RecordReport) {
    let bad = if record.bad_blocks > 0 { format!(", {} of them damaged", record.bad_blocks) } else { String::new() };
    println!(
        "record     {} at block {}, {} blocks of payload{bad}, durable to {}",
        record.seq, record.block, record.payload_blocks, record.durable_to
    );
    for entry in &record.entries {
        let value = entry.value.map(|value| format!(" ({value})")).unwrap_or_default();
        println!("           {}{value} bytes {}-{}", entry.kind, entry.offset, entry.offset + entry.length);
    }
}

fn print_extent(extent: &ExtentReport) {
    let place = extent.flash_offset.map(|offset| format!(" at byte {offset} of flash")).unwrap_or_default();
    let sound = if extent.sound { "" } else { ", damaged" };
    println!(
        "extent     bytes {}-{}: {}{place}, record {}{sound}",
        extent.offset,
        extent.offset + extent.length,
        extent.kind,
        extent.seq
    );
}
