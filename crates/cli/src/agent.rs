//! `headstart agent`: the agent in the foreground.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use headstart_agent::site::Site;
use headstart_agent::{Options, serve};
use headstart_core::overlay::Capacity;

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Flash to use instead of what the site file says: 20% of the files in use, or a size
    #[arg(long, value_name = "20%|SIZE")]
    capacity: Option<String>,
}

impl AgentArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        crate::log_to_stderr("info");
        let site_path = Site::locate(site);
        let capacity = parse_capacity(self.capacity.as_deref())?;
        serve(Options { site: Site::load(&site_path)?, site_path, capacity })?;
        Ok(ExitCode::SUCCESS)
    }
}

pub fn parse_capacity(text: Option<&str>) -> Result<Option<Capacity>> {
    text.map(|text| text.parse::<Capacity>().map_err(|error| anyhow!("--capacity: {error}"))).transpose()
}
