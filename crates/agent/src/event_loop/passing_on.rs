//! Commands for another node's agent: passed on to it as letters, as its answers are passed back.
//!
//! An agent obeys for another node what says how things stand, writes bytes back, makes them durable, or ends it. What
//! lasts as long as a connection, or speaks of a process, is its own node's. Each of these may be given twice: where a
//! connection was lost it is, for some seconds, so that an agent that follows another one is waited for.

use std::time::Instant;

use crate::cluster::letter::Letter;
use crate::cluster::roster::Place;
use crate::status::{Answer, Command};

use super::EventLoop;
use super::relayed::{Early, FIRST_RELAYED};

/// Whether an agent does it for another node.
fn is_relayed(command: &Command) -> bool {
    matches!(
        command,
        Command::Status | Command::Examine | Command::Drain { .. } | Command::KeepDirty | Command::Sync | Command::Stop
    )
}

fn refused(error: String) -> Answer {
    Answer::Error { error }
}

impl EventLoop<'_> {
    /// Passes a command on to the node of that name. Its answer comes later, unless it is known at once.
    pub(super) fn pass_on(&mut self, token: u64, node: &str, command: Command) -> Option<Answer> {
        if !is_relayed(&command) {
            return Some(refused(format!("no agent does that for another node: give the command on {node}")));
        }
        let place = match self.cluster.place_of(node) {
            Ok(Some(place)) => place,
            Ok(None) => return self.obey(token, command),
            Err(error) => return Some(refused(error)),
        };
        let text = serde_json::to_vec(&command).expect("a command has a JSON form");
        let number = self.commands.relayed.pass_on(token, place, text.clone());
        if !self.cluster.write_to(place, &Letter::Command { number, text: &text }) {
            self.lost_member(|to| to == place, "it is out of reach");
        }
        None
    }

    /// An agent has sent a command. One that is not known yet has joined since this one looked at the list of nodes.
    pub(super) fn on_command(&mut self, by: Option<Place>, command: Early) {
        if let Some(by) = by {
            return self.obey_member(by, command.number, &command.text);
        }
        self.cluster.look();
        let (peer, number) = (command.peer, command.number);
        if !self.commands.relayed.keep(command) {
            let text = serde_json::to_vec(&refused("its agent is asked for too much at once".into()));
            let text = text.expect("a status has a JSON form");
            self.cluster.answer(peer, &Letter::Obeyed { number, text: &text });
        }
    }

    /// Others are known than before.
    pub(super) fn obey_known(&mut self) {
        for early in self.commands.relayed.take_early() {
            match self.cluster.place_behind(early.peer) {
                Some(by) => self.obey_member(by, early.number, &early.text),
                None => _ = self.commands.relayed.keep(early),
            }
        }
    }

    fn obey_member(&mut self, by: Place, number: u64, text: &[u8]) {
        let token = self.commands.relayed.obey(by, number);
        let answer = match serde_json::from_slice(text) {
            _ if !self.life.serves() => Some(refused("its agent is about to end".into())),
            Ok(command) if is_relayed(&command) => self.obey(token, command),
            Ok(_) => Some(refused("its agent does not do that for another node".into())),
            Err(error) => Some(refused(format!("its agent does not know this command: {error}"))),
        };
        if let Some(answer) = answer {
            self.send_status(token, &answer);
        }
    }

    /// An answer, if it is to a member's command; whether it was.
    pub(super) fn answer_member(&mut self, token: u64, answer: &Answer) -> bool {
        let Some((place, number)) = self.commands.relayed.whose(token) else { return token >= FIRST_RELAYED };
        let text = serde_json::to_vec(answer).expect("a status has a JSON form");
        // Who is out of reach hears of that.
        self.cluster.write_to(place, &Letter::Obeyed { number, text: &text });
        true
    }

    /// A member has answered.
    pub(super) fn on_obeyed(&mut self, by: Place, number: u64, text: &[u8]) {
        let Some(token) = self.commands.relayed.answered(number, by) else { return };
        let answer = match serde_json::from_slice(text) {
            Ok(Answer::Error { error }) => refused(format!("node {}: {error}", self.cluster.name_of(by))),
            Ok(answer) => answer,
            Err(error) => {
                refused(format!("the answer of node {} is not understood: {error}", self.cluster.name_of(by)))
            }
        };
        self.send_status(token, &answer);
    }

    /// Members are out of reach, or their agents of before have ended: what they were told is told again, for a while.
    pub(super) fn lost_member(&mut self, is_lost: impl Fn(Place) -> bool, why: &str) {
        self.commands.relayed.lost(is_lost, why, Instant::now());
        if self.commands.relayed.has_lost() {
            self.cluster.say_again_soon();
        }
    }

    /// Says again what members may not have, and tells those who have waited in vain; whether some still wait.
    pub(super) fn pass_on_again(&mut self) -> bool {
        for (token, place, why) in self.commands.relayed.given_up(Instant::now()) {
            let name = self.cluster.name_of(place);
            let error = format!("node {name} has not answered: {why}; 'headstart cluster status' says how it stands");
            self.send_status(token, &refused(error));
        }
        for (number, place, text) in self.commands.relayed.again() {
            self.cluster.write_to(place, &Letter::Command { number, text });
        }
        self.commands.relayed.has_lost()
    }

    /// A member is in reach: what waited for it goes once more, as nobody knows whether it had arrived.
    pub(super) fn found_member(&mut self, place: Place) {
        for (number, _, text) in self.commands.relayed.again().filter(|(_, to, _)| *to == place) {
            self.cluster.write_to(place, &Letter::Command { number, text });
        }
        self.commands.relayed.found(place);
    }
}
