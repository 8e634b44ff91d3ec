//! What the journal says of the slow file, and how that looked when it was seen last.

use crate::fingerprint::Fingerprint;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    /// An `Intent` stands in the journal without a `Closed` after it.
    intent: bool,
    fingerprint: Option<Fingerprint>,
    /// The journal holds a fingerprint with no `Intent` after it.
    fingerprint_stands: bool,
    /// It was not found at the start: nobody has looked at it since the agent before ended.
    unseen: bool,
}

impl Looks {
    /// As a journal leaves it. `unseen`: the slow file was not found.
    pub(crate) fn adopt(intent: bool, fingerprint: Option<Fingerprint>, unseen: bool) -> Looks {
        Looks { intent, fingerprint, fingerprint_stands: fingerprint.is_some(), unseen }
    }

    /// Whether the journal says that the file may be written.
    pub(crate) fn has_intent(&self) -> bool {
        self.intent
    }

    /// How the slow file looked while nobody had it open.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Whether nobody has looked at it since the agent before ended.
    pub(crate) fn is_unseen(&self) -> bool {
        self.unseen
    }

    /// Somebody looks at it.
    pub(crate) fn see(&mut self) {
        self.unseen = false;
    }

    /// It looks like that, and nobody has it open; true if that is news for the journal.
    pub(crate) fn look(&mut self, fingerprint: Fingerprint) -> bool {
        if self.fingerprint == Some(fingerprint) {
            return false;
        }
        self.fingerprint = Some(fingerprint);
        self.fingerprint_stands = true;
        true
    }

    /// Somebody has it open: it may look otherwise at any moment.
    pub(crate) fn forget(&mut self) {
        self.fingerprint = None;
    }

    /// Somebody has it open for writing; true if the journal has to say so. An intent of an agent that died may
    /// stand, with a fingerprint taken since: what is written from now on voids that.
    pub(crate) fn begin_writing(&mut self) -> bool {
        let begins = !self.intent || self.fingerprint_stands;
        self.intent = true;
        self.fingerprint_stands = false;
        begins
    }

    /// Nobody writes it any more.
    pub(crate) fn end_writing(&mut self) {
        self.intent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_told_to_the_journal_once_and_again_after_a_fingerprint() {
        let fingerprint = Fingerprint { size: 1, modified_ns: 2 };
        let mut looks = Looks::default();
        assert!(looks.begin_writing() && !looks.begin_writing() && looks.has_intent());
        assert!(looks.look(fingerprint) && !looks.look(fingerprint));
        assert!(looks.begin_writing(), "the fingerprint is void");
        looks.end_writing();
        assert!(looks.begin_writing());
        let mut adopted = Looks::adopt(true, Some(fingerprint), true);
        assert!(adopted.begin_writing() && adopted.is_unseen());
        adopted.see();
        adopted.forget();
        assert!(!adopted.is_unseen() && adopted.fingerprint().is_none());
    }
}
