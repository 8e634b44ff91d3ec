//! Makes what programs wrote survive power loss, and waits for that.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::Result;
use headstart_agent::Error;
use headstart_agent::status::{Command, Status};

use crate::interrupts::Interrupts;
use crate::service::Service;

/// Waits until everything acknowledged survives power loss; an interrupt ends the wait.
pub fn make_durable(service: &Service, interrupts: &Interrupts) -> Result<Status> {
    let interrupted_before = interrupts.so_far();
    'agents: loop {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (asking, sync) = (service.again()?, service.addressed(&Command::Sync));
        std::thread::spawn(move || {
            // Nobody may wait any more.
            let _ = sender.send(asking.ask(&sync));
        });
        loop {
            match receiver.recv_timeout(Duration::from_millis(20)) {
                Ok(Err(gone @ Error::NoAgent { .. })) => {
                    service.follow_on(gone)?;
                    continue 'agents;
                }
                Ok(answer) => return Ok(answer?),
                Err(RecvTimeoutError::Timeout) if interrupts.so_far() == interrupted_before => {}
                Err(_) => {
                    eprintln!("headstart: stopped; what the program wrote last may not survive power loss yet");
                    return Ok(service.ask(&Command::Status)?);
                }
            }
        }
    }
}
