//! Volumes that an administrator has named: `/etc/headstart/volumes/NAME.toml` says where a volume's devices are and how it
//! is served, so that a unit of systemd needs the name alone.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use headstart_volume::control::directory;
use headstart_volume::device::DeviceName;
use headstart_volume::settings::{Mode, PolicyName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Where the files are.
const DIRECTORY: &str = "/etc/headstart/volumes";

/// Environment: where they are instead.
const ENVIRONMENT_DIRECTORY: &str = "HEADSTART_VOLUMES";

/// For so long a start waits for devices that are not there yet: as systemd does by default (DefaultDeviceTimeoutSec).
const WAIT_S: u64 = 90;

/// The name of a volume: that of its file, and what a unit is called by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Name, &'static str> {
        let is_sound = text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
        let refusal = "a volume's name has letters, digits, '_', '.' and '-', and begins with a letter or a digit";
        if is_sound { Ok(Name(text.to_owned())) } else { Err(refusal) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As what a volume appears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// A file, of which a unit makes a disk.
    #[default]
    File,
    /// A unix socket where NBD is spoken.
    Nbd,
}

/// What the file of a volume says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The disk.
    #[serde(deserialize_with = "from_text")]
    pub hdd: DeviceName,
    /// Its flash.
    #[serde(deserialize_with = "from_text")]
    pub ssd: DeviceName,
    /// As what it appears.
    #[serde(default)]
    pub export: Export,
    /// As `volume serve` has it.
    pub mode: Option<Mode>,
    /// As `volume serve` has it.
    #[serde(default, deserialize_with = "perhaps_from_text")]
    pub policy: Option<PolicyName>,
    /// As `volume serve` has it.
    pub delay_max_ms: Option<u32>,
    /// As `volume serve` has it.
    pub liu_threshold: Option<u32>,
    /// As `volume serve` has it.
    #[serde(default)]
    pub keep_dirty: bool,
    /// For how long a start waits for devices.
    #[serde(default = "wait_s")]
    pub wait_s: u64,
}

fn wait_s() -> u64 {
    WAIT_S
}

fn from_text<'a, D: Deserializer<'a>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn perhaps_from_text<'a, D: Deserializer<'a>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    from_text(deserializer).map(Some)
}

/// Where the files are.
pub fn directory() -> PathBuf {
    std::env::var_os(ENVIRONMENT_DIRECTORY).map_or_else(|| PathBuf::from(DIRECTORY), PathBuf::from)
}

/// All names, in their order.
pub fn names() -> Result<Vec<Name>> {
    let place = directory();
    let entries = match fs::read_dir(&place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let files = paths.filter(|path| path.extension() == Some(OsStr::new("toml")));
    // Another file there, such as an editor's, names no volume.
    let mut names: Vec<Name> = files.filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect();
    names.sort();
    Ok(names)
}

impl Named {
    /// What the file of this name says.
    pub fn read(name: &Name) -> Result<Named> {
        let path = directory().join(format!("{name}.toml"));
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let named: Named = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for (key, value, most) in
            [("delay_max_ms", named.delay_max_ms, 60_000), ("liu_threshold", named.liu_threshold, 100)]
        {
            if value.is_some_and(|value| !(1..=most).contains(&value)) {
                bail!("{}: {key} is from 1 to {most}", path.display());
            }
        }
        Ok(named)
    }

    /// The same, for a start: refuses devices that another volume names as well, since flash is shared by partitions alone.
    pub fn read_alone(name: &Name) -> Result<Named> {
        let named = Named::read(name)?;
        for other in names()?.into_iter().filter(|other| other != name) {
            // What is wrong with the file of another volume concerns that one.
            let Ok(its) = Named::read(&other) else { continue };
            let has = |device: &DeviceName| [&its.hdd, &its.ssd].into_iter().any(|its| is_same(its, device));
            if let Some(device) = [&named.hdd, &named.ssd].into_iter().find(|device| has(device)) {
                bail!("{device} belongs to volume {other} as well; give each volume a partition of its own");
            }
        }
        Ok(named)
    }

    /// Devices that are not there.
    pub fn missing(&self) -> Vec<&DeviceName> {
        [&self.hdd, &self.ssd].into_iter().filter(|device| !device.path().exists()).collect()
    }
}

fn is_same(one: &DeviceName, other: &DeviceName) -> bool {
    let canonical = |device: &DeviceName| directory::canonical(&device.path().to_string_lossy());
    canonical(one) == canonical(other)
}

/// Where the volume appears, in a directory that is made: its file or socket.
pub fn place(name: &Name, export: Export) -> Result<PathBuf> {
    let directory = directory::path().with_file_name("volumes").join(&name.0);
    let make = |directory: &Path| fs::DirBuilder::new().recursive(true).mode(0o750).create(directory);
    make(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(match export {
        Export::File => "file",
        Export::Nbd => "socket",
    }))
}
