//! `headstart site`: check a site file, or show what one looks like.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use headstart_agent::client::Client;
use headstart_agent::site::{CostModels, Site};
use headstart_policy::client::Request;
use headstart_policy::cost::benefit::Parameters;
use headstart_policy::order::Distance;
use headstart_units::Capacity;
use headstart_units::request::{Direction, Range};
use headstart_units::{ByteSize, KIB, MIB};

#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Check the site file, its directories and its cost models
    Check,
    /// Print an example to start from
    Example,
}

impl SiteCommand {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        match self {
            SiteCommand::Check => check(&Site::locate(site)),
            SiteCommand::Example => {
                let parameters = Parameters::default();
                let example = Site {
                    slow: "/scratch/hdd".into(),
                    fast: "/scratch/ssd".into(),
                    capacity: Some("20%".into()),
                    include: Vec::new(),
                    exclude: Vec::new(),
                    strangers: None,
                    s4d: CostModels { read: parameters.clone(), write: parameters },
                    carl: None,
                    software: None,
                    agent: None,
                    cluster: None,
                };
                println!(
                    "# Where the two tiers are and what they cost. Rates are seconds per byte of one server's part of a"
                );
                println!("# request, as measured with the site's usual number of processes at work, network included.");
                print!("{}", example.to_toml());
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn check(path: &Path) -> Result<ExitCode> {
    let site = Site::load(path)?;
    println!("site file  {}", path.display());
    for (name, directory) in [("slow", &site.slow), ("fast", &site.fast)] {
        let scratch = directory.join(format!(".headstart-check-{}", std::process::id()));
        std::fs::write(&scratch, b"check")
            .with_context(|| format!("cannot write in the {name} directory {}", directory.display()))?;
        std::fs::remove_file(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
        println!("{name:<10} {}, {} free", directory.display(), ByteSize(free_bytes(directory)?));
    }
    let free = free_bytes(&site.fast)?;
    let settings = site.settings().map_err(anyhow::Error::msg)?;
    match settings.capacity {
        Capacity::Bytes(bytes) if bytes > free => {
            bail!("capacity is {}, but {} has only {} free", ByteSize(bytes), site.fast.display(), ByteSize(free))
        }
        capacity => println!("capacity   {capacity}"),
    }
    for (name, parameters, direction) in
        [("reads", &site.s4d.read, Direction::Read), ("writes", &site.s4d.write, Direction::Write)]
    {
        println!("{name:<10} random requests that flash serves sooner: {}", critical_sizes(parameters, direction));
    }
    match Client::connect(&site) {
        Ok(_) => println!("agent      running"),
        Err(_) => println!("agent      not running; 'headstart run' starts it"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The largest power of two up to which random requests are critical.
fn critical_sizes(parameters: &Parameters, direction: Direction) -> String {
    let critical = |length: u64| {
        let request = Request {
            direction,
            range: Range::new(0, length),
            distance: Distance::far(parameters.stripe_bytes * 1024),
        };
        parameters.benefit_s(&request) > 0.0
    };
    let sizes: Vec<u64> = (0..16).map(|power| (4 * KIB) << power).collect();
    match sizes.iter().take_while(|size| critical(**size)).last() {
        None => "none".into(),
        Some(size) if *size >= 128 * MIB => "all".into(),
        Some(size) => format!("up to {}", ByteSize(*size)),
    }
}

fn free_bytes(directory: &Path) -> Result<u64> {
    let found =
        nix::sys::statvfs::statvfs(directory).with_context(|| format!("cannot look at {}", directory.display()))?;
    Ok(found.blocks_available() * found.fragment_size())
}
