//! `headstart volume flush`.

use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use headstart_cli::command::EXIT_DIRTY;
use headstart_units::ByteSize;
use headstart_volume::control::Client;
use headstart_volume::export::progress::Progress;

use super::status::served;
use crate::interrupts::Interrupts;

#[derive(Debug, Args)]
pub struct Flush {
    /// The UUID, the disk or the flash of a volume [default: all that are served here]
    volume: Option<String>,
}

impl Flush {
    pub fn execute(&self) -> Result<ExitCode> {
        let volumes = match &self.volume {
            Some(volume) => vec![Client::connect(volume)?],
            None => served(),
        };
        let interrupts = Interrupts::listen()?;
        let mut is_clean = true;
        for mut client in volumes {
            is_clean &= flush(&mut client, &interrupts)?;
        }
        Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIRTY) })
    }
}

/// Writes back until nothing is dirty, or somebody interrupts the wait; whether nothing was left.
fn flush(client: &mut Client, interrupts: &Interrupts) -> Result<bool> {
    let status = client.status()?;
    let mut asking = Client::connect(&status.uuid)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Nobody may wait any more.
        let _ = sender.send(asking.flush().and_then(|()| asking.drain()));
    });
    let progress = Progress::of(status.dirty_bytes);
    let left = loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(left) => break left?,
            Err(RecvTimeoutError::Timeout) if interrupts.so_far() == 0 => {
                progress.show(client.status()?.dirty_bytes);
            }
            Err(RecvTimeoutError::Timeout) => {
                drop(progress);
                let left = client.status()?.dirty_bytes;
                eprintln!("headstart: stopped waiting; {} are on flash and are not lost", ByteSize(left));
                return Ok(left == 0);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the volume's server was not asked"),
        }
    };
    drop(progress);
    if left > 0 {
        eprintln!("headstart: {}: {} could not be written to the disk", status.uuid, ByteSize(left));
    }
    Ok(left == 0)
}
