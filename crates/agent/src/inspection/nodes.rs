//! What other nodes that share the directory keep of it: by the list of dirty files that each keeps in the managed
//! directory, and by the journals of those that are gone.
//!
//! | the other node | its dirty files come from | they are |
//! |---|---|---|
//! | holds its lock: it is there | its list | dirty |
//! | has given it up: it is gone | its journal, where that belongs to the list | dirty: another one brings them back |
//! | the same, the journal is not there or older | its list | lost |
//! | not known | its list | dirty |

use std::path::Path;

use serde::Serialize;

use super::{FileReport, Inspection, JournalState, PAUSE, Verdict};
use crate::cluster::report::{Seated, seated};
use crate::dirty_list::{self, Listed};
use crate::error::Result;
use crate::node_files::{NODES_MAX, NodeFiles};
use crate::site::Site;

/// Another node of the directory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OtherNode {
    /// What it is called, if that is known.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// `member`, `gone`, or `unknown`.
    pub is: &'static str,
    /// What it comes to there.
    pub verdict: Verdict,
    /// Its journal, if that was looked at.
    pub journal: JournalState,
    /// Files with dirty bytes on its flash.
    pub files: Vec<FileReport>,
    /// Sum of their dirty bytes.
    pub dirty_bytes: u64,
    /// Sum of their lost bytes.
    pub lost_bytes: u64,
    /// What else is wrong, in words.
    pub problems: Vec<String>,
}

/// The nodes of a directory: this one's files, and who else is there.
pub(super) struct Nodes {
    /// This node's number, if it is one of them.
    pub(super) own: Option<u16>,
    others: Vec<Seated>,
    problem: Option<String>,
}

impl Nodes {
    /// As their register says. One that cannot be read is a problem; lists tell without it.
    pub(super) fn find(fast: Option<&Path>, site: Option<&Site>) -> Nodes {
        let (found, problem) = match seated(fast, site) {
            Ok(found) => (found, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let own = found.iter().find(|member| member.is_this).map(|member| member.number);
        Nodes { own, others: found.into_iter().filter(|member| !member.is_this).collect(), problem }
    }

    /// Looks at what the others have, once more where it is worse than dirty.
    pub(super) fn look(self, slow: &Path, fast: Option<&Path>) -> Result<(Vec<OtherNode>, Option<String>)> {
        let own = self.own.unwrap_or(if self.others.is_empty() { 0 } else { NODES_MAX });
        let mut others = self.others;
        for number in dirty_list::numbers(slow)? {
            if number != own && others.iter().all(|other| other.number != number) {
                others.push(Seated { number, ..Seated::default() });
            }
        }
        let look = |other: &Seated| {
            let first = look_at(slow, fast, other);
            if first.verdict <= Verdict::Dirty {
                return first;
            }
            std::thread::sleep(PAUSE);
            let again = look_at(slow, fast, other);
            if again.verdict < first.verdict { again } else { first }
        };
        Ok((others.iter().map(look).collect(), self.problem))
    }
}

fn look_at(slow: &Path, fast: Option<&Path>, other: &Seated) -> OtherNode {
    let number = other.number;
    // Files of a node that has no place are named by its number alone.
    let files = NodeFiles::of(fast.unwrap_or(Path::new("")), number);
    let list = slow.join(files.list());
    let mut found = Inspection { directory: slow.display().to_string(), ..Inspection::default() };
    let listed = dirty_list::read_at(&list).unwrap_or_else(|error| found.worse(Verdict::Attention, error.to_string()));
    found.listed = dirty_list::is_at(&list);
    found.listed_epoch = listed.as_ref().map_or(0, |listed| listed.heading.epoch);
    let heading = listed.as_ref().map(|listed| listed.heading.node.clone()).unwrap_or_default();
    let name = if other.name.is_empty() { heading } else { other.name.clone() };
    match (other.is, fast) {
        ("gone", Some(fast)) => found.take_what_is_left(slow, fast, &files, listed),
        _ => {
            found.journal = JournalState::Elsewhere;
            found.take_listed(slow, listed, false);
        }
    }
    found.conclude();
    // Of what is elsewhere nothing else is known.
    let verdict = found.verdict.max(if found.dirty_bytes > 0 { Verdict::Dirty } else { Verdict::Clean });
    let Inspection { journal, files, dirty_bytes, lost_bytes, problems, .. } = found;
    OtherNode { name, number, is: other.is, verdict, journal, files, dirty_bytes, lost_bytes, problems }
}

impl Inspection {
    /// Nobody is there any more whose journal it is.
    fn take_what_is_left(&mut self, slow: &Path, fast: &Path, files: &NodeFiles, listed: Option<Listed>) {
        // A copy of it in memory is gone with the node.
        let recovered = self.replay(slow, files, &files.own().join("memory of the node"), [0; 16]);
        if let (Some(found), JournalState::Usable) = (recovered, self.journal) {
            return match crate::identity::ManagedDevice::of(slow) {
                Ok(device) => self.take_journal(device, fast, &found, &Default::default()),
                Err(error) => self.worse(Verdict::Attention, error.to_string()),
            };
        }
        if listed.as_ref().is_some_and(Listed::owes) {
            self.whole = Verdict::Lost;
        }
        self.take_listed(slow, listed, true);
    }
}
