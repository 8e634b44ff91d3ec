//! What a list of dirty files says, and the same of one file in its attribute: as text, checked when it is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::epoch::EPOCH_MAX;

/// The list's first object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heading {
    /// Who keeps the bytes.
    pub user: String,
    /// On which node.
    pub node: String,
    /// On which flash.
    pub fast: String,
    /// Epoch of the agent that wrote it: a journal with a lower one is not the journal that belongs to the list.
    pub epoch: u64,
    /// Sum over the files.
    pub dirty_bytes: u64,
    /// Files that follow.
    pub files: u64,
}

/// One file of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Below the managed directory; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// The path's bytes in hexadecimal, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Inode.
    pub inode: u64,
    /// Bytes that only flash has.
    pub dirty_bytes: u64,
    /// First byte and length of each dirty range.
    pub ranges: Vec<(u64, u64)>,
    /// Whether the ranges are exact; else the last one covers clean bytes too.
    pub exact: bool,
    /// A program had it open for writing.
    pub open_for_writing: bool,
}

impl Entry {
    /// The path's own bytes.
    pub fn path_bytes(&self) -> Vec<u8> {
        let pairs = self.path_hex.as_deref().filter(|digits| !digits.is_empty()).map(pairs);
        pairs.flatten().unwrap_or_else(|| self.path.as_bytes().to_vec())
    }

    /// What the text of an attribute says, or why it is none.
    pub fn parse(text: &[u8]) -> std::result::Result<Entry, String> {
        let entry: Entry = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        entry.check()?;
        Ok(entry)
    }

    /// Whether an agent can have written this: bytes that a file can have, and a name that leads nowhere else.
    fn check(&self) -> std::result::Result<(), String> {
        let last = |&(offset, length): &(u64, u64)| offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        if let Some((offset, length)) = self.ranges.iter().find(|range| last(range).is_none()) {
            return Err(format!("no file has {length} bytes at {offset}"));
        }
        if self.dirty_bytes > FILE_BYTES_MAX {
            return Err(format!("no file has {} bytes", self.dirty_bytes));
        }
        if self.path_hex.as_deref().is_some_and(|digits| pairs(digits).is_none()) {
            return Err("its path is no pairs of hexadecimal digits".into());
        }
        let bytes = self.path_bytes();
        let leads_up = Path::new(OsStr::from_bytes(&bytes)).components().any(|part| part == Component::ParentDir);
        if leads_up || bytes.contains(&0) {
            return Err(format!("'{}' is no path in a directory", self.path.escape_debug()));
        }
        Ok(())
    }
}

/// One past the last byte that a file can have.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

fn pairs(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (whole, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = whole.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// A list as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The whole.
    pub heading: Heading,
    /// The files.
    pub entries: Vec<Entry>,
}

impl Listed {
    /// What the text of a list says, or why it is none.
    pub fn parse(text: &str) -> std::result::Result<Listed, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let heading: Heading =
            serde_json::from_str(lines.next().unwrap_or("")).map_err(|error| format!("its heading: {error}"))?;
        let entries: Vec<Entry> =
            lines.map(|line| Entry::parse(line.as_bytes())).collect::<std::result::Result<_, _>>()?;
        if heading.files != entries.len() as u64 {
            return Err(format!("its heading counts {} files, and {} follow", heading.files, entries.len()));
        }
        let sum = entries.iter().try_fold(0u64, |sum, entry| sum.checked_add(entry.dirty_bytes));
        if sum != Some(heading.dirty_bytes) {
            return Err(format!("its heading counts {} dirty bytes, and others follow", heading.dirty_bytes));
        }
        if heading.epoch > EPOCH_MAX {
            return Err(format!("no agent has the epoch {}", heading.epoch));
        }
        Ok(Listed { heading, entries })
    }

    /// The lines that say it.
    pub fn to_lines(&self) -> String {
        let mut text = String::new();
        let mut line = |json: std::result::Result<String, serde_json::Error>| {
            text.push_str(&json.expect("it has a JSON form"));
            text.push('\n');
        };
        line(serde_json::to_string(&self.heading));
        self.entries.iter().for_each(|entry| line(serde_json::to_string(entry)));
        text
    }

    /// Whether flash may hold bytes that the disk does not have.
    pub fn owes(&self) -> bool {
        self.heading.dirty_bytes > 0 || self.entries.iter().any(|entry| entry.dirty_bytes > 0 || entry.open_for_writing)
    }
}
