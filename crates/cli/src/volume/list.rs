//! `headstart volume list`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use headstart_volume::control::{Client, directory};
use headstart_volume::status::Status;
use serde::Serialize;

use super::named::{self, Named};
use super::status::served;

#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a volume stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Stands {
    Served,
    Stopped,
    DiskMissing,
    FlashMissing,
    Unreadable,
}

impl Stands {
    fn word(self) -> &'static str {
        match self {
            Stands::Served => "served",
            Stands::Stopped => "stopped",
            Stands::DiskMissing => "no disk",
            Stands::FlashMissing => "no flash",
            Stands::Unreadable => "unreadable",
        }
    }
}

/// A volume that has a name or is served, or both.
#[derive(Debug, Serialize)]
struct Listed {
    name: Option<String>,
    state: Stands,
    #[serde(skip_serializing_if = "Option::is_none")]
    hdd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// What is wrong with its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl List {
    pub fn execute(&self) -> Result<ExitCode> {
        let mut running = served().iter_mut().map(Client::status).collect::<Result<Vec<_>, _>>()?;
        let mut all = Vec::new();
        for name in named::names()? {
            all.push(match Named::read(&name) {
                Ok(named) => listed(name.to_string(), &named, &mut running),
                Err(error) => Listed { problem: Some(format!("{error:#}")), ..Listed::new(name.to_string()) },
            });
        }
        all.extend(running.iter().map(|status| Listed { name: None, ..Listed::of(status) }));
        if self.json {
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            print(&all);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One that has a name; if it is served, its server is taken out of those that run.
fn listed(name: String, named: &Named, running: &mut Vec<Status>) -> Listed {
    let canonical = |device: &str| directory::canonical(device);
    let [hdd, ssd] = [&named.hdd, &named.ssd].map(ToString::to_string);
    let is_it = |status: &Status| canonical(&status.disk.name) == canonical(&hdd);
    if let Some(at) = running.iter().position(is_it) {
        return Listed { name: Some(name), ..Listed::of(&running.remove(at)) };
    }
    let state = match named.missing().as_slice() {
        [] => Stands::Stopped,
        [only] if **only == named.ssd => Stands::FlashMissing,
        _ => Stands::DiskMissing,
    };
    Listed { state, hdd: Some(hdd), ssd: Some(ssd), ..Listed::new(name) }
}

impl Listed {
    /// One of whose file nothing is known.
    fn new(name: String) -> Listed {
        Listed {
            name: Some(name),
            state: Stands::Unreadable,
            hdd: None,
            ssd: None,
            uuid: None,
            pid: None,
            problem: None,
        }
    }

    /// One that is served.
    fn of(status: &Status) -> Listed {
        Listed {
            name: None,
            state: Stands::Served,
            hdd: Some(status.disk.name.clone()),
            ssd: Some(status.flash.name.clone()),
            uuid: Some(status.uuid.clone()),
            pid: Some(status.pid),
            problem: None,
        }
    }
}

fn print(all: &[Listed]) {
    if all.is_empty() {
        println!("no volume has a name in {}, and none is served", named::directory().display());
        return;
    }
    println!("{:<16} {:<10} DISK, FLASH", "NAME", "STATE");
    for volume in all {
        let name = volume.name.as_deref().unwrap_or("-");
        let devices = match (&volume.hdd, &volume.ssd, &volume.problem) {
            (Some(hdd), Some(ssd), _) => format!("{hdd}, {ssd}"),
            (_, _, problem) => problem.clone().unwrap_or_default(),
        };
        println!("{name:<16} {:<10} {devices}", volume.state.word());
    }
}
