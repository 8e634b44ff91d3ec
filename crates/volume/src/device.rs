//! The devices of a volume as a user names them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use headstart_model::profile::Profile;

/// What a user names: a path, or `emulated:PROFILE:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A block device or a file.
    Path(PathBuf),
    /// A file that answers as late as a device would.
    Emulated {
        /// Which device.
        profile: Profile,
        /// Holds the bytes.
        file: PathBuf,
    },
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The profile is not known.
    #[error("{0}")]
    Profile(#[from] headstart_model::profile::UnknownProfile),
    /// There is no file.
    #[error("'{0}' names no file; write emulated:PROFILE:FILE")]
    NoFile(String),
    /// Nothing.
    #[error("an empty name is no device")]
    Empty,
}

impl DeviceName {
    /// What holds the bytes.
    pub fn path(&self) -> &Path {
        match self {
            DeviceName::Path(path) => path,
            DeviceName::Emulated { file, .. } => file,
        }
    }
}

impl FromStr for DeviceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<DeviceName, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        let Some(emulated) = text.strip_prefix("emulated:") else {
            return Ok(DeviceName::Path(PathBuf::from(text)));
        };
        match emulated.split_once(':') {
            Some((profile, file)) if !file.is_empty() => {
                Ok(DeviceName::Emulated { profile: profile.parse()?, file: PathBuf::from(file) })
            }
            _ => Err(InvalidName::NoFile(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Path(path) => write!(f, "{}", path.display()),
            DeviceName::Emulated { profile, file } => write!(f, "emulated:{}:{}", profile.name(), file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_or_an_emulated_device_and_is_written_as_it_was_read() {
        for text in ["/dev/sdb", "disk.img", "emulated:wd1602:/data/a:b.img"] {
            assert_eq!(text.parse::<DeviceName>().unwrap().to_string(), text);
        }
        for text in ["", "emulated:wd1602", "emulated:wd1602:", "emulated:floppy:a.img"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
