//! Which files have something to say or wait for an answer, and who owns how many.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Beside, Listed, place};
use crate::guest::{Guest, NONE_YET};
use crate::names::{FileId, Seat, Stamp};

/// Files by what is to be done about them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct GuestIndex {
    /// Threads wait for an answer.
    asking: BTreeSet<FileId>,
    /// Lists of threads are said again.
    listing: BTreeSet<FileId>,
    /// Agents that own files, and how many.
    owners: BTreeMap<Seat, u64>,
    /// Files whose owner has become another one, or known, or unknown, since this was last taken.
    owned_anew: Beside<Vec<FileId>>,
    /// Files of which something is known since this was last taken.
    new: Beside<Vec<FileId>>,
}

impl GuestIndex {
    /// Files for which threads wait.
    pub(crate) fn asking(&self) -> impl Iterator<Item = FileId> + '_ {
        self.asking.iter().copied()
    }

    /// Files of which there is something to say again.
    pub(crate) fn saying(&self) -> BTreeSet<FileId> {
        self.asking.union(&self.listing).copied().collect()
    }

    /// Whether there are any.
    pub(crate) fn says(&self) -> bool {
        !self.asking.is_empty() || !self.listing.is_empty()
    }

    /// Agents that own files.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Seat> + '_ {
        self.owners.keys().copied()
    }

    /// See the field.
    pub(crate) fn take_new(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.new.0)
    }

    /// See the field.
    pub(crate) fn take_owned_anew(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.owned_anew.0)
    }
}

impl Listed for Guest {
    /// Whether threads wait, whether a list is said again, who owns the file.
    type Work = (bool, bool, Option<(Seat, Stamp)>);
    type Index = GuestIndex;

    fn work(&self) -> Self::Work {
        (self.waits(), self.last_list().is_some(), self.owner)
    }

    fn list(index: &mut GuestIndex, file: FileId, before: Option<Self::Work>, now: Option<Self::Work>) {
        if before.is_none() {
            index.new.0.push(file);
        }
        let (asked, listed, owned) = before.unwrap_or_default();
        let (asks, lists, owns) = now.unwrap_or_default();
        place(&mut index.asking, file, (asked, asks));
        place(&mut index.listing, file, (listed, lists));
        let (owned, owns) = (owned.map(|(seat, _)| seat), owns.map(|(seat, _)| seat));
        if owned == owns {
            return;
        }
        if let Some(owner) = owned
            && let Some(files) = index.owners.get_mut(&owner)
        {
            *files -= 1;
            if *files == 0 {
                index.owners.remove(&owner);
            }
        }
        if let Some(owner) = owns {
            *index.owners.entry(owner).or_default() += 1;
        }
        index.owned_anew.0.push(file);
    }

    fn pack(&mut self) {
        if self.shared.as_deref() == Some(&*NONE_YET) {
            self.shared = None;
        }
    }
}
