//! A member's side of one file: who owns it, what its threads may do without asking, what they wait for.

use headstart_units::request::Range;

use crate::message::{Answer, Ask, Message, Writers, Writing};
use crate::names::{FileId, RequestId, Seat, Stamp};
use crate::rules::{Rule, kept};

/// All bytes of a file.
pub(crate) const ALL: Range = Range { offset: 0, length: u64::MAX };

/// A thread's request that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) id: RequestId,
    pub(crate) ask: Ask,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Guest {
    /// The newest that a home or an owner said: nothing older counts.
    stamp: Stamp,
    owner: Option<(Seat, Stamp)>,
    /// Where bits are clear.
    absent: Vec<Range>,
    /// Number of the last call of this epoch.
    called: u64,
    asked: Vec<Asked>,
    /// The last list of threads that write.
    writers: Writers,
    /// A thread on the list has ended since some list.
    ended: bool,
}

/// What follows from an answer.
pub(crate) enum Told {
    /// Nothing: it is old, or nobody waits for it.
    Nothing,
    /// Ask again: it was overtaken.
    AskAgain(Asked),
    /// Tell the thread, having cleared bits if it is absence.
    Tell(Answer),
}

impl Guest {
    /// A file of which an agent finds bits clear.
    pub(crate) fn found(absent: Vec<Range>) -> Guest {
        Guest { absent: if kept(Rule::NoAdoption) { absent } else { Vec::new() }, ..Guest::default() }
    }

    /// Its owner, if it is known.
    pub(crate) fn owner(&self) -> Option<(Seat, Stamp)> {
        self.owner
    }

    /// Whether threads may touch the slow file without asking, and no living owner knows.
    pub(crate) fn holds_alone(&self) -> bool {
        self.owner.is_none() && !self.absent.is_empty()
    }

    /// What threads wait for.
    pub(crate) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Whether bits of all of a range are clear.
    pub(crate) fn is_absent(&self, range: Range) -> bool {
        self.absent.iter().any(|absent| absent.contains(range))
    }

    /// A thread asks.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.asked.retain(|other| other.id.slot != asked.id.slot);
        self.asked.push(asked);
    }

    /// A request is answered. Whether a thread waits for it.
    pub(crate) fn answered(&mut self, id: RequestId) -> Option<Asked> {
        let at = self.asked.iter().position(|asked| asked.id == id)?;
        Some(self.asked.remove(at))
    }

    /// The home says that nobody owns the file. Whether that is news.
    pub(crate) fn on_holds(&mut self, stamp: Stamp) -> bool {
        if (stamp < self.stamp || self.owner.is_some()) && kept(Rule::HoldsOvertaken) {
            return false;
        }
        self.stamp = stamp;
        self.owner = None;
        self.absent = vec![ALL];
        true
    }

    /// The home says who owns it. Whether that is news.
    pub(crate) fn on_owned(&mut self, owner: Seat, epoch: Stamp) -> bool {
        if epoch < self.stamp || self.owner == Some((owner, epoch)) {
            return false;
        }
        self.own(owner, epoch);
        true
    }

    fn own(&mut self, owner: Seat, epoch: Stamp) {
        if self.owner.is_none_or(|(_, before)| before != epoch) {
            self.called = 0;
            self.ended = false;
        }
        self.owner = Some((owner, epoch));
        self.stamp = epoch;
    }

    /// An owner claims the file: from now on nothing older counts. Whether it is not older itself.
    pub(crate) fn on_claim(&mut self, owner: Seat, epoch: Stamp) -> bool {
        if epoch < self.stamp {
            return false;
        }
        self.own(owner, epoch);
        if kept(Rule::ClaimNoBits) {
            self.absent.clear();
        }
        true
    }

    /// A member says that it does not own the file.
    pub(crate) fn on_not_mine(&mut self, from: Seat, epoch: Stamp) {
        if self.owner == Some((from, epoch)) && kept(Rule::NotMine) {
            self.owner = None;
        }
    }

    /// An owner calls a range in. Whether it is the owner.
    pub(crate) fn on_call(&mut self, owner: Seat, epoch: Stamp, number: u64, range: Range) -> bool {
        if epoch < self.stamp {
            return false;
        }
        self.own(owner, epoch);
        self.called = self.called.max(number);
        let before = std::mem::take(&mut self.absent);
        let parts = before.iter().flat_map(|absent| {
            let cut = Range::between(absent.offset, absent.end().min(range.offset));
            [cut, Range::between(absent.offset.max(range.end()), absent.end())]
        });
        self.absent = parts.filter(|part| !part.is_empty()).collect();
        true
    }

    /// The next list of threads that write.
    pub(crate) fn list(&mut self, threads: Vec<Writing>, ended: bool) -> Writers {
        self.writers = Writers { number: self.writers.number + 1, threads };
        self.ended |= ended;
        self.writers.clone()
    }

    /// The list to say again, as an owner waits for threads to end.
    pub(crate) fn last_list(&self) -> Option<&Writers> {
        self.ended.then_some(&self.writers)
    }

    /// An owner answers.
    pub(crate) fn on_answered(
        &mut self,
        epoch: Stamp,
        id: RequestId,
        number: u64,
        range: Range,
        answer: Answer,
    ) -> Told {
        if epoch < self.stamp {
            return Told::Nothing;
        }
        let Some(asked) = self.answered(id) else {
            return Told::Nothing;
        };
        let grant = matches!(answer, Answer::Absent | Answer::Disk { .. });
        if grant && number < self.called && kept(Rule::GrantOvertaken) {
            self.asked.push(asked);
            return Told::AskAgain(asked);
        }
        if answer == Answer::Absent && !self.is_absent(range) {
            self.absent.push(range);
            self.absent.sort_unstable();
        }
        Told::Tell(answer)
    }

    /// Whether a record of that epoch may still be appended.
    pub(crate) fn takes(&self, epoch: Stamp) -> bool {
        epoch >= self.stamp || !kept(Rule::NoPromise)
    }

    /// An agent is not in the view any more. Bits stay as they are until somebody claims the file.
    pub(crate) fn on_view(&mut self, seats: &[Seat]) {
        if self.owner.is_some_and(|(owner, _)| !seats.contains(&owner)) {
            self.owner = None;
        }
    }

    /// What to say to whom, of all that threads wait for: the owner, or the home if nobody is known to own the file.
    pub(crate) fn forward(&self, file: FileId, home: Seat) -> Vec<(Seat, Message)> {
        if let Some((owner, epoch)) = self.owner {
            return self.asked.iter().map(|asked| (owner, Message::Asked(file, epoch, asked.id, asked.ask))).collect();
        }
        let absorbs = |asked: &Asked| matches!(asked.ask, Ask::Commit { .. });
        match self.asked.is_empty() {
            true => Vec::new(),
            false if self.asked.iter().any(absorbs) => vec![(home, Message::Own(file))],
            false => vec![(home, Message::Open(file))],
        }
    }
}
