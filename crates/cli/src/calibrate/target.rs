//! A tier to measure: a directory, in which a scratch file is written, or a device, of which nothing is
//! written unless told to.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headstart_insight::calibration::schedule::{Planned, SPAN_BYTES_MIN, Tier};
use headstart_insight::calibration::{BLOCK_BYTES, Latencies, Load, Pattern};
use headstart_policy::cost::DISK_S_MIN;
use headstart_units::ByteSize;
use headstart_units::request::Direction;
use nix::libc::{EBUSY, EINVAL, O_DIRECT, O_EXCL};

use super::load::measure;
use super::scratch::Scratch;

/// No flash does (assumed: the fastest known to us take 10 us in the device alone); a copy out of the page
/// cache takes 1 or 2 us.
const FLASH_S_MIN: f64 = 8e-6;
/// How long to look whether it is memory.
const PROBE_S: f64 = 1.0;
/// The share of the free space that a scratch file may take: others work there.
const FREE_SHARE: f64 = 0.5;
/// A tenth of the reads from a cache moves percentiles.
const CACHED_SHARE_MAX: f64 = 0.1;

/// Where the bytes of a tier lie.
pub enum Place {
    /// A directory and, once there is one, its scratch file.
    Directory(Option<Scratch>),
    /// A block device, or a file that stands for one.
    Device(File),
}

/// See the module.
pub struct Target {
    /// Which of the two.
    pub tier: Tier,
    /// As the site will name it, if it is a directory.
    pub path: PathBuf,
    /// Its bytes.
    pub place: Place,
    /// The part that is measured.
    pub span_bytes: u64,
    /// Whether writes are measured.
    pub writes: bool,
    /// Whether the page cache is passed by.
    pub is_direct: bool,
}

impl Target {
    /// `slow` or `fast`.
    pub fn name(&self) -> &'static str {
        match self.tier {
            Tier::Slow => "slow",
            Tier::Fast => "fast",
        }
    }

    /// Looks at what `path` is and writes nothing.
    pub fn open(tier: Tier, path: &Path, size_bytes: u64, overwrite_device: bool) -> Result<Target> {
        let option = if tier == Tier::Slow { "--slow" } else { "--fast" };
        let path = path.canonicalize().with_context(|| format!("{option} {}: not found", path.display()))?;
        let kind = path.metadata().with_context(|| format!("cannot look at {}", path.display()))?.file_type();
        if kind.is_dir() {
            let span_bytes = room(&path)?.min(size_bytes) / BLOCK_BYTES * BLOCK_BYTES;
            if span_bytes < SPAN_BYTES_MIN {
                bail!(
                    "{option} {}: {} for a scratch file is too little; at least {} are needed",
                    path.display(),
                    ByteSize(span_bytes),
                    ByteSize(SPAN_BYTES_MIN)
                );
            }
            let place = Place::Directory(None);
            return Ok(Target { tier, path, place, span_bytes, writes: true, is_direct: true });
        }
        if !kind.is_block_device() && !kind.is_file() {
            bail!("{option} {}: neither a directory nor a block device", path.display());
        }
        let (mut file, is_direct) = open_device(&path, kind.is_block_device(), overwrite_device)?;
        let device_bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("cannot size {}", path.display()))?;
        let span_bytes = device_bytes.min(size_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        if span_bytes < SPAN_BYTES_MIN {
            bail!(
                "{option} {}: {} is too small to tell a device's figures; at least {} are needed",
                path.display(),
                ByteSize(span_bytes),
                ByteSize(SPAN_BYTES_MIN)
            );
        }
        Ok(Target { tier, path, place: Place::Device(file), span_bytes, writes: overwrite_device, is_direct })
    }

    /// Whether a scratch file is to be written first.
    pub fn is_directory(&self) -> bool {
        matches!(self.place, Place::Directory(_))
    }

    /// Writes the scratch file of a directory, for no longer than `limit`; `go_on` is told the bytes so far.
    pub fn prepare(&mut self, limit: Duration, go_on: impl FnMut(u64) -> bool) -> Result<()> {
        if let Place::Directory(place) = &mut self.place {
            let scratch = place.insert(Scratch::create(&self.path)?);
            self.is_direct = scratch.is_direct;
            let written = scratch.fill(self.span_bytes, limit, go_on)? / BLOCK_BYTES * BLOCK_BYTES;
            if written < SPAN_BYTES_MIN {
                bail!(
                    "{}: only {} could be written in {:.0} s; give it more --minutes",
                    self.path.display(),
                    ByteSize(written),
                    limit.as_secs_f64()
                );
            }
            self.span_bytes = written;
        }
        Ok(())
    }

    /// The bytes to measure; there must be some.
    pub fn file(&self) -> &File {
        match &self.place {
            Place::Directory(scratch) => {
                scratch.as_ref().expect("a directory is prepared before it is measured").file()
            }
            Place::Device(file) => file,
        }
    }

    /// Refuses memory that stands in for a device; returns what is worth a warning.
    pub fn refuse_cached(&self, stopped: &(impl Fn() -> bool + Sync)) -> Result<Option<String>> {
        let load = Load {
            pattern: Pattern::Random,
            direction: Direction::Read,
            size_bytes: BLOCK_BYTES,
            depth: 1,
            span_bytes: self.span_bytes,
        };
        let planned = Planned { load, seconds: PROBE_S };
        let found = measure(self.file(), &planned, PROBE_SEED, stopped)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        let limit_s = if self.tier == Tier::Slow { DISK_S_MIN } else { FLASH_S_MIN };
        self.judge(&found.latencies, limit_s)
    }

    fn judge(&self, latencies: &Latencies, limit_s: f64) -> Result<Option<String>> {
        let Some(median_s) = latencies.quantile_s(0.5) else { return Ok(None) };
        let what = if self.tier == Tier::Slow { "disk" } else { "flash device" };
        let refused = if self.is_direct { "" } else { "; its file system refuses O_DIRECT" };
        if median_s < limit_s {
            bail!(
                "--{} {}: half of all random reads of 4 KiB take less than {:.1} us, sooner than any {what}: memory serves them, \
                 as on tmpfs, out of the page cache or for the holes of a sparse file{refused}. Name a directory on the {what}s themselves or a block device, \
                 mount the file system for direct I/O, or take a --size that no cache holds ({} of memory here); \
                 --accept-cached measures all the same",
                self.name(),
                self.path.display(),
                (median_s * 1e6).max(0.1),
                memory()
            );
        }
        let share = latencies.share_below(limit_s);
        Ok((share > CACHED_SHARE_MAX).then(|| {
            format!(
                "{}: {:.0} % of random reads came from a cache ({what}s are slower); a larger --size gives figures of the {what}",
                self.path.display(),
                share * 100.0
            )
        }))
    }
}

/// Apart from those of the loads, so that the probe leaves nothing in caches that they ask for.
const PROBE_SEED: u64 = u64::MAX;

/// Opens a device, for writing only if told to, and then only if nobody has it mounted.
fn open_device(path: &Path, is_block: bool, overwrite: bool) -> Result<(File, bool)> {
    // The kernel gives a mounted device to nobody who asks for it alone.
    let alone = if is_block && overwrite { O_EXCL } else { 0 };
    let open = |flags| OpenOptions::new().read(true).write(overwrite).custom_flags(flags | alone).open(path);
    let outcome = match open(O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(EINVAL) => open(0).map(|file| (file, false)),
        outcome => outcome.map(|file| (file, true)),
    };
    match outcome {
        Err(error) if error.raw_os_error() == Some(EBUSY) => {
            bail!("{} is in use (mounted, or part of something that is): it is not overwritten", path.display())
        }
        outcome => outcome.with_context(|| format!("cannot open {}", path.display())),
    }
}

/// Bytes that a scratch file may take.
fn room(directory: &Path) -> Result<u64> {
    let found = nix::sys::statvfs::statvfs(directory)
        .with_context(|| format!("cannot look at the free space of {}", directory.display()))?;
    let free = found.blocks_available() as u64 * found.fragment_size() as u64;
    Ok((free as f64 * FREE_SHARE) as u64)
}

/// The memory of this node, in words.
fn memory() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map_or("an unknown amount".into(), |kib| ByteSize(kib << 10).to_string())
}

/// Whether two paths are the same thing.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    inode(one).is_some() && inode(one) == inode(other)
}
