//! `headstart capacity`: how much flash the running agent uses.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use headstart_agent::client::Client;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, Status};
use headstart_units::ByteSize;

use crate::agent::parse_capacity;

#[derive(Debug, Args)]
pub struct CapacityArguments {
    /// Flash to use until the agent ends: 20% of the files in use, or a size. What is too much is written
    /// back and evicted
    #[arg(value_name = "20%|SIZE")]
    capacity: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CapacityArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        parse_capacity(self.capacity.as_deref())?;
        let site_path = Site::locate(site);
        let site = Site::load(&site_path)?;
        let command = match &self.capacity {
            Some(capacity) => Command::Configure { capacity: capacity.clone() },
            None => Command::Status,
        };
        let Some(status) = Client::ask_living(&site, &command)? else {
            bail!(
                "no agent runs for {}; the next one starts with the capacity in {}",
                site.slow.display(),
                site_path.display()
            );
        };
        self.print(&status);
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, status: &Status) {
        let Status { capacity, capacity_bytes, mapped_bytes, dirty_bytes, .. } = status;
        if self.json {
            let figures = serde_json::json!({
                "capacity": capacity, "capacity_bytes": capacity_bytes,
                "mapped_bytes": mapped_bytes, "dirty_bytes": dirty_bytes,
            });
            return println!("{figures}");
        }
        let size = |bytes: &u64| ByteSize(*bytes).to_string();
        println!(
            "{capacity} ({}); {} on flash, {} of it dirty",
            size(capacity_bytes),
            size(mapped_bytes),
            size(dirty_bytes)
        );
    }
}
