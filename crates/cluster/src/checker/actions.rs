//! What can happen in a state, and what then is.

use super::explorer::System;
use super::node::{NOW, Node};
use super::rank::Rank;
use super::row::{Alone, Kind, Slip};
use super::world::World;
use crate::names::{FileId, MemberId};
use crate::{Fate, Member};

/// One step. Nodes, files and blocks by number; messages by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A thread begins a request.
    Begin(u8, Kind, u8, u8),
    /// It goes on.
    Step(u8),
    Deliver(usize),
    /// It comes, and will come again.
    Double(usize),
    Lose(usize),
    /// An agent says again what was not answered.
    Again(u8),
    /// An agent looks at the membership service.
    Look(u8),
    LookBegins(u8),
    LookEnds(u8),
    /// Time passes.
    Tick,
    /// An agent has a silent member expelled.
    Accuse(u8, u8),
    /// An agent has the log of a member that leaves cut.
    Cut(u8, u8),
    KillAgent(u8),
    /// Before what it answered last is heard.
    KillAnswering(u8),
    /// A node's next agent begins.
    Restart(u8),
    /// A node that is no member finds that all members are gone, or silent.
    Find(u8),
    /// It goes on in their place.
    TakeOver(u8),
    KillNode(u8),
    /// The owner has a block written back.
    WriteBack(u8, u8, u8),
    /// The kernel call of a node's copy is done.
    Land(u8),
    /// It is, and had read late.
    LandLate(u8),
    /// A member that is gone is known to copy no more.
    Quiet(u8),
    /// The next step of making a slow file longer.
    Lengthen(u8),
    /// An agent wants to own a file.
    Own(u8, u8),
    /// A file leaves a node's flash.
    Leave(u8),
    /// An agent syncs by itself.
    Barrier(u8),
    /// An owner gives a file up.
    GiveUp(u8, u8),
    /// A member goes by its own word.
    Depart(u8),
    /// An agent takes the log of a member that is out, which nobody needs, out of the view.
    Dismiss(u8, u8),
}

const KINDS: [Kind; 4] = [Kind::Absorb, Kind::Direct, Kind::Read, Kind::Sync];

impl System for World {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for node in 0..self.row.members {
            self.of_thread(node, &mut actions);
            self.of_agent(node, &mut actions);
            self.faults(node, &mut actions);
            self.of_gone(node, &mut actions);
        }
        for at in 0..self.net.len() {
            self.of_message(at, &mut actions);
        }
        let ages =
            |node: &Node| node.deadline > NOW || node.agent.as_ref().is_some_and(|agent| agent.leaving_ages(NOW));
        if self.row.timed && self.nodes.iter().any(|node| !node.get().is_off() && ages(node.get())) {
            actions.push(Action::Tick);
        }
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Begin(node, kind, file, block) => self.begin(node, kind, file, block),
            Action::Step(node) => self.step(node)?,
            Action::Deliver(at) => self.deliver(at, false),
            Action::Double(at) => {
                self.left.doubles -= 1;
                self.deliver(at, true);
            }
            Action::Lose(at) => {
                self.left.losses -= 1;
                self.net.remove(at);
            }
            Action::Again(node) => self.agent(node, Member::again),
            Action::Look(node) => self.look(node, NOW, self.view.clone()),
            Action::TakeOver(node) => self.take_over(node),
            Action::LookBegins(node) | Action::Find(node) => {
                let view = self.view.clone();
                self.change(node, |node| node.looking = Some((NOW, view)));
            }
            Action::LookEnds(node) => {
                if let Some((started, view)) = self.change(node, |node| node.looking.take()) {
                    self.look(node, started, view);
                }
            }
            Action::Tick => self.tick(),
            Action::Accuse(_, silent) => self.accuse(silent),
            Action::Cut(_, gone) => self.cut(gone),
            Action::KillAgent(node) => self.kill_agent(node),
            Action::KillAnswering(node) => self.kill_answering(node),
            Action::Restart(node) => self.restart(node),
            Action::KillNode(node) => self.kill_node(node),
            Action::WriteBack(node, file, block) => {
                self.left.backs -= 1;
                self.agent(node, |agent| {
                    agent.write_back(FileId(u64::from(file)), World::range(block));
                });
            }
            Action::Land(node) => self.land(node, false),
            Action::LandLate(node) => self.land(node, true),
            Action::Lengthen(node) => self.lengthen(node),
            Action::Own(node, file) => {
                self.left.owns -= 1;
                self.agent(node, |agent| agent.own(FileId(u64::from(file))));
            }
            Action::Leave(node) => self.leave(node),
            Action::Barrier(node) => {
                self.left.barriers -= 1;
                self.barrier(node);
            }
            Action::GiveUp(node, file) => {
                self.left.releases -= 1;
                self.agent(node, |agent| {
                    agent.give_up(FileId(u64::from(file)));
                });
            }
            Action::Depart(node) => self.depart(node),
            Action::Dismiss(_, gone) => self.dismiss(gone),
            Action::Quiet(gone) => {
                let member = self.node(gone).member();
                if let Some(view) = self.view.quieted(member) {
                    self.set_view(view);
                }
            }
        }
        self.purge();
        self.in_step()?;
        self.one_owner()?;
        self.one_record_a_place()
    }

    fn is_helpful(&self, action: Action) -> bool {
        match action {
            Action::Begin(..)
            | Action::Double(_)
            | Action::Lose(_)
            | Action::KillAgent(_)
            | Action::KillAnswering(_)
            | Action::KillNode(_) => false,
            Action::WriteBack(..) | Action::Own(..) | Action::Barrier(_) | Action::GiveUp(..) => false,
            Action::Depart(_) | Action::Dismiss(..) => false,
            // That a member is expelled must not be what helps others to end, unless nobody is there.
            Action::Accuse(_, silent) => self.node(silent).agent.is_none(),
            Action::Find(_) => self.seated().all(|node| self.node(node).agent.is_none()),
            Action::TakeOver(by) => {
                let found = self.node(by).looking.as_ref().map(|(_, view)| view.number());
                found != Some(self.view.number()) || self.seated().all(|node| self.node(node).agent.is_none())
            }
            _ => true,
        }
    }

    fn is_over(&self) -> bool {
        self.nodes.iter().map(super::shared::Shared::get).all(|node| {
            node.is_off()
                || (matches!(node.rank, Rank::Idle | Rank::Failed)
                    && node.movers.is_empty()
                    && node.lengthening.is_empty()
                    && (node.agent.is_some()))
        })
    }
}

impl World {
    /// The agent dies while its answer is on its way: its thread asks the next one.
    fn kill_answering(&mut self, node: u8) {
        if let Rank::Ends { op, asked: Some((id, ask)), .. } = self.node(node).rank {
            self.set(node, Rank::Asks { op, id, ask });
        }
        self.kill_agent(node);
    }

    fn of_thread(&self, number: u8, actions: &mut Vec<Action>) {
        let node = self.node(number);
        if node.is_off() {
            return;
        }
        let valid = !self.row.timed || node.is_valid() || self.slips(Slip::NoDeadline);
        if node.rank == Rank::Idle && valid && !node.expelled {
            let has_place = |kind: Kind| kind != Kind::Absorb || node.free_place().is_some();
            let may = |kind: &Kind| self.has_left(*kind) && (self.row.may)(number, *kind) && has_place(*kind);
            for kind in KINDS.into_iter().filter(may) {
                for file in 0..self.row.files {
                    let blocks = if kind == Kind::Sync { 1 } else { self.row.blocks };
                    actions.extend((0..blocks).map(|block| Action::Begin(number, kind, file, block)));
                }
            }
        }
        let goes = match node.rank {
            Rank::Idle | Rank::Failed | Rank::Asks { .. } | Rank::Pings { .. } => false,
            Rank::Look(_) | Rank::Ends { .. } => valid,
            // The agent ends it.
            Rank::Direct { landed: true, by_owner: false, .. } => node.agent.is_some(),
            // An fsync is the agent's to answer.
            Rank::Syncs(_) => node.agent.is_some(),
            _ => true,
        };
        actions.extend(goes.then_some(Action::Step(number)));
        if !node.lengthening.is_empty() {
            actions.push(Action::Lengthen(number));
        }
        if let Some(mover) = node.movers.first() {
            actions.push(Action::Land(number));
            if !mover.landed && self.read_flash(mover.from) != mover.value {
                actions.push(Action::LandLate(number));
            }
        }
    }

    fn has_left(&self, kind: Kind) -> bool {
        match kind {
            Kind::Absorb => self.left.absorbs > 0,
            Kind::Direct => self.left.directs > 0,
            Kind::Read => self.left.reads > 0,
            Kind::Sync => self.left.syncs > 0,
        }
    }

    fn of_agent(&self, number: u8, actions: &mut Vec<Action>) {
        let node = self.node(number);
        if node.is_off() {
            return;
        }
        let Some(agent) = node.agent.as_ref() else {
            // A kernel call of the agent before ends first.
            let ended = node.lengthening.is_empty() || self.slips(Slip::LengthenLate);
            if self.is_newcomer(number) {
                return self.of_newcomer(number, actions);
            }
            actions.extend(ended.then_some(Action::Restart(number)));
            return;
        };
        if node.expelled {
            return;
        }
        let stale = agent.view().number() < self.view.number();
        // Who is alone looks whether others came.
        let is_due =
            if node.unarmed { self.view.number() > 1 } else { stale || (self.row.timed && node.deadline == NOW) };
        if is_due {
            if self.row.slow_looks {
                actions.push(if node.looking.is_some() {
                    Action::LookEnds(number)
                } else {
                    Action::LookBegins(number)
                });
            } else {
                actions.push(Action::Look(number));
            }
        }
        // What was said again while the first of it is under way is what `Double` brings.
        if self.net.is_empty() && !stale && agent.waits() {
            actions.push(Action::Again(number));
        }
        if self.row.alone == Alone::Leaves {
            let unowned = |file: &u8| agent.owner_of(FileId(u64::from(*file))).is_none();
            if self.left.owns > 0 && !stale && (self.row.may)(number, Kind::Absorb) {
                actions.extend((0..self.row.files).filter(unowned).map(|file| Action::Own(number, file)));
            }
            actions.extend(self.may_leave(number).then_some(Action::Leave(number)));
        }
        if self.left.backs > 0 {
            for file in (0..self.row.files).filter(|file| agent.owns(FileId(u64::from(*file)))) {
                actions.extend((0..self.row.blocks).map(|block| Action::WriteBack(number, file, block)));
            }
        }
        self.of_space(number, agent, actions);
        if stale {
            return;
        }
        let waits = agent.waits_for();
        for other in (0..self.row.members).filter(|other| *other != number) {
            let seated = self.view.seat(self.node(other).member()).is_some();
            let may = self.may_be_left_out(other) || (self.node(other).agent.is_none() && !self.node(other).unarmed);
            // That a node is dead may be known otherwise.
            let seen = self.node(other).is_off() && (self.row.joins || self.row.budget.dismissals > 0);
            let awaited = seen || waits.contains(&self.node(other).member());
            if seated && may && self.row.timed && awaited {
                actions.push(Action::Accuse(number, other));
            }
        }
        actions.extend(agent.over(NOW).into_iter().map(|member| Action::Cut(number, member.node as u8)));
    }

    /// Whether a member may be left out that is silent: its threads have a deadline, or its node is known to be gone.
    fn may_be_left_out(&self, node: u8) -> bool {
        let has_deadline = !self.node(node).unarmed || self.slips(Slip::LeftUnarmed);
        let may_be_silent = self.left.expels > 0 && self.row.victims.1 & (1 << node) != 0;
        self.node(node).is_off() || (may_be_silent && has_deadline)
    }

    /// A node that was never a member joins those that live, or goes on where none does.
    fn of_newcomer(&self, number: u8, actions: &mut Vec<Action>) {
        if self.node(number).looking.is_some() {
            return actions.push(Action::TakeOver(number));
        }
        if self.seated().all(|node| self.may_be_left_out(node)) {
            actions.push(Action::Find(number));
        }
        if self.seated().any(|node| self.node(node).agent.is_some()) {
            actions.push(Action::Restart(number));
        }
    }

    /// What no request waits for.
    fn of_space(&self, number: u8, agent: &Member, actions: &mut Vec<Action>) {
        let node = self.node(number);
        if self.left.barriers > 0 && agent.log().end() > node.durable {
            actions.push(Action::Barrier(number));
        }
        if self.left.releases > 0 {
            for file in (0..self.row.files).filter(|file| agent.owns(FileId(u64::from(*file)))) {
                actions.push(Action::GiveUp(number, file));
            }
        }
        if self.left.departures > 0 && node.rank == Rank::Idle && node.movers.is_empty() && node.is_valid() {
            actions.push(Action::Depart(number));
        }
        if self.left.dismissals > 0 && agent.view().number() == self.view.number() {
            let may = |member: &MemberId| self.view.dismissed(*member).is_some();
            let gone = agent.emptied().into_iter().filter(may);
            actions.extend(gone.map(|member| Action::Dismiss(number, member.node as u8)));
        }
    }

    fn faults(&self, number: u8, actions: &mut Vec<Action>) {
        let node = self.node(number);
        if node.is_off() {
            return;
        }
        if self.left.agents > 0 && self.row.victims.0 & (1 << number) != 0 && node.agent.is_some() && !node.expelled {
            actions.push(Action::KillAgent(number));
            if let Rank::Ends { asked: Some(_), .. } = node.rank {
                actions.push(Action::KillAnswering(number));
            }
        }
        if self.left.nodes > 0 && self.row.victims.0 & (1 << number) != 0 {
            actions.push(Action::KillNode(number));
        }
    }

    /// A member that is out copies no more.
    fn of_gone(&self, number: u8, actions: &mut Vec<Action>) {
        let node = self.node(number);
        let fate = self.view.fate(node.member());
        let quiet = (node.expelled || node.is_off()) && node.movers.is_empty() || self.slips(Slip::QuietEarly);
        let matters = self.row.budget.backs > 0 || self.row.budget.dismissals > 0;
        if fate == Fate::Out && quiet && self.view.may_land(node.member()) && matters {
            actions.push(Action::Quiet(number));
        }
    }

    fn of_message(&self, at: usize, actions: &mut Vec<Action>) {
        let envelope = self.net[at].get();
        let agent = self.node(envelope.to.member.node as u8).agent.as_ref();
        if agent.is_some_and(|agent| agent.view().number() >= envelope.view) {
            actions.push(Action::Deliver(at));
            if self.left.doubles > 0 {
                actions.push(Action::Double(at));
            }
        }
        if self.left.losses > 0 {
            actions.push(Action::Lose(at));
        }
    }
}
