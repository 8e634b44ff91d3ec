//! A file that one member uses: its owner has claimed it from all others, and keeps the claim to itself back. Until it
//! makes it, it answers nobody, and its own threads go on by the rules of one node: what they record is in its log,
//! what they write is in its slots, and both are in its answer when it claims the file from itself at last. That is a
//! claim that is under way for long, no more.

use crate::log::Logged;
use crate::message::Message;
use crate::names::MemberId;
use crate::owner::{Mail, Owner};
use crate::record::Entry;
use crate::rules::{Rule, kept};

/// The owner's claim to its own member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnClaim {
    /// It is made as all others.
    Made,
    /// It is kept back, and others have not answered theirs.
    KeptBack,
    /// It is kept back, and nobody else has anything of the file.
    Alone,
}

impl Owner {
    /// Keeps the claim to its own member back.
    pub(crate) fn keep_back(&mut self, me: MemberId) {
        self.claiming.remove(&me);
        self.own = OwnClaim::KeptBack;
    }

    /// Claims the file from its own member as well.
    pub(crate) fn wake(&mut self, me: MemberId, mail: &mut Mail) {
        if self.own != OwnClaim::Made {
            self.own = OwnClaim::Made;
            self.claiming.insert(me);
            mail.push((me, Message::Claim(self.file, self.epoch)));
        }
    }

    /// Once all others have answered: whether its member has the file to itself from now on. Where others use it, where
    /// their logs have records or their threads write, where others have asked, or where the own log has ordered records
    /// (`logged`), it claims it from its own member as well.
    pub(crate) fn settle_own(&mut self, me: MemberId, logged: bool, mail: &mut Mail) -> bool {
        if self.own != OwnClaim::KeptBack {
            return false;
        }
        let answered = (self.claiming.is_empty() && !self.merges) || !kept(Rule::AloneEarly);
        if !answered {
            return false;
        }
        let written = self.access.any_writers() && kept(Rule::AloneWriters);
        if written || logged || !self.stack.is_empty() || self.is_used || !self.queue.is_empty() {
            self.wake(me, mail);
            return false;
        }
        self.own = OwnClaim::Alone;
        true
    }

    /// Its count goes on behind what its own member has recorded of this epoch.
    pub(super) fn go_on_behind(&mut self, log: &[Logged]) {
        for logged in log {
            if let Entry::Record(record) = logged.entry
                && record.order.epoch == self.epoch
            {
                self.seq = self.seq.max(record.order.seq);
            }
        }
    }
}
