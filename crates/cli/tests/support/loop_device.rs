//! Files as block devices, and what is mounted from them.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A loop device that goes with the test.
pub struct Loop(PathBuf);

impl Loop {
    /// Shows a file as a block device.
    pub fn of(file: &Path) -> Result<Loop, String> {
        let output =
            Command::new("losetup").args(["-f", "--show"]).arg(file).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        Ok(Loop(PathBuf::from(text(&output.stdout))))
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// A mount that goes with the test.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a device.
    pub fn at(device: &Loop, place: &Path, options: &[&str]) -> Result<Mounted, String> {
        let _ = std::fs::create_dir(place);
        let output = Command::new("mount").args(options).arg(device.path()).arg(place).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that another test has forked and not yet executed has its descriptors, those of files
        // there among them.
        let unmounted = (0..200).any(|tries| {
            std::thread::sleep(std::time::Duration::from_millis(if tries == 0 { 0 } else { 50 }));
            Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success())
        });
        assert!(std::thread::panicking() || unmounted, "cannot unmount");
    }
}

/// Runs a command with `DEVICE` replaced.
pub fn run(command: &[&str], device: &Loop) -> Output {
    let words = command.iter().map(|word| match *word {
        "DEVICE" => device.path().as_os_str(),
        word => word.as_ref(),
    });
    let words: Vec<_> = words.collect();
    // LVM complains about descriptors that test programs leave open.
    Command::new(words[0]).args(&words[1..]).env("LVM_SUPPRESS_FD_WARNINGS", "1").stdin(Stdio::null()).output().unwrap()
}
