//! `headstart status`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use headstart_agent::client::Client;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, Status};
use headstart_core::units::ByteSize;

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StatusArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let site = Site::load(&Site::locate(site))?;
        let Ok(client) = Client::connect(&site) else {
            if self.json {
                println!("{}", serde_json::json!({ "running": false, "slow": site.slow, "fast": site.fast }));
            } else {
                println!("no agent runs for {}; 'headstart run' starts one", site.slow.display());
            }
            return Ok(ExitCode::SUCCESS);
        };
        let status = client.ask(&Command::Status)?;
        if self.json {
            let mut value = serde_json::to_value(&status)?;
            value["running"] = true.into();
            println!("{}", serde_json::to_string_pretty(&value)?);
        } else {
            print(&status);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(status: &Status) {
    let size = |bytes| ByteSize(bytes).to_string();
    println!("slow       {}", status.slow);
    println!("fast       {}", status.fast);
    println!("agent      process {}, {} threads of programs", status.pid, status.threads);
    println!("capacity   {} ({})", status.capacity, size(status.capacity_bytes));
    println!(
        "on flash   {} in {} extents, {} of it dirty{}{}",
        size(status.mapped_bytes),
        status.extents,
        size(status.dirty_bytes),
        if status.draining { ", being written back" } else { "" },
        if status.durable { ", safe against power loss" } else { "" },
    );
    let requests = &status.requests;
    println!(
        "requests   {:.1} % on flash: {} writes absorbed, {} reads from flash",
        100.0 * requests.flash_share(),
        requests.absorbed_requests_total,
        requests.flash_read_requests_total
    );
    println!(
        "to disk    {} reads that missed, {} writes the cost model left there, {} writes without space on flash",
        requests.disk_read_miss_requests_total,
        requests.disk_write_unwanted_requests_total,
        requests.disk_write_no_space_requests_total
    );
    println!(
        "moved      {} written back in {} batches ({} extents), {} fetched, {} extents evicted",
        size(status.agent.written_back_bytes_total),
        status.agent.write_backs_total,
        status.agent.written_back_extents_total,
        size(status.agent.fetched_bytes_total),
        status.agent.evicted_extents_total
    );
    for file in status.files.iter().filter(|file| file.dirty_bytes > 0) {
        let error = file.error.as_deref().map(|error| format!(", last write-back failed: {error}"));
        println!("dirty      {} in {}{}", size(file.dirty_bytes), file.path, error.unwrap_or_default());
    }
}
