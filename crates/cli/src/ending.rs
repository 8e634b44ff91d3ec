//! How an agent is ended in order.

use std::time::Duration;

use anyhow::{Result, bail};
use headstart_agent::Error;
use headstart_agent::client::Client;
use headstart_agent::process::{is_zombie, start_time};
use headstart_agent::runtime_directory;
use headstart_agent::status::{Command, Status};
use headstart_protocol::SOCKET_FILE;
use headstart_units::ByteSize;

/// Refuses to leave dirty bytes behind unless told to.
pub fn refuse_dirty(status: &Status, keep_dirty: bool) -> Result<()> {
    if status.dirty_bytes > 0 && !keep_dirty {
        bail!(
            "{} on flash are not on disk yet: 'headstart drain' writes them back, --keep-dirty leaves them for later",
            ByteSize(status.dirty_bytes)
        );
    }
    Ok(())
}

/// Stops the agent; refuses to leave dirty bytes behind unless told to, and says so if what was acknowledged
/// is not durable.
pub fn stop(client: &Client, keep_dirty: bool) -> Result<()> {
    refuse_dirty(&client.ask(&Command::Status)?, keep_dirty)?;
    // It ends once what was acknowledged is durable.
    let status = client.ask(&Command::Stop)?;
    while start_time(status.pid).is_some() && !is_zombie(status.pid) {
        std::thread::sleep(Duration::from_millis(2));
    }
    // One that failed at that, or was killed meanwhile, leaves its socket.
    if client.runtime().join(SOCKET_FILE).exists() && client.again().is_err() {
        let log = runtime_directory::log(client.runtime());
        return Err(Error::NotDurable { fast: status.fast.into(), log }.into());
    }
    Ok(())
}
