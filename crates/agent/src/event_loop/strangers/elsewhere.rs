//! Programs that the library is not in, beside agents of other nodes: while one lives anywhere, nothing is on flash of
//! any node.
//!
//! Who starts one is answered once all members have said that nothing is on flash there. A member that is new to an
//! agent is told how things stand here, so that an agent that begins knows it of all members before anything comes to
//! flash. Of a member that answers nothing for [`STALL`] the answer says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use headstart_cluster::{MemberId, Note};

use crate::event_loop::EventLoop;

use super::{STALL, Strangers, Waiting, Who};

/// How often members that have not answered are asked again: their agents say then that they are there (assumed: often
/// in [`STALL`]).
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Members where some live.
    keep_off: BTreeSet<MemberId>,
    /// Members that have not said whether some do, to an agent that has just begun; none before it knows them.
    unheard: Option<BTreeSet<MemberId>>,
    /// When something last came of each member.
    heard: BTreeMap<MemberId, Instant>,
    /// The last question; the first of an agent is above all of those before it.
    questions: u64,
    asked: Option<Instant>,
}

impl Elsewhere {
    /// Of an agent that had so many before it, and has the directory to itself, or not.
    fn begin(incarnation: u32, alone: bool) -> Elsewhere {
        let unheard = alone.then(BTreeSet::new);
        Elsewhere { unheard, questions: u64::from(incarnation) << 32, ..Elsewhere::default() }
    }

    /// Whether some live on other nodes.
    pub(super) fn live(&self) -> bool {
        !self.keep_off.is_empty()
    }

    /// Whether a member has been silent since `asked`, for too long.
    fn is_silent(&self, member: MemberId, since: Instant) -> bool {
        self.heard.get(&member).map_or(since, |heard| (*heard).max(since)).elapsed() >= STALL
    }
}

impl EventLoop<'_> {
    /// There are others from now on. Of an agent that was not `alone` nothing comes to flash before all have said whether
    /// such programs live there.
    pub(in crate::event_loop) fn begin_beside_others(&mut self, incarnation: u32, alone: bool) {
        self.strangers.elsewhere = Elsewhere::begin(incarnation, alone);
        self.tiers.overlay.await_others(self.tiers.shared.view(), !alone);
    }

    /// A view has shown these members' agents for the first time, and these members in all.
    pub(in crate::event_loop) fn strangers_and_members(&mut self, new: &[MemberId], all: &BTreeSet<MemberId>) {
        for member in new {
            // One that does not know the questions yet is asked each.
            let asked = self.strangers.waiting.iter().filter(|waiting| waiting.members.contains(member));
            let mut questions: Vec<u64> = asked.map(|waiting| waiting.question).collect();
            if questions.is_empty() {
                questions.push(0);
            }
            for question in questions {
                let on = self.strangers.are_here;
                self.tell_member(*member, Note::KeepOff { on, question });
            }
        }
        let strangers = &mut self.strangers;
        let is_over = |waiting: &Waiting| match waiting.who {
            // The next agent asks by itself.
            Who::Member(member, _) => !all.contains(&member) || new.contains(&member),
            Who::Connection(_) => false,
        };
        strangers.waiting.retain(|waiting| !is_over(waiting));
        strangers.waiting.iter_mut().for_each(|waiting| waiting.members.retain(|member| all.contains(member)));
        let elsewhere = &mut strangers.elsewhere;
        elsewhere.keep_off.retain(|member| all.contains(member));
        elsewhere.heard.retain(|member, _| all.contains(member));
        elsewhere.unheard.get_or_insert_with(|| all.clone()).retain(|member| all.contains(member));
        self.may_have_heard_all();
        self.may_come_back();
    }

    fn may_have_heard_all(&mut self) {
        if self.strangers.elsewhere.unheard.as_ref().is_some_and(BTreeSet::is_empty) {
            self.tiers.overlay.await_others(self.tiers.shared.view(), false);
        }
    }

    /// Something has come of a member.
    pub(in crate::event_loop) fn heard_of(&mut self, member: MemberId) {
        self.strangers.elsewhere.heard.insert(member, Instant::now());
    }

    /// Such programs live on another node, or none do any more.
    pub(in crate::event_loop) fn keep_off_for(&mut self, member: MemberId, on: bool, question: u64) {
        let elsewhere = &mut self.strangers.elsewhere;
        if let Some(unheard) = &mut elsewhere.unheard {
            unheard.remove(&member);
        }
        match on {
            true => elsewhere.keep_off.insert(member),
            false => elsewhere.keep_off.remove(&member),
        };
        if on {
            if !self.tiers.overlay.is_kept_off() {
                tracing::info!(node = member.node, "on another node a program starts that the library is not in");
                self.tiers.overlay.keep_off(self.tiers.shared.view(), true);
            }
            let who = (question > 0).then_some(Who::Member(member, question));
            let is_known = who.is_some() && self.strangers.waiting.iter().any(|waiting| Some(waiting.who) == who);
            if !is_known {
                self.take_all_off(who);
            }
        }
        self.may_have_heard_all();
        self.may_come_back();
    }

    /// A member has answered.
    pub(in crate::event_loop) fn is_off(&mut self, member: MemberId, question: u64, problem: &[u8]) {
        let named = String::from_utf8_lossy(problem).into_owned();
        for waiting in self.strangers.waiting.iter_mut().filter(|waiting| waiting.question == question) {
            if waiting.members.remove(&member) && !named.is_empty() {
                waiting.problems.push(named.clone());
            }
        }
    }

    /// Asks all members to keep off; the question, and who is to answer it.
    pub(super) fn ask_others(&mut self) -> (u64, BTreeSet<MemberId>) {
        let elsewhere = &mut self.strangers.elsewhere;
        elsewhere.questions += 1;
        let question = elsewhere.questions;
        elsewhere.asked = Some(Instant::now());
        let members = self.other_members();
        members.iter().for_each(|member| self.tell_member(*member, Note::KeepOff { on: true, question }));
        (question, members)
    }

    /// Asks those again that have not answered, and gives up those that are silent.
    pub(super) fn ask_again(&mut self) {
        let Strangers { waiting, elsewhere, .. } = &mut self.strangers;
        if elsewhere.asked.is_none_or(|asked| asked.elapsed() < ASK_PERIOD) {
            return;
        }
        elsewhere.asked = Some(Instant::now());
        let mut again = Vec::new();
        for waiting in waiting {
            let is_silent = |member: &MemberId| elsewhere.is_silent(*member, waiting.since);
            let silent = waiting.members.iter().filter(|member| is_silent(member));
            waiting.problems.extend(silent.map(|member| format!("node number {} does not answer", member.node)));
            waiting.members.retain(|member| !is_silent(member));
            again.extend(waiting.members.iter().map(|member| (*member, waiting.question)));
        }
        again.into_iter().for_each(|(member, question)| self.tell_member(member, Note::KeepOff { on: true, question }));
    }
}
