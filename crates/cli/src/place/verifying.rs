//! Comparing what is on flash with what is on disk, after placing.

use std::path::PathBuf;

use anyhow::Result;
use headstart_agent::site::Site;
use headstart_agent::verification::{Outcome, Verification};

use crate::following::Followed;
use crate::interrupts::Interrupts;
use crate::progress;

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Regions that are whole on flash.
    pub regions: usize,
    /// Bytes of regions that are on flash.
    pub bytes: u64,
    /// Of these, bytes that the disk does not have yet, or that a program is about to change.
    pub newer_bytes: u64,
    /// Files and offsets of bytes that differ, the first of each extent.
    pub mismatches: Vec<(PathBuf, u64)>,
}

/// Reads every byte of the regions that is on flash, and the same bytes on disk; none if interrupted.
pub fn verify(site: &Site, followed: &Followed, interrupts: &Interrupts) -> Result<Option<Verified>> {
    let so_far = interrupts.so_far();
    let mut verification = Verification::begin(&site.slow, &site.fast)?;
    let mut verified = Verified::default();
    let bar = progress::of_bytes("comparing", followed.bytes());
    for file in &followed.files {
        let Some(inode) = file.inode else { continue };
        for region in &file.regions {
            let mut placed_bytes = 0;
            let ended = verification.compare(&file.path, inode, region.range, |outcome, length| {
                bar.inc(length);
                placed_bytes += length;
                match outcome {
                    Outcome::Equal => {}
                    Outcome::Newer => verified.newer_bytes += length,
                    Outcome::Differs(offset) => verified.mismatches.push((file.path.clone(), offset)),
                }
                interrupts.so_far() == so_far
            })?;
            if !ended {
                bar.finish_and_clear();
                return Ok(None);
            }
            verified.bytes += placed_bytes;
            verified.regions += usize::from(placed_bytes == region.range.length);
        }
    }
    bar.finish_and_clear();
    Ok(Some(verified))
}
