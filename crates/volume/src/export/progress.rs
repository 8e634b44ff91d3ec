//! How far writing back has come, on stderr, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that vanishes when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// So many bytes are to be written back.
    pub fn of(dirty_bytes: u64) -> Progress {
        let bar = ProgressBar::new(dirty_bytes);
        let style = ProgressStyle::with_template("writing back {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        bar.set_style(style.expect("the template is well-formed"));
        Progress(bar)
    }

    /// So many of them are left; clients may have added some.
    pub fn show(&self, dirty_bytes: u64) {
        if dirty_bytes > self.0.length().unwrap_or(0) {
            self.0.set_length(dirty_bytes);
        }
        self.0.set_position(self.0.length().unwrap_or(0) - dirty_bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
