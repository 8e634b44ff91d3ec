//! Progress bars of the commands that move bytes.

use indicatif::{ProgressBar, ProgressStyle};

/// How far `what` has come of so many bytes: drawn on stderr, and only on a terminal.
pub fn of_bytes(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = format!("{what} {{bar:30}} {{bytes}}/{{total_bytes}} {{bytes_per_sec}} {{eta}}");
    bar.set_style(ProgressStyle::with_template(&template).expect("the template is well-formed"));
    bar
}
