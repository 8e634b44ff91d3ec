//! Whether a configuration makes a testbed.

use headstart_units::{KIB, MIB};

use crate::config::TestbedConfig;
use crate::error::{Error, Result};
use crate::servers;

impl TestbedConfig {
    /// Checks every value that needs no file system to be checked.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the option.
    pub fn validate(&self) -> Result<()> {
        let invalid = |option, reason: String| Err(Error::Invalid { option, reason });
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.starts_with('.') || !self.name.chars().all(plain) {
            return invalid("--name", format!("'{}' is no name; use letters, digits, - and _", self.name));
        }
        if self.slow == self.fast {
            return invalid("--fast", "the slow and the fast directory must differ".to_string());
        }
        self.validate_servers()
    }

    /// The same of the servers alone, wherever they are mounted.
    pub fn validate_servers(&self) -> Result<()> {
        let invalid = |option, reason: String| Err(Error::Invalid { option, reason });
        for (option, count) in [("--hdd-servers", self.hdd_servers), ("--ssd-servers", self.ssd_servers)] {
            if !(1..=256).contains(&count) {
                return invalid(option, format!("{count} is out of range; use 1 to 256"));
            }
        }
        for (option, profile) in [("--hdd-profile", &self.hdd_profile), ("--ssd-profile", &self.ssd_profile)] {
            servers::check_profile(option, profile)?;
        }
        servers::volume(self)?;
        if self.stripe_bytes < 4096 || !self.stripe_bytes.is_multiple_of(4096) || self.stripe_bytes > 64 * MIB {
            let reason = format!("{} is not a multiple of 4 KiB up to 64 MiB", self.stripe_bytes);
            return invalid("--stripe", reason);
        }
        if (1..4 * KIB).contains(&self.server_cache_bytes) {
            let reason = format!("{} bytes hold no page; use 0, or 4 KiB and more", self.server_cache_bytes);
            return invalid("--server-cache", reason);
        }
        if !(self.time_scale.is_finite() && (0.0..=1e4).contains(&self.time_scale)) {
            return invalid("--time-scale", format!("{} is out of range; use 0 to 10000", self.time_scale));
        }
        Ok(())
    }
}
