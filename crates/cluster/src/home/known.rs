//! What a home knows of one file: its owner, or who holds it. One word each where one member alone uses it.

use std::collections::BTreeSet;

use crate::names::{MemberId, Seat, Stamp};

/// A file, as far as its home knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    holders: Holders,
    named: Option<Box<Named>>,
    /// Logs have records of it.
    pub(super) logged: bool,
}

/// Who holds absence; equal members are equal values. The box is a word less for each file that one member holds.
#[allow(clippy::box_collection)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Holders {
    #[default]
    Nobody,
    One(MemberId),
    Several(Box<BTreeSet<MemberId>>),
}

/// Its owner, and who had to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Named {
    pub(super) owner: Seat,
    pub(super) epoch: Stamp,
    pub(super) ask: Vec<MemberId>,
    pub(super) logged: bool,
}

impl Holders {
    fn of(mut members: BTreeSet<MemberId>) -> Holders {
        match (members.len(), members.pop_first()) {
            (1, Some(member)) => Holders::One(member),
            (_, Some(member)) => {
                members.insert(member);
                Holders::Several(Box::new(members))
            }
            (_, None) => Holders::Nobody,
        }
    }

    fn take(&mut self) -> BTreeSet<MemberId> {
        match std::mem::take(self) {
            Holders::Nobody => BTreeSet::new(),
            Holders::One(member) => BTreeSet::from([member]),
            Holders::Several(members) => *members,
        }
    }
}

impl Known {
    /// Its owner, if it has one.
    pub(super) fn named(&self) -> Option<&Named> {
        self.named.as_deref()
    }

    /// It has one from now on.
    pub(super) fn name(&mut self, named: Named) {
        self.named = Some(Box::new(named));
    }

    /// Its owner is gone.
    pub(super) fn lose_owner(&mut self) {
        self.named = None;
        self.logged = true;
    }

    /// A member holds it.
    pub(super) fn hold(&mut self, member: MemberId) {
        match &mut self.holders {
            Holders::Several(members) => {
                members.insert(member);
            }
            holders => {
                let mut members = holders.take();
                members.insert(member);
                *holders = Holders::of(members);
            }
        }
    }

    /// Nobody holds it any more; those that did.
    pub(super) fn take_holders(&mut self) -> Vec<MemberId> {
        self.holders.take().into_iter().collect()
    }

    /// Only these members are left.
    pub(super) fn forget_members(&mut self, stays: impl Fn(MemberId) -> bool) {
        let mut members = self.holders.take();
        members.retain(|member| stays(*member));
        self.holders = Holders::of(members);
        if let Some(named) = &mut self.named {
            named.ask.retain(|member| stays(*member));
        }
    }
}
