//! What the runtime takes: records to append, then work in order, and figures.

use headstart_protocol::counters::Counters;
use headstart_protocol::message::Envelope;

use crate::journal::{Journal, Record};
use crate::output::{Answer, Output};

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    journal: Journal,
    outputs: Vec<Output>,
    /// What happened so far.
    pub(crate) counters: Counters,
}

impl Outbox {
    /// Nothing to do; the journal ends at `journal_end`.
    pub(crate) fn new(journal_end: u64) -> Outbox {
        Outbox { journal: Journal::at(journal_end), outputs: Vec::new(), counters: Counters::default() }
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

    /// Another journal takes this one's place; it ends at `end`.
    pub(crate) fn go_on_at(&mut self, end: u64) {
        self.journal = Journal::at(end);
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
        let mut outbox = Outbox::new(100);
        assert!(outbox.is_empty());
        outbox.append(&Record::Intent { file: 1 });
        outbox.push(Output::SyncJournal);
        outbox.reply(Envelope { slot: 2, seq: 3 }, Answer::Done);
        assert!(!outbox.is_empty());
        let bytes = outbox.take_journal();
        assert_eq!(outbox.journal_end(), 100 + bytes.len() as u64);
        let reply = Output::Reply(Envelope { slot: 2, seq: 3 }, Answer::Done);
        assert_eq!(outbox.take(), [Output::SyncJournal, reply]);
        assert!(outbox.is_empty() && outbox.take().is_empty());
    }
}
