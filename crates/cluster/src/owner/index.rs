//! Which owners have something to do: all others are left alone by what happens now and then.

use std::collections::BTreeSet;

use crate::files::{Listed, place};
use crate::names::FileId;
use crate::owner::alone::OwnClaim;
use crate::owner::{Owner, Packed, Stage};

/// Whether an owner is at work, in which sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Somebody is waited for, or something is to be said or tried again.
    says: bool,
    /// Records are not durable.
    awaits_barriers: bool,
    /// It keeps the claim to its own member back, and others have not answered theirs.
    settles: bool,
    /// Logs of members that are out have records of its file.
    holds_out: bool,
    /// Logs of any members have.
    is_recorded: bool,
}

/// Files by what their owners are at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OwnerIndex {
    says: BTreeSet<FileId>,
    awaits_barriers: BTreeSet<FileId>,
    settles: BTreeSet<FileId>,
    holds_out: BTreeSet<FileId>,
    recorded: BTreeSet<FileId>,
}

impl OwnerIndex {
    /// Files whose owners wait, or have something to say.
    pub(crate) fn saying(&self) -> impl Iterator<Item = FileId> + '_ {
        self.says.iter().copied()
    }

    /// Files with records that are not durable.
    pub(crate) fn awaiting_barriers(&self) -> impl Iterator<Item = FileId> + '_ {
        self.awaits_barriers.iter().copied()
    }

    /// Files that may become this member's alone.
    pub(crate) fn settling(&self) -> impl Iterator<Item = FileId> + '_ {
        self.settles.iter().copied()
    }

    /// Files of which logs of members that are out have records.
    pub(crate) fn holding_out(&self) -> impl Iterator<Item = FileId> + '_ {
        self.holds_out.iter().copied()
    }

    /// Files of which logs have records.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = FileId> + '_ {
        self.recorded.iter().copied()
    }
}

impl Owner {
    /// Whether it waits for somebody, or has something to say or to try again: else [`Owner::again`] does nothing.
    fn says(&self) -> bool {
        self.stage != Stage::Owns
            || !self.claiming.is_empty()
            || !self.access.has_no_calls()
            || !self.queue.is_empty()
            || self.stack.unshown().next().is_some()
            || self.stack.is_ripening()
            || !self.copies.is_empty()
            || self.space.has_to_say()
    }
}

impl Listed for Packed {
    type Work = Work;
    type Index = OwnerIndex;

    fn work(&self) -> Work {
        let settles = self.own() == OwnClaim::KeptBack;
        let Packed::Full(owner) = self else { return Work { settles, ..Work::default() } };
        Work {
            says: owner.says(),
            awaits_barriers: owner.stack.awaits_any(),
            settles,
            holds_out: owner.holds_out(),
            is_recorded: !owner.stack.is_empty(),
        }
    }

    fn list(index: &mut OwnerIndex, file: FileId, before: Option<Work>, now: Option<Work>) {
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        place(&mut index.says, file, (before.says, now.says));
        place(&mut index.awaits_barriers, file, (before.awaits_barriers, now.awaits_barriers));
        place(&mut index.settles, file, (before.settles, now.settles));
        place(&mut index.holds_out, file, (before.holds_out, now.holds_out));
        place(&mut index.recorded, file, (before.is_recorded, now.is_recorded));
    }

    fn pack(&mut self) {
        self.fold();
    }
}
