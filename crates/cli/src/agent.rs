//! `headstart agent`: the agent in the foreground.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use headstart_agent::cluster::holder;
use headstart_agent::site::Site;
use headstart_agent::{Options, serve};
use headstart_units::Capacity;

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Flash to use instead of what the site file says: 20% of the files in use, or a size
    #[arg(long, value_name = "20%|SIZE")]
    capacity: Option<String>,

    /// Files to put on flash instead of those that the site file names
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// Files to leave on the disks instead of those that the site file names
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl AgentArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        headstart_cli::command::log_to_stderr("info");
        let site_path = Site::locate(site);
        let capacity = parse_capacity(self.capacity.as_deref())?;
        let mut site = Site::load(&site_path)?;
        for (own, of_site) in [(&self.include, &mut site.include), (&self.exclude, &mut site.exclude)] {
            if !own.is_empty() {
                of_site.clone_from(own);
            }
        }
        serve(Options { site, site_path, capacity })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `headstart hold-presence`: ends when no agent of this node has been there for long.
pub fn hold_presence() -> Result<ExitCode> {
    holder::run(holder::LINGER)?;
    Ok(ExitCode::SUCCESS)
}

pub fn parse_capacity(text: Option<&str>) -> Result<Option<Capacity>> {
    text.map(|text| text.parse::<Capacity>().map_err(|error| anyhow!("--capacity: {error}"))).transpose()
}
