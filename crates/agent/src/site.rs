//! The site file: where the two tiers are and what they cost. Every command reads it.
//!
//! ```toml
//! slow = "/scratch/hdd"
//! fast = "/scratch/ssd"
//! capacity = "20%"          # of the files in use, or a size such as "64GiB"
//!
//! [s4d.read]                # cost model of reads (S4D-Cache, Table I), profiled at the site's concurrency
//! hdd_servers = 8
//! ssd_servers = 4
//! stripe_bytes = 65536
//! rotation_s = 0.00417
//! seek_s_max = 0.0142
//! hdd_s_per_byte = 4.0e-8
//! ssd_s_per_byte = 1.4e-7
//! seek_curve = [{ distance_bytes = 0, seek_s = 0.0 }, { distance_bytes = 1073741824, seek_s = 0.008 }]
//!
//! [s4d.write]               # the same for writes
//! near_stays = false        # optional, of reads too: those that follow each other stay, as
//!                           # something beneath the disk servers serves them as soon
//! interleaved_stays = true  # optional, of reads too: the same of those with which processes
//!                           # go through a file together, as a server's cache joins them
//! write_back_leap_bytes = 65536  # optional: what write-back leaps over behind a short
//!                           # piece, as the disks miss what begins right behind a gap
//! # ...
//!
//! [carl.read]               # optional: cost model of reads for plans (CARL, Table II), of idle
//!                           # devices; and carl.write
//! hdd_servers = 8
//! ssd_servers = 4
//! stripe_bytes = 65536
//! hdd_startup_s_min = 0.0015
//! hdd_startup_s_max = 0.0110
//! hdd_s_per_byte = 1.9e-8
//! ssd_s_per_byte = 1.3e-8
//! ssd_startup_s = 0.0007    # optional, for predicted run times alone, as ssd_busy_s_per_byte;
//!                           # near_stays and interleaved_stays as above
//!
//! [software]                # optional, for predicted run times alone: what requests and copies take of processors
//! processors = 128          # of a job's nodes together
//! request_cpu_ms = 0.02     # of one, for a request that flash serves
//! copy_cpu_ms = 0.05        # of one, for a piece that is written back
//!
//! strangers = "wait"        # optional: programs that the library cannot be in wait until
//!                           # flash is empty, and keep it so while they live;
//!                           # "warn": they are only named on stderr; "refuse": they are not started
//!
//! include = ["results"]     # optional, and exclude: see `selection`
//!
//! [agent]                   # optional: dirty_high, dirty_low, dirty_full, write_back_share_min, copies_max,
//!                           # journal_bytes_max, log_bytes_max, idle_s, metrics, metrics_socket
//!
//! [cluster]                 # optional, for directories that several nodes share: membership, etcd,
//!                           # etcd_ca and others, listen, name, hold_s, margin_s
//! ```

mod cluster;
mod environment;

use std::path::{Path, PathBuf};

use headstart_insight::Software;
use headstart_overlay::Settings;
use headstart_policy::cost::benefit::Parameters;
use headstart_policy::cost::region;
use headstart_protocol::Strangers;
use headstart_units::Capacity;
use headstart_units::request::Direction;
use headstart_units::stripe::rotating_bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metrics::server::METRICS_FILE;
use crate::selection::Selection;
use crate::text_file;

pub use cluster::ClusterSettings;
pub(crate) use cluster::{ClusterSite, Membership};

/// Of a site file; the longest sensible one is a few KiB.
const BYTES_MAX: u64 = 1 << 20;

/// Points of a seek curve: both curves go to every thread in one message of limited length.
const SEEK_POINTS_MAX: usize = 128;

/// The site file's contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The managed directory on the disks.
    pub slow: PathBuf,
    /// The directory on flash.
    pub fast: PathBuf,
    /// How much flash may be used; `20%` of the files in use if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// Patterns of the files that may come to flash; all if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of the files that may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What becomes of programs that the library cannot be in, by a name of [`Strangers`]; `wait` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strangers: Option<String>,
    /// Cost models.
    pub s4d: CostModels,
    /// CARL's cost models, of idle devices; made from S4D's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carl: Option<region::Costs>,
    /// What Headstart takes of processors, for predicted run times alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// The agent's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSettings>,
    /// How nodes that share the directories find each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSettings>,
}

/// One cost model a direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostModels {
    /// Reads.
    pub read: Parameters,
    /// Writes.
    pub write: Parameters,
}

/// What a site may set of the agent; what is absent keeps its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentSettings {
    /// See [`Settings::dirty_high`].
    pub dirty_high: Option<f64>,
    /// See [`Settings::dirty_low`].
    pub dirty_low: Option<f64>,
    /// See [`Settings::dirty_full`].
    pub dirty_full: Option<f64>,
    /// See [`Settings::write_back_share_min`].
    pub write_back_share_min: Option<f64>,
    /// See [`Settings::copies_max`].
    pub copies_max: Option<usize>,
    /// A journal that has grown by more bytes than this is replaced by one that says the same; 32 MiB if absent.
    pub journal_bytes_max: Option<u64>,
    /// A log longer than this is put aside, in place of the one before; 1 MiB if absent.
    pub log_bytes_max: Option<u64>,
    /// An agent that nobody needs for so many seconds ends and leaves the directory to others; 600 if absent, never if
    /// zero.
    pub idle_s: Option<u64>,
    /// Serves metrics at the socket `metrics` in the runtime directory.
    pub metrics: Option<bool>,
    /// Serves metrics at this socket.
    pub metrics_socket: Option<PathBuf>,
}

impl Site {
    /// What becomes of programs that the library cannot be in.
    pub fn strangers(&self) -> std::result::Result<Strangers, String> {
        let Some(name) = &self.strangers else { return Ok(Strangers::default()) };
        Strangers::named(name.as_bytes())
            .ok_or_else(|| format!("strangers is {name:?}; it must be wait, warn or refuse"))
    }

    /// Where the site file is looked for: `explicit`, else `HEADSTART_SITE`, else `headstart/site.toml` in the user's
    /// configuration directory, else `/etc/headstart/site.toml`.
    pub fn locate(explicit: Option<&Path>) -> PathBuf {
        if let Some(path) = explicit {
            return path.to_path_buf();
        }
        if let Some(path) = std::env::var_os("HEADSTART_SITE") {
            return path.into();
        }
        let home = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
        let user = home.map(|home| home.join("headstart/site.toml"));
        let system = PathBuf::from("/etc/headstart/site.toml");
        match user {
            Some(user) if user.exists() || !system.exists() => user,
            _ => system,
        }
    }

    /// Reads and checks a site file. Directories are without symbolic links and must exist.
    pub fn load(path: &Path) -> Result<Site> {
        let site = Site::read(path)?;
        let bad = |problem: String| Error::Site { path: path.to_path_buf(), problem };
        directory(&site.slow).map_err(|error| bad(format!("slow = {}: {error}", site.slow.display())))?;
        directory(&site.fast).map_err(|problem| {
            let (slow, fast) = (site.slow.clone(), site.fast.clone());
            Error::FastDirectory { path: path.to_path_buf(), slow, fast, problem }
        })?;
        Ok(site)
    }

    /// The same where the directories may not be there, as for what is only predicted: they are without
    /// symbolic links as far as they are.
    pub fn read(path: &Path) -> Result<Site> {
        let text = text_file::read(path, BYTES_MAX).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoSiteFile { path: path.to_path_buf() },
            _ => Error::file("read the site file", path, error),
        })?;
        let bad = |problem: String| Error::Site { path: path.to_path_buf(), problem };
        let malformed = |error: toml::de::Error| bad(error.to_string().trim_end().to_string());
        let mut table: toml::Table = toml::from_str(&text).map_err(malformed)?;
        let mut site: Site = if environment::apply(&mut table, |name| std::env::var_os(name)).map_err(bad)? {
            table.try_into().map_err(malformed)?
        } else if text.trim().is_empty() {
            return Err(bad("it is empty; 'headstart site example' prints one".into()));
        } else {
            // From the text, so that errors name the line.
            toml::from_str(&text).map_err(malformed)?
        };
        for (name, directory) in [("slow", &mut site.slow), ("fast", &mut site.fast)] {
            if directory.as_os_str().is_empty() {
                return Err(bad(format!("{name} names no directory")));
            }
            // The agent and each command would find another one.
            if directory.is_relative() {
                return Err(bad(format!("{name} is {}; it must be an absolute path", directory.display())));
            }
            *directory = resolved(directory);
        }
        if site.fast.starts_with(&site.slow) || site.slow.starts_with(&site.fast) {
            let (slow, fast) = (site.slow.display(), site.fast.display());
            return Err(bad(format!("slow and fast must not lie inside each other, as {slow} and {fast} do")));
        }
        site.strangers().map_err(&bad)?;
        site.s4d.read.check().map_err(|error| bad(format!("[s4d.read] {error}")))?;
        site.s4d.write.check().map_err(|error| bad(format!("[s4d.write] {error}")))?;
        site.region_costs().check().map_err(|(direction, error)| {
            bad(format!("[carl.{}] {error}", if direction == Direction::Read { "read" } else { "write" }))
        })?;
        for (name, parameters) in [("read", &site.s4d.read), ("write", &site.s4d.write)] {
            let points = parameters.seek_curve.len();
            if points > SEEK_POINTS_MAX {
                let problem = format!("seek_curve has {points} points; at most {SEEK_POINTS_MAX} are told to programs");
                return Err(bad(format!("[s4d.{name}] {problem}")));
            }
        }
        if let Some(software) = &site.software {
            software.check().map_err(|error| bad(format!("[software] {error}")))?;
        }
        site.settings().map_err(&bad)?;
        site.selection().map_err(&bad)?;
        site.cluster().map_err(bad)?;
        Ok(site)
    }

    /// The agent's settings under this site.
    pub fn settings(&self) -> std::result::Result<Settings, String> {
        let mut settings = Settings::default();
        if let Some(text) = &self.capacity {
            settings.capacity = text.parse::<Capacity>().map_err(|error| format!("capacity: {error}"))?;
        }
        let flash = &self.s4d.write;
        settings.slab_bytes_max =
            rotating_bytes(settings.slab_bytes_max, flash.stripe_bytes.max(1), flash.ssd_servers.into());
        settings.write_back_leap_bytes = flash.write_back_leap_bytes.into();
        let own = self.agent.clone().unwrap_or_default();
        if let Some(path) = own.metrics_socket.filter(|path| !path.is_absolute()) {
            return Err(format!("[agent] metrics_socket is {}; it must be an absolute path", path.display()));
        }
        let share = |name: &str, value: Option<f64>, default: f64| match value {
            Some(value) if !(0.0..=1.0).contains(&value) => {
                Err(format!("[agent] {name} is {value}; it is a share, 0 to 1"))
            }
            value => Ok(value.unwrap_or(default)),
        };
        settings.dirty_high = share("dirty_high", own.dirty_high, settings.dirty_high)?;
        settings.dirty_low = share("dirty_low", own.dirty_low, settings.dirty_low.min(settings.dirty_high))?;
        if settings.dirty_low > settings.dirty_high {
            let (low, high) = (settings.dirty_low, settings.dirty_high);
            return Err(format!(
                "[agent] dirty_low is {low} and dirty_high {high}: write-back begins at dirty_high and ends at \
                 dirty_low, which cannot lie above it"
            ));
        }
        settings.dirty_full = share("dirty_full", own.dirty_full, settings.dirty_full)?;
        settings.write_back_share_min =
            share("write_back_share_min", own.write_back_share_min, settings.write_back_share_min)?.min(0.99);
        if let Some(copies) = own.copies_max {
            if !(1..=1024).contains(&copies) {
                return Err(format!("[agent] copies_max is {copies}; it is a number from 1 to 1024"));
            }
            settings.copies_max = copies;
        }
        Ok(settings)
    }

    /// What regions cost: `[carl]`, else the same from `[s4d]`.
    pub fn region_costs(&self) -> region::Costs {
        let from_s4d = || region::Costs { read: (&self.s4d.read).into(), write: (&self.s4d.write).into() };
        self.carl.clone().unwrap_or_else(from_s4d)
    }

    /// Which files may come to flash.
    pub fn selection(&self) -> std::result::Result<Selection, String> {
        Selection::new(&self.include, &self.exclude)
    }

    /// How nodes find each other.
    pub(crate) fn cluster(&self) -> std::result::Result<ClusterSite, String> {
        self.cluster.clone().unwrap_or_default().meant()
    }

    /// Where metrics are served, if they are.
    pub fn metrics_socket(&self, runtime: &Path) -> Option<PathBuf> {
        let own = self.agent.as_ref()?;
        let default = || own.metrics.unwrap_or(false).then(|| runtime.join(METRICS_FILE));
        own.metrics_socket.clone().or_else(default)
    }

    /// The site file's text.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a site has a TOML form")
    }
}

/// A path without symbolic links as far as it is there. A relative one is one from here.
pub fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in path.ancestors() {
        if let Ok(there) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).expect("an ancestor is a prefix");
            return if rest.as_os_str().is_empty() { there } else { there.join(rest) };
        }
    }
    path
}

fn directory(path: &Path) -> std::result::Result<(), String> {
    let found = path.metadata().map_err(|error| format!("{error}; create the directory or mount its file system"))?;
    if found.is_dir() { Ok(()) } else { Err("it is not a directory".into()) }
}

#[cfg(test)]
mod tests {
    use headstart_policy::cost::benefit::SeekPoint;

    use super::*;

    fn example(slow: &Path, fast: &Path) -> Site {
        let parameters = Parameters::default();
        Site {
            slow: slow.into(),
            fast: fast.into(),
            capacity: Some("20%".into()),
            include: Vec::new(),
            exclude: Vec::new(),
            strangers: None,
            s4d: CostModels { read: parameters.clone(), write: parameters },
            carl: None,
            software: None,
            agent: None,
            cluster: None,
        }
    }

    #[test]
    fn a_site_comes_back_from_its_own_text() {
        let directory = tempfile::tempdir().unwrap();
        let (slow, fast) = (directory.path().join("slow"), directory.path().join("fast"));
        std::fs::create_dir_all(&slow).unwrap();
        std::fs::create_dir_all(&fast).unwrap();
        let file = directory.path().join("site.toml");
        let site = example(&slow, &fast);
        std::fs::write(&file, site.to_toml()).unwrap();
        assert_eq!(Site::load(&file).unwrap(), site);
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        let directory = tempfile::tempdir().unwrap();
        let (slow, fast) = (directory.path().join("slow"), directory.path().join("fast"));
        std::fs::create_dir_all(&slow).unwrap();
        std::fs::create_dir_all(&fast).unwrap();
        let file = directory.path().join("site.toml");
        let fails_with = |site: &Site, words: &[&str]| {
            std::fs::write(&file, site.to_toml()).unwrap();
            let message = Site::load(&file).unwrap_err().to_string();
            for word in words.iter().chain(&["site.toml"]) {
                assert!(message.contains(word), "'{message}' does not say '{word}'");
            }
        };
        assert!(Site::load(&directory.path().join("none")).unwrap_err().to_string().contains("no site file"));
        let good = example(&slow, &fast);
        fails_with(&Site { slow: "/no/such/directory".into(), ..good.clone() }, &["slow", "/no/such/directory"]);
        fails_with(&Site { fast: slow.join("."), ..good.clone() }, &["inside each other"]);
        fails_with(&Site { capacity: Some("120%".into()), ..good.clone() }, &["capacity", "120%"]);
        let mut bad = good.clone();
        bad.s4d.write.ssd_servers = 0;
        fails_with(&bad, &["[s4d.write]", "ssd_servers"]);
        let mut bad = good.clone();
        let mut costs = good.region_costs();
        costs.read.hdd_startup_s_min = 9.0;
        bad.carl = Some(costs);
        fails_with(&bad, &["[carl.read]", "hdd_startup_s_min"]);
        let mut bad = good.clone();
        let point = |k| SeekPoint { distance_bytes: k, seek_s: 0.0 };
        bad.s4d.read.seek_curve = (0..=SEEK_POINTS_MAX as u64).map(point).collect();
        fails_with(&bad, &["[s4d.read]", "seek_curve", "129"]);
        std::fs::write(&file, format!("{}\nnonsense = 1\n", "slow = 3")).unwrap();
        assert!(Site::load(&file).is_err());
    }
}
