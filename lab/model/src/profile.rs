//! Named devices.

use std::fmt;
use std::str::FromStr;

use headstart_units::{MIB, Nanos};

use crate::device::config::DeviceConfig;
use crate::device::hdd::HddConfig;
use crate::device::hdd::geometry::Mechanics;
use crate::device::ssd::{SsdConfig, SsdForm, StreamCost};
use crate::queue::AGE_LIMIT;

/// A device this crate has figures for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Takes no time.
    Null,
    /// WD1602ABKS, 160 GB: the data servers of LiU MASCOTS'13. Calibrated to 70 MB/s, 12 ms at 80 % over 10 GB and 85 %
    /// of the peak at 4 MiB.
    Wd1602,
    /// Seagate ST32502NSSUN250G, 250 GB: the file servers of CARL 2013 and S4D ICDCS'14. Its class's data
    /// sheet; 100 MB/s is assumed.
    Seagate250,
    /// A modern nearline drive of 24 TB (Exos X24 class). Calibrated to 285 MB/s and 168 IOPS at queue depth 16.
    Nearline24t,
    /// OCZ RevoDrive X2 100 GB: the flash servers of CARL 2013 and S4D ICDCS'14, as seen through a file server.
    RevodriveX2,
    /// OCZ Onyx 32 GB: the flash of LiU MASCOTS'13. One command at a time.
    Onyx,
    /// Samsung PM9A3 1.92 TB, calibrated to 82 µs read, 23 µs write, 2.54 GB/s and 124,000 random writes per second.
    Pm9a3,
}

/// A name that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a device profile; known are {known}")]
pub struct UnknownProfile {
    name: String,
    known: String,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 7] = [
        Profile::Null,
        Profile::Wd1602,
        Profile::Seagate250,
        Profile::Nearline24t,
        Profile::RevodriveX2,
        Profile::Onyx,
        Profile::Pm9a3,
    ];

    /// The profile's name, as `from_str` reads it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Null => "null",
            Profile::Wd1602 => "wd1602",
            Profile::Seagate250 => "seagate-250",
            Profile::Nearline24t => "nearline-24t",
            Profile::RevodriveX2 => "revodrive-x2",
            Profile::Onyx => "onyx",
            Profile::Pm9a3 => "pm9a3",
        }
    }

    /// The device's figures.
    pub fn device(self) -> DeviceConfig {
        match self {
            Profile::Null => DeviceConfig::Null,
            Profile::Wd1602 => DeviceConfig::Hdd(wd1602()),
            Profile::Seagate250 => DeviceConfig::Hdd(seagate_250()),
            Profile::Nearline24t => DeviceConfig::Hdd(nearline_24t()),
            Profile::RevodriveX2 => DeviceConfig::Ssd(revodrive_x2()),
            Profile::Onyx => DeviceConfig::Ssd(onyx()),
            Profile::Pm9a3 => DeviceConfig::Ssd(pm9a3()),
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Profile, UnknownProfile> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile { name: name.to_string(), known: Profile::ALL.map(Profile::name).join(", ") })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Effective rate of SATA 3 Gb/s.
const SATA2_BYTES_PER_S: f64 = 250e6;
/// Effective rate of SATA 6 Gb/s.
const SATA3_BYTES_PER_S: f64 = 550e6;

fn wd1602() -> HddConfig {
    HddConfig {
        mechanics: Mechanics {
            turns_per_minute: 7200,
            surface_count: 1,
            capacity_bytes: 160_000_000_000,
            sector_bytes: 512,
            outer_bytes_per_s: 70e6,
            inner_ratio: 0.55,
            head_switch: Nanos(1_000_000),
            cylinder_switch: Nanos(1_000_000),
            seek_alpha_ns: 2.000e6,
            seek_beta_ns: 46_043.0,
            seek_knee_cylinders: 6_231,
            seek_epsilon_ns: 36.27,
            write_settle: Nanos(1_000_000),
        },
        command_overhead: Nanos(500_000),
        bus_bytes_per_s: SATA2_BYTES_PER_S,
        read_ahead: Some((16, MIB)),
        // 16 MB of buffer; half of it for writes is assumed.
        write_cache_bytes: 8 * MIB,
        age_limit: AGE_LIMIT,
    }
}

fn seagate_250() -> HddConfig {
    HddConfig {
        mechanics: Mechanics {
            turns_per_minute: 7200,
            surface_count: 2,
            capacity_bytes: 250_000_000_000,
            sector_bytes: 512,
            outer_bytes_per_s: 100e6,
            inner_ratio: 0.52,
            head_switch: Nanos(1_000_000),
            cylinder_switch: Nanos(1_000_000),
            seek_alpha_ns: 0.800e6,
            seek_beta_ns: 48_006.0,
            seek_knee_cylinders: 17_356,
            seek_epsilon_ns: 45.52,
            write_settle: Nanos(1_000_000),
        },
        command_overhead: Nanos(300_000),
        bus_bytes_per_s: SATA2_BYTES_PER_S,
        read_ahead: Some((16, MIB)),
        // Half of the buffer is assumed, as above.
        write_cache_bytes: 8 * MIB,
        age_limit: AGE_LIMIT,
    }
}

fn nearline_24t() -> HddConfig {
    HddConfig {
        mechanics: Mechanics {
            turns_per_minute: 7200,
            surface_count: 20,
            capacity_bytes: 24_000_000_000_000,
            sector_bytes: 4096,
            outer_bytes_per_s: 285e6,
            inner_ratio: 0.47,
            head_switch: Nanos(1_000_000),
            cylinder_switch: Nanos(1_200_000),
            seek_alpha_ns: 1.000e6,
            seek_beta_ns: 15_454.0,
            seek_knee_cylinders: 120_592,
            seek_epsilon_ns: 17.41,
            write_settle: Nanos(400_000),
        },
        command_overhead: Nanos(100_000),
        bus_bytes_per_s: SATA3_BYTES_PER_S,
        read_ahead: Some((16, MIB)),
        // 512 MB of buffer; the share that may be dirty is assumed.
        write_cache_bytes: 64 * MIB,
        age_limit: AGE_LIMIT,
    }
}

fn revodrive_x2() -> SsdConfig {
    let cost = |startup, stream_bytes_per_s, total_bytes_per_s| StreamCost {
        startup: Nanos(startup),
        stream_bytes_per_s,
        total_bytes_per_s,
    };
    SsdConfig {
        form: SsdForm::Streams {
            parallel_count: 4,
            read: cost(500_000, 220e6, 540e6),
            write: cost(250_000, 190e6, 480e6),
        },
        capacity_bytes: 100_000_000_000,
    }
}

fn onyx() -> SsdConfig {
    let cost = |startup, bytes_per_s| StreamCost {
        startup: Nanos(startup),
        stream_bytes_per_s: bytes_per_s,
        total_bytes_per_s: bytes_per_s,
    };
    SsdConfig {
        form: SsdForm::Streams { parallel_count: 1, read: cost(150_000, 125e6), write: cost(250_000, 70e6) },
        capacity_bytes: 62_533_296 * 512,
    }
}

fn pm9a3() -> SsdConfig {
    SsdConfig {
        form: SsdForm::Channels {
            die_count: 64,
            page_bytes: 16 << 10,
            page_read: Nanos(62_000),
            // 400 µs less what the dies idle: 2.54 GB/s.
            page_program: Nanos(412_000),
            channel_bytes_per_s: 1.2e9,
            link_bytes_per_s: 6.9e9,
            read_control: Nanos(16_000),
            write_control: Nanos(22_400),
            // A random write of 4 KiB programs a quarter of a page, five times over: 124,000 per second.
            random_write_amplification: 5.0,
            buffer_bytes: 64 << 20,
        },
        capacity_bytes: 1_920_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_an_unknown_one_is_told_the_others() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "floppy".parse::<Profile>().unwrap_err().to_string();
        assert!(Profile::ALL.iter().all(|profile| error.contains(profile.name())), "{error}");
    }
}
