//! How long a new volume's segments and heads are, from what its devices are found to do.
//!
//! | disk | what is measured |
//! |---|---|
//! | block device | itself, past the page cache: small reads at random, one after the other, then a stretch in order; a few seconds |
//! | emulated | its model, in no time |
//! | file, or anything that answers sooner than a disk could | nothing: the sizes are the paper's |
//!
//! Nothing is written.

use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headstart_model::server::{ServerConfig, probe};
use headstart_policy::server::liu::{Basis, Origin, Probe, Sizes};
use headstart_policy::server::liu::{PROBE_READ_BYTES, PROBE_SEQUENTIAL_BYTES, PROBED_BYTES, usual_s};
use headstart_units::MIB;
use headstart_units::chance::Random;

use crate::device::DeviceName;
use crate::pair::{OpenDevice, Pair, aligned};

/// Reads at random of a disk: p80 within about a thirtieth, in four seconds at most where a read takes 12 ms.
const READS: usize = 300;

/// Sizes and what they follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// The sizes.
    pub sizes: Sizes,
    /// From what.
    pub basis: Basis,
    /// Whether flash brings a head before the disk is at the body, as far as is known.
    pub hides_positioning: bool,
}

/// A device could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{device}: cannot read it at byte {offset} to measure it: {source}; --segment and --head do without measuring")]
pub struct ProbeError {
    /// Which.
    pub device: String,
    /// Where.
    pub offset: u64,
    /// Why.
    pub source: io::Error,
}

impl Pair {
    /// Whether [`Pair::probe`] takes its time.
    pub fn has_disk_to_measure(&self) -> bool {
        is_measurable(&self.disk)
    }

    /// Sizes for these devices.
    pub fn probe(&self) -> Result<Chosen, ProbeError> {
        let span_bytes = self.disk.bytes.min(PROBED_BYTES);
        let measured = match &self.disk.name {
            DeviceName::Emulated { profile, .. } => {
                Some((Origin::Model, probe::probe(&ServerConfig::new(*profile), None, span_bytes)))
            }
            DeviceName::Path(_) if is_measurable(&self.disk) => Some((Origin::Disk, disk(&self.disk, span_bytes)?)),
            DeviceName::Path(_) => None,
        };
        let Some((origin, of_disk)) = measured.filter(|(_, probe)| probe.is_of_a_disk()) else {
            return Ok(Chosen { sizes: Sizes::PAPER, basis: Origin::Paper.into(), hides_positioning: true });
        };
        let flash_bytes_per_s = match &self.flash.name {
            DeviceName::Emulated { profile, .. } => Some(probe::rate_of(profile.device())),
            DeviceName::Path(_) if is_measurable(&self.flash) => Some(rate(&self.flash)?),
            DeviceName::Path(_) => None,
        };
        let found = Probe { flash_bytes_per_s, ..of_disk };
        let sizes = Sizes::fit(&found);
        Ok(Chosen { sizes, basis: Basis::of(origin, &found), hides_positioning: sizes.hide_positioning(&found) })
    }
}

/// Whether what is read is what the device takes, and no cache.
fn is_measurable(device: &OpenDevice) -> bool {
    let is_block_device = device.file.metadata().is_ok_and(|found| found.file_type().is_block_device());
    is_block_device && device.is_direct && matches!(device.name, DeviceName::Path(_))
}

fn disk(device: &OpenDevice, span_bytes: u64) -> Result<Probe, ProbeError> {
    // Other places each time, so that no cache has them from the time before.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let mut random = Random(now);
    let mut buffer = aligned(PROBE_READ_BYTES as usize);
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let offset = random.below(span_bytes / PROBE_READ_BYTES) * PROBE_READ_BYTES;
        times.push(read(device, offset, &mut buffer)?);
    }
    Ok(Probe::of_disk(times, rate(device)?))
}

/// Of reads of a MiB behind each other, which the first of them positions.
fn rate(device: &OpenDevice) -> Result<f64, ProbeError> {
    let mut buffer = aligned(MIB as usize);
    read(device, 0, &mut buffer)?;
    let count = (device.bytes / MIB).min(PROBE_SEQUENTIAL_BYTES / MIB + 1);
    let mut times = (1..count).map(|index| read(device, index * MIB, &mut buffer)).collect::<Result<Vec<f64>, _>>()?;
    Ok(MIB as f64 / usual_s(&mut times).max(1e-9))
}

/// Seconds of one read.
fn read(device: &OpenDevice, offset: u64, buffer: &mut [u8]) -> Result<f64, ProbeError> {
    let begun = Instant::now();
    let done = device.file.read_exact_at(buffer, offset);
    done.map_err(|source| ProbeError { device: device.name.to_string(), offset, source })?;
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use headstart_model::profile::Profile;
    use headstart_units::KIB;

    use super::*;

    /// A pair of sparse files under these names.
    fn probe_of(disk: Option<Profile>, flash: Option<Profile>) -> Chosen {
        let directory = tempfile::tempdir().unwrap();
        let name = |file: &str, profile: Option<Profile>, bytes| {
            let path = directory.path().join(file);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            match profile {
                Some(profile) => DeviceName::Emulated { profile, file: path },
                None => DeviceName::Path(path),
            }
        };
        let pair = Pair::open(&name("disk", disk, 16 << 30), &name("flash", flash, 1 << 30)).unwrap();
        assert!(!pair.has_disk_to_measure());
        pair.probe().unwrap()
    }

    #[test]
    fn the_papers_disk_gets_the_papers_sizes_and_a_modern_one_longer_ones_from_their_models() {
        let paper = probe_of(Some(Profile::Wd1602), Some(Profile::Onyx));
        assert_eq!((paper.sizes, paper.basis.origin), (Sizes::PAPER, Origin::Model));
        assert!((11_600..12_400).contains(&paper.basis.positioning_p80_us), "{paper:?}");
        assert!((69_000_000..71_000_000).contains(&paper.basis.disk_bytes_per_s), "{paper:?}");
        assert!(paper.basis.flash_bytes_per_s > 0 && paper.hides_positioning, "{paper:?}");
        let modern = probe_of(Some(Profile::Nearline24t), None).sizes;
        assert_eq!((modern.head_bytes, modern.segment_bytes), (9 * 256 * KIB, 9 * MIB + 9 * 256 * KIB));
    }

    #[test]
    fn files_and_what_has_no_arm_get_the_papers_sizes_and_no_figures() {
        for disk in [None, Some(Profile::Pm9a3), Some(Profile::Null)] {
            let found = probe_of(disk, Some(Profile::Pm9a3));
            assert_eq!((found.sizes, found.basis), (Sizes::PAPER, Origin::Paper.into()), "{disk:?}");
        }
    }
}
