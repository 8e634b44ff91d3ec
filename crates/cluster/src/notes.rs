//! Notes between one agent and all others: each arrives once and in its order, however messages are lost, doubled or
//! overtaken.
//!
//! Notes to a member are numbered, and said again until it has answered; its next agent is told what the one before did
//! not answer. A letter says below which number all were answered: an agent that begins takes those as heard. What is
//! told while too many wait is lost, but for questions; an agent that ends takes what was not answered with it.

use std::collections::{BTreeMap, VecDeque};

use crate::names::{MemberId, Seat};
use crate::note::{Note, Told};
use crate::view::View;

/// Notes about names that wait for one member (assumed: 10 MB of paths for a member that does not answer).
const WAITING_MAX: usize = 1 << 16;
/// About so many bytes go into one letter (assumed: a small part of the transport's longest message).
const LETTER_BYTES: usize = 64 << 10;

/// Another member.
#[derive(Clone, Debug)]
struct Peer {
    seat: Seat,
    /// What it has not answered; the first has the number `answered`.
    waiting: VecDeque<Note>,
    answered: u64,
    /// Notes below this number were said.
    said: u64,
    /// Its own notes below this number were taken.
    heard: u64,
    /// It is to be told so.
    owes: bool,
}

impl Peer {
    fn new(seat: Seat) -> Peer {
        Peer { seat, waiting: VecDeque::new(), answered: 0, said: 0, heard: 0, owes: false }
    }

    fn end(&self) -> u64 {
        self.answered + self.waiting.len() as u64
    }

    /// A letter with the notes from a number on that fit.
    fn letter(&mut self, from: Seat, first: u64) -> Told {
        let mut room = LETTER_BYTES;
        let waiting = self.waiting.iter().skip((first - self.answered) as usize);
        let fits = |note: &&Note| {
            let bytes = size_of::<Note>() + note.text_bytes();
            // One goes in any case.
            let fits = room == LETTER_BYTES || bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let notes: Vec<Note> = waiting.take_while(fits).cloned().collect();
        self.said = self.said.max(first + notes.len() as u64);
        self.owes = false;
        Told { from, to: self.seat, answered: self.answered, first, notes, heard: self.heard }
    }
}

impl Note {
    fn text_bytes(&self) -> usize {
        match self {
            Note::Renamed { old, new, .. } => old.len() + new.len(),
            Note::At { path, .. } | Note::Named { path, .. } => path.len(),
            Note::Off { problem, .. } => problem.len(),
            Note::Unlinked { .. }
            | Note::WhereIs { .. }
            | Note::TimesSet { .. }
            | Note::Stuck { .. }
            | Note::Needs { .. }
            | Note::KeepOff { .. } => 0,
        }
    }

    /// Whether somebody waits for what comes of it.
    fn is_awaited(&self) -> bool {
        matches!(self, Note::KeepOff { .. } | Note::Off { .. })
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Notes {
    me: Seat,
    peers: BTreeMap<MemberId, Peer>,
}

impl Notes {
    /// Of an agent that has told nothing and heard nothing.
    pub fn new(me: Seat) -> Notes {
        Notes { me, peers: BTreeMap::new() }
    }

    /// There is a newer view. The members whose agents are new to this one.
    pub fn on_view(&mut self, view: &View) -> Vec<MemberId> {
        self.peers.retain(|member, _| view.seat(*member).is_some());
        let mut new = Vec::new();
        for seat in view.seats().iter().filter(|seat| seat.member != self.me.member) {
            let peer = self.peers.entry(seat.member).or_insert_with(|| {
                new.push(seat.member);
                Peer::new(*seat)
            });
            if peer.seat != *seat {
                new.push(seat.member);
                // It counts from the beginning again, and knows no more than was answered.
                (peer.seat, peer.heard, peer.owes, peer.said) = (*seat, 0, false, peer.answered);
            }
        }
        new
    }

    /// The member whose notes they are.
    pub fn me(&self) -> MemberId {
        self.me.member
    }

    /// The other members.
    pub fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.peers.keys().copied()
    }

    /// Tells one member; false if that is lost: it has no seat, or answers nothing.
    pub fn tell(&mut self, to: MemberId, note: Note) -> bool {
        let Some(peer) = self.peers.get_mut(&to) else { return false };
        let has_room = peer.waiting.len() < WAITING_MAX || note.is_awaited();
        if has_room {
            peer.waiting.push_back(note);
        }
        has_room
    }

    /// A letter has come: the notes that are new. They are answered with the next letter, so that what they lead to has
    /// to be appended before that is taken. None if one of the two has an older view.
    pub fn on_told(&mut self, told: Told) -> Option<Vec<Note>> {
        let peer = self.peers.get_mut(&told.from.member).filter(|peer| peer.seat == told.from)?;
        if told.to != self.me {
            return None;
        }
        while peer.answered < told.heard && peer.waiting.pop_front().is_some() {
            peer.answered += 1;
        }
        peer.said = peer.said.max(peer.answered);
        // The agent before has heard those.
        peer.heard = peer.heard.max(told.answered);
        peer.owes |= !told.notes.is_empty();
        let end = told.first.saturating_add(told.notes.len() as u64);
        if told.first > peer.heard || end <= peer.heard {
            return Some(Vec::new());
        }
        let known = (peer.heard - told.first) as usize;
        peer.heard = end;
        Some(told.notes.into_iter().skip(known).collect())
    }

    /// What is to be sent: what was not said, and answers; where it is `again` time, also what was not answered.
    pub fn take(&mut self, again: bool) -> Vec<Told> {
        let (me, mut letters) = (self.me, Vec::new());
        for peer in self.peers.values_mut() {
            if again && peer.said > peer.answered {
                letters.push(peer.letter(me, peer.answered));
            }
            while peer.said < peer.end() {
                letters.push(peer.letter(me, peer.said));
            }
            if peer.owes {
                letters.push(peer.letter(me, peer.end()));
            }
        }
        letters
    }

    /// Whether something was not answered.
    pub fn wait(&self) -> bool {
        self.peers.values().any(|peer| !peer.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests;
