//! `headstart-lab testbed`: emulated servers in real time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use headstart_agent::claim;
use headstart_agent::client::Client;
use headstart_agent::site::{CostModels, Site, resolved};
use headstart_cli::command::log_to_stderr;
use headstart_policy::cost::benefit::{Parameters, SeekPoint};
use headstart_testbed::TestbedConfig;
use headstart_testbed::config::{DriveReadAhead, Elevator, Network};
use headstart_testbed::disk::DiskConfig;
use headstart_testbed::figures::figures;
use headstart_testbed::profile::{Rates, SiteParameters, site_parameters};
use headstart_units::ByteSize;

use headstart_cli::ending::stop;

/// First line of a site file that `testbed up` may overwrite.
const MARK: &str = "# Written by 'headstart-lab testbed up'";

#[derive(Debug, Subcommand)]
pub enum TestbedCommand {
    /// Mount two directories of emulated file servers and write a site file for them
    Up(Box<Up>),
    /// Unmount them and remove their files
    Down(Down),
    /// Show what the servers did and whether their times can be trusted
    Stats(Stats),
    /// Let the servers forget what they have read, as a restart would; what is on flash stays
    Cool(Which),
    /// Measure what the cost model needs, in virtual time, and print it
    Profile(Box<Shape>),
    /// Serve one emulated disk as a file, for losetup, mkfs and mount
    Disk(Disk),
    /// Print a device's own figures as JSON: what 'headstart calibrate' should find of one that 'disk' serves
    Figures {
        /// The device: wd1602, seagate-250, nearline-24t, revodrive-x2, onyx, pm9a3
        profile: String,
        /// How much of it random reads go to, from the start
        #[arg(long, default_value = "10GB")]
        size: ByteSize,
    },
    /// Serve a testbed in the foreground (started by `up`)
    #[command(hide = true)]
    Serve {
        /// The configuration as JSON
        #[arg(long)]
        config: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Up {
    /// Directory for the disk servers' file system; created if absent
    #[arg(long, value_name = "DIR")]
    slow: PathBuf,
    /// Directory for the flash servers' file system; created if absent
    #[arg(long, value_name = "DIR")]
    fast: PathBuf,
    /// Name, to run several [default: default]
    #[arg(value_name = "NAME", conflicts_with = "name")]
    which: Option<String>,
    /// The same
    #[arg(long)]
    name: Option<String>,
    /// Where the bytes live; a tmpfs keeps the times right
    #[arg(long, value_name = "DIR")]
    backing: Option<PathBuf>,
    #[command(flatten)]
    shape: Shape,
}

/// Which testbed is meant.
#[derive(Debug, Args)]
pub struct Which {
    /// Name or a directory of the testbed; the only one if absent
    #[arg(value_name = "NAME", conflicts_with = "name")]
    which: Option<String>,
    /// The same
    #[arg(long)]
    name: Option<String>,
}

impl Which {
    fn get(&self) -> Option<&str> {
        self.which.as_deref().or(self.name.as_deref())
    }
}

#[derive(Debug, Args)]
pub struct Shape {
    /// Disk servers
    #[arg(long, default_value_t = 8)]
    hdd_servers: u32,
    /// Their drive: wd1602, seagate-250, nearline-24t, null
    #[arg(long, default_value = "seagate-250")]
    hdd_profile: String,
    /// Flash servers
    #[arg(long, default_value_t = 4)]
    ssd_servers: u32,
    /// Their drive: revodrive-x2, onyx, pm9a3, null
    #[arg(long, default_value = "revodrive-x2")]
    ssd_profile: String,
    /// Bytes of a stripe
    #[arg(long, default_value = "64KiB")]
    stripe: ByteSize,
    /// The network at every server: gbe or none
    #[arg(long, default_value = "gbe")]
    network: String,
    /// Write cache of each server; 0 for none
    #[arg(long, default_value = "8MiB")]
    server_cache: ByteSize,
    /// Whether drives acknowledge writes from their own cache: on or off
    #[arg(long, default_value = "off")]
    drive_write_cache: String,
    /// The drives' read-ahead: COUNTxSIZE, or off
    #[arg(long, default_value = "16x1MiB")]
    drive_read_ahead: String,
    /// The servers' I/O scheduler: deadline or noop
    #[arg(long, default_value = "deadline")]
    elevator: String,
    /// What lies between each disk server and its disk: stock, or a volume with these policies (auto, liu,
    /// itransformer, liu,itransformer, none)
    #[arg(long, value_name = "POLICY", default_value = "stock")]
    server_policy: String,
    /// The volumes' flash: revodrive-x2, onyx, pm9a3
    #[arg(long, value_name = "PROFILE", default_value = "pm9a3")]
    server_flash: String,
    /// Each volume's slice of it
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    server_slice: ByteSize,
    /// The most that a volume's policy adds to a request
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    server_delay_max_ms: f64,
    /// Real time over modelled time
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
}

impl Shape {
    fn config(&self) -> Result<TestbedConfig> {
        let drive_write_cache = match self.drive_write_cache.as_str() {
            "on" => true,
            "off" => false,
            other => bail!("--drive-write-cache: '{other}' is neither on nor off"),
        };
        Ok(TestbedConfig {
            hdd_servers: self.hdd_servers,
            hdd_profile: self.hdd_profile.clone(),
            ssd_servers: self.ssd_servers,
            ssd_profile: self.ssd_profile.clone(),
            stripe_bytes: self.stripe.0,
            network: self.network.parse::<Network>()?,
            server_cache_bytes: self.server_cache.0,
            drive_write_cache,
            drive_read_ahead: DriveReadAhead::parse(&self.drive_read_ahead)?,
            elevator: self.elevator.parse::<Elevator>()?,
            server_policy: self.server_policy.clone(),
            server_flash_profile: self.server_flash.clone(),
            server_slice_bytes: self.server_slice.0,
            server_delay_max_ms: self.server_delay_max_ms,
            time_scale: self.time_scale,
            ..TestbedConfig::default()
        })
    }
}

#[derive(Debug, Args)]
pub struct Down {
    #[command(flatten)]
    which: Which,
    /// Keep the backing files
    #[arg(long)]
    keep_files: bool,
    /// Even if dirty bytes on its flash are lost
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    which: Which,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Count anew from now on
    #[arg(long)]
    reset: bool,
}

#[derive(Debug, Args)]
pub struct Disk {
    /// The drive: wd1602, seagate-250, nearline-24t, revodrive-x2, onyx, pm9a3
    #[arg(long)]
    profile: String,
    /// The file to serve it as; its bytes are kept in the file itself, beneath the mount
    #[arg(long)]
    file: PathBuf,
    /// Its size if the file does not exist [default: the drive's]
    #[arg(long)]
    size: Option<ByteSize>,
    /// Real time over modelled time
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
}

impl TestbedCommand {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        match self {
            TestbedCommand::Up(up) => up.execute(site)?,
            TestbedCommand::Down(down) => down.execute()?,
            TestbedCommand::Stats(stats) => stats.execute()?,
            TestbedCommand::Cool(which) => headstart_testbed::lifecycle::cool(which.get())?,
            TestbedCommand::Profile(shape) => {
                let config = shape.config()?;
                config.validate_servers()?;
                println!("{}", site_parameters(&config)?);
            }
            TestbedCommand::Figures { profile, size } => {
                println!("{}", serde_json::to_string_pretty(&figures(profile, size.0)?)?);
            }
            TestbedCommand::Disk(disk) => {
                log_to_stderr("info");
                let size_bytes = disk.size.map(|size| size.0);
                let config =
                    DiskConfig { size_bytes, time_scale: disk.time_scale, ..DiskConfig::of(&disk.profile, &disk.file) };
                headstart_testbed::disk::serve(&config)?;
            }
            TestbedCommand::Serve { config } => {
                log_to_stderr("info");
                let text =
                    std::fs::read_to_string(config).with_context(|| format!("cannot read {}", config.display()))?;
                let config =
                    serde_json::from_str(&text).with_context(|| format!("cannot understand {}", config.display()))?;
                headstart_testbed::serve(config)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Up {
    fn name(&self) -> &str {
        self.which.as_deref().or(self.name.as_deref()).unwrap_or("default")
    }

    fn execute(&self, site: Option<&Path>) -> Result<()> {
        let site_path = Site::locate(site);
        refuse_foreign(&site_path)?;
        refuse_taken(&site_path, &self.slow)?;
        let config = TestbedConfig {
            name: self.name().to_string(),
            slow: self.slow.clone(),
            fast: self.fast.clone(),
            // The servers work in another directory.
            backing: self.backing.as_deref().map(std::path::absolute).transpose()?,
            ..self.shape.config()?
        };
        config.validate()?;
        let parameters = site_parameters(&config)?;
        for directory in [&self.slow, &self.fast] {
            // A mount that lost its server answers with an error; `up` clears it away.
            if std::fs::symlink_metadata(directory).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
            }
        }
        let running = headstart_testbed::up(&config)?;
        let written = write_site(&site_path, &running.slow, &running.fast, &parameters);
        if written.is_err() {
            let _ = headstart_testbed::down(Some(self.name()), false);
        }
        written?;
        println!("testbed {}: slow {}, fast {}", running.name, running.slow.display(), running.fast.display());
        for refused in &running.real_time.refused {
            eprintln!("headstart-lab: {refused}");
        }
        let (agree, all) = parameters.agreement();
        println!(
            "site file {}: the cost model names the faster directory in {agree} of {all} profiled cells",
            site_path.display()
        );
        Ok(())
    }
}

/// A site file that somebody else wrote is not overwritten.
fn refuse_foreign(path: &Path) -> Result<()> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) => {
            bail!("{} was not written by a testbed; name another file with --site, or move it away", path.display())
        }
        _ => Ok(()),
    }
}

/// Nor one of another testbed that is up: its users go by it.
fn refuse_taken(path: &Path, slow: &Path) -> Result<()> {
    if let Ok(site) = Site::read(path)
        && site.slow != resolved(slow)
        && let Some(mounted) = site.slow.to_str()
        && let Ok(other) = headstart_testbed::stats(Some(mounted))
    {
        let name = &other.config.name;
        bail!(
            "{} is of the testbed '{name}', which is up; name another file with --site, or take that one down",
            path.display()
        );
    }
    Ok(())
}

fn write_site(path: &Path, slow: &Path, fast: &Path, parameters: &SiteParameters) -> Result<()> {
    let model = |rates: &Rates| Parameters {
        hdd_servers: parameters.hdd_servers,
        ssd_servers: parameters.ssd_servers,
        stripe_bytes: parameters.stripe_bytes,
        rotation_s: parameters.rotation_s,
        seek_s_max: parameters.seek_max_s,
        hdd_s_per_byte: rates.beta_d_s_per_byte,
        ssd_s_per_byte: rates.beta_c_s_per_byte,
        seek_curve: parameters
            .seek_curve
            .iter()
            .map(|&(distance_bytes, seek_s)| SeekPoint { distance_bytes, seek_s })
            .collect(),
        ..Parameters::default()
    };
    let site = Site {
        slow: slow.to_path_buf(),
        fast: fast.to_path_buf(),
        capacity: Some("20%".into()),
        include: Vec::new(),
        exclude: Vec::new(),
        strangers: None,
        s4d: CostModels { read: model(&parameters.read), write: model(&parameters.write) },
        carl: Some(parameters.carl.clone()),
        software: None,
        agent: None,
        cluster: None,
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let text = format!(
        "{MARK}: [s4d] profiled with {} processes at work, [carl] alone; network included.\n{}",
        parameters.ranks,
        site.to_toml()
    );
    std::fs::write(path, text).with_context(|| format!("cannot write the site file {}", path.display()))
}

impl Down {
    fn execute(&self) -> Result<()> {
        if let Ok(stats) = headstart_testbed::stats(self.which.get()) {
            let settled = self.settle(&stats.config.slow);
            if !self.force {
                settled.context("the testbed stays up (--force takes it down all the same)")?;
            }
        }
        let down = headstart_testbed::down(self.which.get(), self.keep_files)?;
        for message in &down.messages {
            eprintln!("headstart-lab: {message}");
        }
        println!("testbed {} is down{}", down.name, if down.was_running { "" } else { " (its server was gone)" });
        Ok(())
    }

    /// The agent has files of the testbed open, so it goes first. Whichever site file it was started with:
    /// another testbed may have it now.
    fn settle(&self, slow: &Path) -> Result<()> {
        match Client::of_directory(slow) {
            Ok(client) => stop(&client, self.force),
            // One that was killed left what it owes.
            Err(_) => Ok(claim::refuse_debt(slow)?),
        }
    }
}

impl Stats {
    fn execute(&self) -> Result<()> {
        let stats = headstart_testbed::stats(self.which.get())?;
        if self.json {
            println!("{}", serde_json::to_string(&stats)?);
        } else {
            println!("{stats}");
        }
        if self.reset {
            headstart_testbed::lifecycle::reset_stats(self.which.get())?;
        }
        Ok(())
    }
}
