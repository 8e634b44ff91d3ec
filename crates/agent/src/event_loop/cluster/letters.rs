//! Letters of other nodes and to them, news of connections, and what is said again.

use std::time::Instant;

use headstart_cluster::{Envelope, Told, wire};
use headstart_transport::{Batch, Event};

use crate::cluster::letter::{Answered, Letter};
use crate::cluster::views;
use crate::error::Result;
use crate::event_loop::EventLoop;
use crate::event_loop::relayed::Early;

use super::Part;

impl EventLoop<'_> {
    pub(super) fn say_again(&mut self) -> Result<()> {
        let overlay = &self.tiers.overlay;
        let overlay_waits =
            !overlay.waits_for_members().is_empty() || overlay.has_logs_of_others() || overlay.has_to_say_again();
        if overlay_waits {
            self.tiers.overlay.say_again(self.tiers.shared.view());
        }
        let waits = self.pass_on_again() || overlay_waits;
        if let Some(membership) = &mut self.cluster.0 {
            membership.said = waits.then(Instant::now);
        }
        self.carry_out_all()
    }

    /// Letters, and news of connections.
    pub(in crate::event_loop) fn on_links(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        let Some(door) = self.cluster.0.as_mut().and_then(|membership| membership.door.as_mut()) else {
            return Ok(());
        };
        door.links.turn(&mut batch);
        for (peer, bytes) in batch.messages() {
            let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
            let Some(door) = &mut membership.door else { return Ok(()) };
            if let Some(place) = door.links.place(peer) {
                membership.gone.heard(place);
            }
            match Letter::parse(bytes) {
                Some(Letter::Protocol(message)) => {
                    let Some(envelope) = wire::decode_envelope(message) else {
                        tracing::warn!("a message of another node cannot be understood");
                        continue;
                    };
                    // Who it is the connection says; one that is not known is of a newer view.
                    match door.links.place(peer).map(views::id) {
                        Some(member) if member == envelope.from.member => self.on_peer(envelope)?,
                        Some(_) => tracing::warn!("a message of another node has a third one's name"),
                        None => self.cluster.look(),
                    }
                }
                Some(Letter::Notes(notes)) => {
                    let from = door.links.place(peer).map(views::id);
                    self.on_notes(from, notes)?;
                }
                Some(Letter::Asked(asked)) => {
                    let answer = door.hands.act(asked.act);
                    door.links.answer(peer, &Letter::Answered(Answered { number: asked.number, answer }));
                }
                Some(Letter::Answered(_)) => {}
                Some(Letter::Command { number, text }) => {
                    let by = door.links.place(peer);
                    self.on_command(by, Early { peer, number, text: text.to_vec() });
                }
                Some(Letter::Obeyed { number, text }) => {
                    if let Some(by) = door.links.place(peer) {
                        self.on_obeyed(by, number, text);
                    }
                }
                None => tracing::warn!("a letter of another node cannot be understood"),
            }
        }
        self.on_connections(batch.events())
    }

    pub(super) fn on_peer(&mut self, envelope: Envelope) -> Result<()> {
        if self.cluster.0.as_ref().is_none_or(|membership| membership.part == Part::Alone) {
            self.cluster.look();
            return Ok(());
        }
        if !self.tiers.overlay.on_peer(self.tiers.shared.view(), envelope) {
            self.cluster.look();
        }
        self.end_event()
    }

    pub(super) fn on_connections(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            self.note_reach(event);
            match event {
                Event::Connected(peer, member) => {
                    tracing::info!(node = member.name, "connected");
                    if let Some(place) = self.cluster.door().and_then(|door| door.links.place(*peer)) {
                        self.found_member(place);
                    }
                }
                Event::Lost(peer, text) | Event::Unreachable(peer, text) => {
                    self.commands.relayed.lost_peer(*peer);
                    tracing::info!(text, "a node is out of reach");
                    let lost = self.cluster.door().and_then(|door| door.links.place(*peer));
                    self.lost_member(|to| Some(to) == lost, text);
                }
                Event::Refused(text) => tracing::warn!(text, "a node is not let in"),
            }
        }
        if events.iter().any(|event| matches!(event, Event::Connected(..))) { self.say_again() } else { Ok(()) }
    }

    /// Whether a member is within reach.
    pub(super) fn note_reach(&mut self, event: &Event) {
        let Some(membership) = &mut self.cluster.0 else { return };
        let (Event::Connected(peer, _) | Event::Lost(peer, _) | Event::Unreachable(peer, _)) = event else { return };
        let Some(place) = membership.door.as_ref().and_then(|door| door.links.place(*peer)) else { return };
        match event {
            Event::Connected(..) => membership.gone.heard(place),
            _ => membership.gone.lost(place),
        }
    }

    /// A message of the overlay's; whether it arrives is open, and it is said again.
    pub(in crate::event_loop) fn send_to_member(&mut self, envelope: &Envelope) {
        let Some(membership) = &mut self.cluster.0 else { return };
        membership.said.get_or_insert_with(Instant::now);
        let Some(door) = &mut membership.door else { return };
        let mut bytes = Vec::new();
        wire::encode_envelope(envelope, &mut bytes);
        door.links.send(views::place(envelope.to.member), &Letter::Protocol(&bytes));
    }

    /// A letter of notes.
    pub(in crate::event_loop) fn send_notes(&mut self, told: &Told) {
        let Some(door) = self.cluster.0.as_mut().and_then(|membership| membership.door.as_mut()) else { return };
        let mut bytes = Vec::new();
        wire::encode_told(told, &mut bytes);
        door.links.send(views::place(told.to.member), &Letter::Notes(&bytes));
    }
}
