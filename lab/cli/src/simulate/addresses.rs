//! What servers and their devices do, one by one, as CSV.
//!
//! ```text
//! seconds,server,device,operation,offset,bytes,latency_ms
//! 0.012500000,disk 0,disk,read,65536,65536,           a command given to the disk of the first disk server
//! 0.013100000,disk 0,flash,write,4096,8192,           one given to the flash of its volume
//! 0.025000000,disk 0,server,read,65536,65536,13.100   a request that the server has answered
//! ```

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use headstart_sim::{Actor, Operation, ServerAccess, TierName};

/// The file.
pub struct Addresses {
    path: PathBuf,
    table: csv::Writer<BufWriter<File>>,
    /// The first error; nothing is written after it.
    failed: Result<(), csv::Error>,
}

impl Addresses {
    /// A file with nothing but headings.
    pub fn create(path: &Path) -> Result<Addresses> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut table = csv::Writer::from_writer(BufWriter::new(file));
        let failed = table.write_record(["seconds", "server", "device", "operation", "offset", "bytes", "latency_ms"]);
        Ok(Addresses { path: path.into(), table, failed })
    }

    /// One line.
    pub fn add(&mut self, done: &ServerAccess) {
        if self.failed.is_ok() {
            self.failed = self.table.write_record(line(done));
        }
    }

    /// Everything is in the file, or why it is not.
    pub fn finish(mut self) -> Result<()> {
        let written = self.failed.map_err(anyhow::Error::from).and_then(|()| Ok(self.table.flush()?));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn line(done: &ServerAccess) -> [String; 7] {
    let ServerAccess { tier, server, access } = done;
    let (tier, device) = match tier {
        TierName::Disk => ("disk", "disk"),
        TierName::Flash => ("flash", "flash"),
    };
    let (device, latency) = match access.actor {
        Actor::Device => (device, String::new()),
        Actor::VolumeFlash => ("flash", String::new()),
        Actor::Server { latency } => ("server", format!("{:.3}", latency.millis())),
    };
    let operation = match access.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
    };
    let ns = access.at.0;
    [
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        format!("{tier} {server}"),
        device.into(),
        operation.into(),
        access.address.to_string(),
        access.length.to_string(),
        latency,
    ]
}
