//! What the runtime takes: records to append, then work in order, and figures.

use headstart_protocol::counters::Counters;
use headstart_protocol::message::Envelope;

use headstart_cluster::MemberId;

use crate::journal::{Journal, Record};
use crate::output::{Answer, Output};

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    journal: Journal,
    /// Whose it is.
    member: MemberId,
    outputs: Vec<Output>,
    /// What happened so far.
    pub(crate) counters: Counters,
}

impl Outbox {
    /// Nothing to do; the journal ends at `journal_end`.
    pub(crate) fn new(journal_end: u64, member: MemberId) -> Outbox {
        Outbox { journal: Journal::at(journal_end), member, outputs: Vec::new(), counters: Counters::default() }
    }

    /// Whose journal it is.
    pub(crate) fn member(&self) -> MemberId {
        self.member
    }

    /// A record to append before any output is carried out.
    pub(crate) fn append(&mut self, record: &Record) {
        self.journal.append(record);
    }

    /// Work to carry out after what was left before.
    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// An answer to send after that.
    pub(crate) fn reply(&mut self, envelope: Envelope, answer: Answer) {
        self.push(Output::Reply(envelope, answer));
    }

    /// Hands the work over.
    pub(crate) fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Hands the records' bytes over.
    pub(crate) fn take_journal(&mut self) -> Vec<u8> {
        self.journal.take()
    }

    /// Position of the journal's end.
    pub(crate) fn journal_end(&self) -> u64 {
        self.journal.end()
    }

    /// A journal at `start` that is to take this one's place, and first says whose it is and what was before.
    pub(crate) fn begin_journal(&self, start: u64) -> Journal {
        let before = self.journal.appended_ever();
        let mut journal = Journal::behind(start, before);
        journal.append(&Record::Origin { member: self.member, before });
        journal
    }

    /// Another journal takes this one's place, whose bytes are on their way.
    pub(crate) fn go_on_with(&mut self, journal: &Journal) {
        self.journal = Journal::behind(journal.end(), journal.appended_ever());
    }

    /// Whether everything was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.journal.is_taken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_handed_over_once_and_in_order_and_the_journal_goes_on_where_it_ended() {
        let mut outbox = Outbox::new(100, MemberId { node: 2, life: 1 });
        assert!(outbox.is_empty());
        outbox.append(&Record::Intent { file: 1 });
        outbox.push(Output::SyncJournal);
        outbox.reply(Envelope { slot: 2, seq: 3 }, Answer::Done);
        assert!(!outbox.is_empty());
        let bytes = outbox.take_journal();
        assert_eq!(outbox.journal_end(), 100 + bytes.len() as u64);
        let mut next = outbox.begin_journal(36);
        let behind = next.appended_ever();
        assert_eq!(behind, outbox.journal.appended_ever() + next.take().len() as u64, "for others positions rise");
        outbox.go_on_with(&next);
        assert_eq!((outbox.journal_end(), outbox.journal.appended_ever()), (next.end(), behind));
        let reply = Output::Reply(Envelope { slot: 2, seq: 3 }, Answer::Done);
        assert_eq!(outbox.take(), [Output::SyncJournal, reply]);
        assert!(outbox.is_empty() && outbox.take().is_empty());
    }
}
