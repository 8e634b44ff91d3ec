//! What to run next, as a shell takes it.

use std::path::PathBuf;

use headstart_insight::advice::{Advice, Policy};

/// What commands name.
pub struct Commands {
    pub trace: PathBuf,
    /// The site file, if it was named.
    pub site: Option<PathBuf>,
}

impl Commands {
    /// The commands that do what is advised; none where flash buys nothing.
    pub fn next(&self, advice: &Advice) -> Vec<String> {
        let Some(advised) = advice.recommendation else { return Vec::new() };
        let curve = advice.curves.iter().find(|curve| curve.policy == advised.policy).expect("it was chosen from them");
        let capacity = rounded(curve.points[advised.point].capacity_bytes);
        let site =
            self.site.as_ref().map_or(String::new(), |path| format!(" --site {}", quoted(&path.to_string_lossy())));
        let trace = quoted(&self.trace.to_string_lossy());
        // A plan has regions of one length: that of the file that gains most.
        let best = advice.files.iter().max_by(|a, b| a.gain_s.total_cmp(&b.gain_s));
        let region = best.map_or(0, |file| file.region_bytes);
        let policy = super::names::option(advised.policy);
        let run = format!("headstart run{site} --policy {policy} --capacity {capacity} -- PROGRAM");
        match advised.policy {
            Policy::Carl | Policy::CarlS4d => vec![
                format!(
                    "headstart plan{site} {trace} --region {} --capacity {capacity}{} -o plan.toml",
                    rounded(region),
                    if advised.policy == Policy::CarlS4d { " --choice beside-s4d" } else { "" }
                ),
                format!("HEADSTART_CAPACITY={capacity} headstart place{site} plan.toml"),
                run,
            ],
            Policy::Off | Policy::S4d | Policy::S4dFirst | Policy::Random => vec![run],
        }
    }
}

/// A size that is no less, in whole units.
pub fn rounded(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 10) && bytes < 1 << 20 || bytes < 16 << 20 {
        return format!("{}KiB", bytes.div_ceil(1 << 10));
    }
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_in_a_shell_and_sizes_are_no_less() {
        assert_eq!(quoted("/a/b-c_1.toml"), "/a/b-c_1.toml");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
        assert_eq!(
            (rounded(65536), rounded((20 << 20) + 1), rounded(1)),
            ("64KiB".into(), "21MiB".into(), "1KiB".into())
        );
    }
}
