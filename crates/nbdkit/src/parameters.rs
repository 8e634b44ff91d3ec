//! What comes after the plugin's name on nbdkit's command line: `hdd=DEV ssd=DEV` and settings, as of
//! `headstart volume serve`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use headstart_volume::device::DeviceName;
use headstart_volume::export::opening::Wishes;

/// What nbdkit prints for `--help`.
pub const HELP: &std::ffi::CStr =
    c"hdd=DEV               (required) The disk: a block device, a file or emulated:PROFILE:FILE.
ssd=DEV               (required) Its flash, likewise.
mode=MODE             write-back or write-through [as the volume was created].
policy=POLICY         What goes to flash: auto, liu, itransformer, liu,itransformer or none [as the volume was created].
delay-max-ms=MS       The most that iTransformer adds to a foreground request [50].
liu-threshold=PERCENT Of a segment that is asked for, from which on LiU lifts and loads it [30].
keep-dirty=BOOL       At the end leave on flash what is not on disk yet.
parallel=BOOL         Several requests of a connection at once: faster with few connections, but a client that is
                      killed can end an nbdkit that has this fault, as 1.32 does [false].";

/// The parameters so far.
#[derive(Debug, Default)]
pub struct Parameters {
    pub hdd: Option<DeviceName>,
    pub ssd: Option<DeviceName>,
    pub wishes: Wishes,
    pub keep_dirty: bool,
    /// Several requests of a connection at once.
    pub is_parallel: bool,
}

impl Parameters {
    /// Takes one; the error says what is wrong with it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "hdd" => self.hdd = Some(absolute(parsed(key, value)?)),
            "ssd" => self.ssd = Some(absolute(parsed(key, value)?)),
            "mode" => self.wishes.mode = Some(parsed(key, value)?),
            "policy" => self.wishes.policy = Some(parsed(key, value)?),
            "delay-max-ms" => {
                let ms: u32 = parsed(key, value)?;
                self.wishes.delay_max = Some(Duration::from_millis(ms.into()));
            }
            "liu-threshold" => {
                let percent = parsed(key, value)?;
                if !(1..=100).contains(&percent) {
                    return Err(format!("{key}={value}: it is a number from 1 to 100"));
                }
                self.wishes.threshold_percent = Some(percent);
            }
            "keep-dirty" => self.keep_dirty = parsed(key, value)?,
            "parallel" => self.is_parallel = parsed(key, value)?,
            _ => return Err(format!("'{key}' is no parameter of this plugin; nbdkit --help PLUGIN lists them")),
        }
        Ok(())
    }

    /// The two devices.
    pub fn devices(&self) -> Result<(&DeviceName, &DeviceName), String> {
        match (&self.hdd, &self.ssd) {
            (Some(hdd), Some(ssd)) => Ok((hdd, ssd)),
            (None, _) => Err("hdd=DEV is missing: the disk of the volume".into()),
            (_, None) => Err("ssd=DEV is missing: the flash of the volume".into()),
        }
    }
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{key}={value}: {error}"))
}

/// nbdkit changes to / when it goes to the background.
fn absolute(name: DeviceName) -> DeviceName {
    let absolute = |path: &Path| -> PathBuf { std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) };
    match name {
        DeviceName::Path(path) => DeviceName::Path(absolute(&path)),
        DeviceName::Emulated { profile, file } => DeviceName::Emulated { profile, file: absolute(&file) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_a_share_of_a_segment() {
        let mut parameters = Parameters::default();
        parameters.set("liu-threshold", "45").unwrap();
        assert_eq!(parameters.wishes.threshold_percent, Some(45));
        for wrong in ["0", "101", "-1", "half"] {
            assert!(parameters.set("liu-threshold", wrong).unwrap_err().starts_with("liu-threshold="), "{wrong}");
        }
    }
}
