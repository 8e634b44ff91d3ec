//! Which files may come to flash: patterns of the site, the most specific wins.
//!
//! A pattern is a glob relative to the slow directory: `*` and `?` stay within one name, `**` crosses
//! directories. One that matches a directory speaks for everything below it. Of the patterns that speak for a
//! file, the one with the most characters that stand for themselves decides; of two equally specific ones,
//! that which excludes. A file for which none speaks is included if the site has no include patterns.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The most specific first.
    rules: Vec<Rule>,
    only_named: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    matcher: GlobMatcher,
    includes: bool,
    literals: usize,
}

impl Selection {
    /// From the patterns; or which of them cannot be understood.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Selection, String> {
        let named = |name: &'static str, includes: bool| move |pattern: &String| rule(name, pattern, includes);
        let mut rules = include.iter().map(named("include", true)).collect::<Result<Vec<_>, _>>()?;
        rules.extend(exclude.iter().map(named("exclude", false)).collect::<Result<Vec<_>, _>>()?);
        rules.sort_by_key(|rule| (usize::MAX - rule.literals, rule.includes));
        Ok(Selection { rules, only_named: !include.is_empty() })
    }

    /// Whether the file at `path`, relative to the slow directory, stays off flash.
    pub fn excludes(&self, path: &Path) -> bool {
        let speaks = |rule: &&Rule| {
            let mut names = path.ancestors().filter(|name| !name.as_os_str().is_empty());
            names.any(|name| rule.matcher.is_match(name))
        };
        self.rules.iter().find(speaks).map_or(self.only_named, |rule| !rule.includes)
    }
}

fn rule(list: &str, pattern: &str, includes: bool) -> Result<Rule, String> {
    if pattern.is_empty() || pattern.starts_with('/') || pattern.split('/').any(|name| name == "..") {
        return Err(format!("{list}: '{pattern}' is not a pattern relative to the slow directory"));
    }
    let relative = pattern.trim_end_matches('/').trim_start_matches("./");
    let mut glob = GlobBuilder::new(relative);
    let glob = glob.literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| format!("{list}: '{pattern}': {}", error.kind()))?;
    Ok(Rule { matcher: glob.compile_matcher(), includes, literals: literals(relative) })
}

/// Characters of a pattern that stand for themselves.
fn literals(pattern: &str) -> usize {
    let (mut count, mut depth, mut escaped) = (0, 0_usize, false);
    for character in pattern.chars() {
        match character {
            _ if escaped => {
                escaped = false;
                count += 1;
            }
            '\\' => escaped = true,
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            '*' | '?' => {}
            _ if depth > 0 => {}
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn excluded(include: &[&str], exclude: &[&str], path: &[u8]) -> bool {
        let owned = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.to_string()).collect::<Vec<_>>();
        let selection = Selection::new(&owned(include), &owned(exclude)).unwrap();
        selection.excludes(Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        assert!(!excluded(&[], &[], b"a"));
        assert!(excluded(&[], &["logs"], b"logs/deep/down"));
        assert!(!excluded(&[], &["logs"], b"logs.d/x"));
        assert!(excluded(&[], &["logs/"], b"logs/x"));
        assert!(!excluded(&["**", "logs/keep.dat"], &["logs"], b"logs/keep.dat"));
        assert!(excluded(&["**", "logs/keep.dat"], &["logs"], b"logs/other.dat"));
        assert!(!excluded(&["**", "logs/keep.dat"], &["logs"], b"other"));
        assert!(excluded(&["results"], &[], b"other"), "with include patterns alone, only what they name");
        assert!(excluded(&["results"], &["results/**/*.tmp"], b"results/a/b.tmp"));
        assert!(excluded(&["a"], &["a"], b"a"), "equally specific: exclude");
    }

    #[test]
    fn stars_stay_within_a_name_and_names_are_bytes() {
        assert!(excluded(&[], &["*.log"], b"a.log"));
        assert!(!excluded(&[], &["*.log"], b"d/a.log"));
        assert!(excluded(&[], &["**/*.log"], b"d/e/a.log"));
        assert!(excluded(&[], &["**/*.log"], b"a.log"));
        assert!(excluded(&[], &["*.log"], b"\xff\n\"x\".log"));
        assert!(excluded(&[], &["caf\u{e9}?"], "caf\u{e9}1".as_bytes()));
        assert!(excluded(&[], &["{a,b}[0-9]"], b"b7"));
        assert!(excluded(&[], &["\\*"], b"*") && !excluded(&[], &["\\*"], b"x"));
    }

    #[test]
    fn patterns_that_make_no_sense_are_named() {
        for bad in ["", "/absolute", "../x", "a[", "a{"] {
            let error = Selection::new(&[], &[bad.into()]).unwrap_err();
            assert!(error.contains("exclude") && error.contains(bad), "{error}");
        }
    }
}
