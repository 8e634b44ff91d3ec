//! The end of a volume that somebody serves from a terminal or a service: everything is written back, unless
//! it is interrupted.

use std::time::Duration;

use headstart_units::ByteSize;

use super::progress::Progress;
use super::service;
use crate::server::{Server, StopError, Stopped};

/// Ends a volume. Writes back what only flash holds, unless told to keep it, until `is_interrupted`; shows
/// how far it has come.
pub fn end(server: Server, keep_dirty: bool, is_interrupted: impl Fn() -> bool) -> Result<Stopped, StopError> {
    service::stopping();
    let handle = server.handle();
    let dirty_bytes = || handle.status().map(|status| status.dirty_bytes);
    let progress = Progress::of(dirty_bytes().unwrap_or(0));
    // One that has ended already is only waited for.
    let _ = handle.stop(keep_dirty);
    let ending = std::thread::spawn(move || server.wait());
    let mut is_cut_short = keep_dirty;
    while !ending.is_finished() {
        if !is_cut_short && is_interrupted() {
            is_cut_short = true;
            let _ = handle.stop(true);
        }
        std::thread::sleep(Duration::from_millis(10));
        if let Ok(dirty_bytes) = dirty_bytes() {
            progress.show(dirty_bytes);
        }
    }
    ending.join().unwrap_or(Err(StopError::Died))
}

/// What is to be said of a volume that has ended; nothing where nobody needs to know.
pub fn report(stopped: &Stopped) -> Option<String> {
    let failed = match (stopped.disk_failed, stopped.flash_failed) {
        (false, false) => "",
        (true, false) => "the disk has failed; ",
        (false, true) => "the flash has failed; ",
        (true, true) => "disk and flash have failed; ",
    };
    let on_flash = match stopped.dirty_bytes {
        0 if stopped.is_released => "nothing is left on flash alone".to_owned(),
        // What flash says is what the next start goes by, and it could not be told.
        0 => "the disk has everything, but stays hidden from others, as flash still says otherwise: serve the \
              volume again once flash works, or 'headstart volume detach'"
            .to_owned(),
        bytes => format!(
            "{} stay on flash and are not lost: serve the volume again to go on from there; do not use the \
             disk without it",
            ByteSize(bytes)
        ),
    };
    let is_whole = stopped.dirty_bytes == 0 && failed.is_empty();
    (!is_whole).then(|| format!("{failed}{on_flash}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_said_to_stand_alone_only_if_it_was_released() {
        let stopped =
            |is_released, flash_failed| Stopped { dirty_bytes: 0, is_released, disk_failed: false, flash_failed };
        assert_eq!(report(&stopped(true, false)), None);
        assert_eq!(report(&stopped(false, false)), None, "heads of segments stay on flash, clean");
        assert!(report(&stopped(true, true)).unwrap().ends_with("nothing is left on flash alone"));
        let hidden = report(&stopped(false, true)).unwrap();
        assert!(
            hidden.contains("hidden") && hidden.contains("volume detach") && !hidden.contains("nothing"),
            "{hidden}"
        );
    }
}
