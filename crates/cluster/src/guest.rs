//! A member's side of one file: who owns it, what its threads may do without asking, what they wait for.

mod index;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use headstart_units::request::Range;

use crate::absence::Absence;
use crate::message::{Answer, Ask, Message, Writers, Writing};
use crate::names::{FileId, Order, RequestId, Seat, Stamp};
use crate::rules::{Rule, kept};
use crate::view::View;

/// All bytes of a file.
pub(crate) const ALL: Range = Range { offset: 0, length: u64::MAX };

/// No bytes: what is said is about none.
pub(crate) const NONE: Range = Range { offset: 0, length: 0 };

/// A thread's request that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) id: RequestId,
    pub(crate) ask: Ask,
}

/// A file. Most of those that are known have an owner or are all absent, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Guest {
    /// The newest that a home or an owner said: nothing older counts.
    stamp: Stamp,
    owner: Option<(Seat, Stamp)>,
    /// Where bits are clear.
    absent: Absence,
    /// None where all of it is as it begins.
    shared: Option<Box<Dealings>>,
}

/// What there is of a file that several members use, or that threads ask about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Dealings {
    /// Number of the last call of this epoch.
    called: u64,
    /// By slot.
    asked: BTreeMap<u32, Asked>,
    /// The last list of threads that write.
    writers: Writers,
    /// A thread on the list has ended since some list.
    ended: bool,
    /// What was ordered before and is not in the log was forgotten.
    floor: Option<Order>,
}

/// Of a file of which there is none.
static NONE_YET: LazyLock<Dealings> = LazyLock::new(Dealings::default);

/// What an agent finds of a file when its bits are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// Threads that still write the slow file.
    pub threads: Vec<Writing>,
    /// Whether programs have it open.
    pub uses: bool,
}

/// What follows from an answer.
pub(crate) enum Told {
    /// Nothing: it is old, or nobody waits for it.
    Nothing,
    /// Ask again: it was overtaken by that call.
    AskAgain(Asked, u64),
    /// Tell the thread, having cleared bits if it is absence.
    Tell(Answer),
}

impl Guest {
    /// A file of which an agent finds bits clear.
    pub(crate) fn found(absent: Vec<Range>) -> Guest {
        let mut guest = Guest::default();
        absent.into_iter().filter(|_| kept(Rule::NoAdoption)).for_each(|range| guest.absent.add(range));
        guest
    }

    fn dealings(&self) -> &Dealings {
        self.shared.as_deref().unwrap_or(&NONE_YET)
    }

    fn dealings_mut(&mut self) -> &mut Dealings {
        self.shared.get_or_insert_default()
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
    pub(crate) fn asked(&self) -> impl Iterator<Item = Asked> {
        self.dealings().asked.values().copied()
    }

    /// Whether any does.
    pub(crate) fn waits(&self) -> bool {
        !self.dealings().asked.is_empty()
    }

    /// Whether bits of all of a range are clear.
    pub(crate) fn is_absent(&self, range: Range) -> bool {
        self.absent.covers(range)
    }

    /// A thread asks.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.dealings_mut().asked.insert(asked.id.slot, asked);
    }

    /// A request is answered. Whether a thread waits for it.
    pub(crate) fn answered(&mut self, id: RequestId) -> Option<Asked> {
        self.dealings().asked.get(&id.slot).filter(|asked| asked.id == id)?;
        self.dealings_mut().asked.remove(&id.slot)
    }

    /// What threads wait for is decided otherwise.
    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.dealings_mut().asked).into_values().collect()
    }

    /// The home says that nobody owns the file. Whether that is news.
    pub(crate) fn on_holds(&mut self, stamp: Stamp) -> bool {
        if (stamp < self.stamp || self.owner.is_some()) && kept(Rule::HoldsOvertaken) {
            return false;
        }
        self.stamp = stamp;
        self.owner = None;
        self.absent.add(ALL);
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
        // What was called in of an epoch stays so, though its owner was not known for a while.
        if self.stamp != epoch
            && let Some(dealings) = &mut self.shared
        {
            dealings.called = 0;
            dealings.ended = false;
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
            self.absent = Absence::Nowhere;
        }
        true
    }

    /// The home says that nobody owns the file of that owner any more, which was this member.
    pub(crate) fn on_released(&mut self, owner: Seat, epoch: Stamp, stamp: Stamp) {
        if self.owner == Some((owner, epoch)) {
            self.owner = None;
        }
        self.stamp = self.stamp.max(stamp);
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
        let dealings = self.dealings_mut();
        dealings.called = dealings.called.max(number);
        self.absent.end(range);
        true
    }

    /// The next list of threads that write.
    pub(crate) fn list(&mut self, found: Found, ended: bool) -> Writers {
        let Found { threads, uses } = found;
        let dealings = self.dealings_mut();
        dealings.writers = Writers { number: dealings.writers.number + 1, threads, uses };
        dealings.ended |= ended;
        dealings.writers.clone()
    }

    /// The list to say again, as an owner waits for threads to end.
    pub(crate) fn last_list(&self) -> Option<&Writers> {
        let dealings = self.dealings();
        dealings.ended.then_some(&dealings.writers)
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
        let read = matches!(answer, Answer::Flash { .. });
        let overtaken = (grant && kept(Rule::GrantOvertaken)) || (read && kept(Rule::ReadOvertaken));
        let called = self.dealings().called;
        if number < called && overtaken {
            self.ask(asked);
            return Told::AskAgain(asked, called);
        }
        if answer == Answer::Absent {
            self.absent.add(range);
        }
        Told::Tell(answer)
    }

    /// An owner has records forgotten: none of this member that was ordered before the floor comes again. Whether it
    /// is the owner.
    pub(crate) fn on_free(&mut self, epoch: Stamp, floor: Order) -> bool {
        let counts = epoch >= self.stamp;
        if counts {
            let dealings = self.dealings_mut();
            dealings.floor = dealings.floor.max(Some(floor));
        }
        counts
    }

    /// Whether a record or a copy that is not in the log was there before.
    pub(crate) fn was_forgotten(&self, order: Order) -> bool {
        self.dealings().floor.is_some_and(|floor| order < floor) && kept(Rule::OrderedAgain)
    }

    /// Whether a record of that epoch may still be appended.
    pub(crate) fn takes(&self, epoch: Stamp) -> bool {
        epoch >= self.stamp || !kept(Rule::NoPromise)
    }

    /// An agent is not in the view any more. Bits stay as they are until somebody claims the file.
    pub(crate) fn on_view(&mut self, view: &View) {
        if self.owner.is_some_and(|(owner, _)| !view.has(owner)) {
            self.owner = None;
        }
    }

    /// What to say to whom, of all that threads wait for: the owner, or the home if nobody is known to own the file.
    pub(crate) fn forward(&self, file: FileId, home: Seat) -> Vec<(Seat, Message)> {
        if let Some((owner, epoch)) = self.owner {
            let called = self.dealings().called;
            let message = |asked: Asked| (owner, Message::Asked(file, epoch, asked.id, called, asked.ask));
            return self.asked().map(message).collect();
        }
        let absorbs = |asked: &Asked| matches!(asked.ask, Ask::Commit { .. });
        match !self.waits() {
            true => Vec::new(),
            false if self.asked().any(|asked| absorbs(&asked)) => vec![(home, Message::Own(file))],
            false => vec![(home, Message::Open(file))],
        }
    }
}
