//! An owner in the room that it needs: of a file that one member uses there is nothing but its epoch.

use std::borrow::Cow;

use crate::names::{FileId, Stamp};
use crate::owner::access::Access;
use crate::owner::alone::OwnClaim;
use crate::owner::queue::Queue;
use crate::owner::space::Space;
use crate::owner::{Owner, Stage};
use crate::stack::Stack;

/// An owner: folded, unless there is more of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packed {
    /// Nobody else has anything of the file, and no log has records: all else is as it begins.
    Blank {
        /// The file.
        file: FileId,
        /// The epoch.
        epoch: Stamp,
        /// The claim to its own member.
        own: OwnClaim,
        /// The count of records.
        seq: u64,
        /// Programs of another member have the file open.
        is_used: bool,
    },
    /// Any other.
    Full(Box<Owner>),
}

impl Packed {
    pub(crate) fn new(owner: Owner) -> Packed {
        Packed::Full(Box::new(owner))
    }

    /// Its epoch.
    pub(crate) fn epoch(&self) -> Stamp {
        match self {
            Packed::Blank { epoch, .. } => *epoch,
            Packed::Full(owner) => owner.epoch,
        }
    }

    pub(super) fn own(&self) -> OwnClaim {
        match self {
            Packed::Blank { own, .. } => *own,
            Packed::Full(owner) => owner.own,
        }
    }

    /// Whether nothing but a claim can make more of it: what a view says of other members does not concern it.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self, Packed::Blank { .. })
    }

    /// Whether its own member has the file to itself.
    pub(crate) fn is_alone(&self) -> bool {
        self.own() == OwnClaim::Alone
    }

    /// Whether it keeps the claim to its own member back, so that threads of that do not ask it.
    pub(crate) fn keeps_back(&self) -> bool {
        self.own() != OwnClaim::Made
    }

    /// Whether the home alone has to hear that the file was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self, Packed::Full(owner) if owner.stage == Stage::GivenUp)
    }

    /// Whether it answers requests.
    pub(crate) fn serves(&self) -> bool {
        self.unfolded().serves()
    }

    /// All of it.
    pub(crate) fn unfolded(&self) -> Cow<'_, Owner> {
        match self {
            Packed::Full(owner) => Cow::Borrowed(owner),
            Packed::Blank { file, epoch, own, seq, is_used } => {
                let owner = Owner::named(*file, *epoch, Vec::new(), false);
                Cow::Owned(Owner { own: *own, seq: *seq, is_used: *is_used, ..owner })
            }
        }
    }

    /// The same, to be changed.
    pub(crate) fn unfold(&mut self) -> &mut Owner {
        if let Cow::Owned(owner) = self.unfolded() {
            *self = Packed::new(owner);
        }
        match self {
            Packed::Full(owner) => owner,
            Packed::Blank { .. } => unreachable!("it was unfolded"),
        }
    }

    /// Folds it, if there is nothing more of it.
    pub(super) fn fold(&mut self) {
        if let Packed::Full(owner) = self
            && owner.is_blank()
        {
            let Owner { file, epoch, own, seq, is_used, .. } = **owner;
            *self = Packed::Blank { file, epoch, own, seq, is_used };
        }
    }
}

impl Owner {
    /// Whether all but its epoch is as it begins.
    fn is_blank(&self) -> bool {
        self.queue == Queue::default()
            && self.claiming.is_empty()
            && self.copies.is_empty()
            && self.quarantine.is_empty()
            && (self.stage, self.merges) == (Stage::Owns, false)
            && self.stack == Stack::default()
            && self.access == Access::default()
            && self.space == Space::default()
    }
}
