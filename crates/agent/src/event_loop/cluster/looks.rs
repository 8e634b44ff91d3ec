//! What the register says, and what is to be swapped in: looks, rosters, views, this member's own record.

use std::sync::Arc;
use std::time::Instant;

use headstart_membership::{Answer, Swap, Value, now_ns};
use headstart_units::Nanos;

use crate::cluster::entry::roster_in;
use crate::cluster::views;
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;

use super::{Part, TELL_PERIOD};

impl EventLoop<'_> {
    /// The register has answered.
    pub(in crate::event_loop) fn on_register(&mut self) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        for answer in membership.service.collect() {
            match answer {
                Answer::Read(result) => {
                    if let Some(membership) = &mut self.cluster.0 {
                        membership.looks = false;
                    }
                    self.looked(result)?;
                }
                Answer::Swapped(_, result) => {
                    if let Some(membership) = &mut self.cluster.0 {
                        membership.swaps = false;
                        membership.gone.swapped();
                    }
                    self.looked(result.map(|swap| match swap {
                        Swap::Done(value) | Swap::Lost(value) => value,
                    }))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn looked(&mut self, result: headstart_membership::Result<Value>) -> Result<()> {
        match result {
            Ok(value) => self.take_roster(&value)?,
            Err(error) => {
                let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
                if membership.trouble.is_none_or(|told| told.elapsed() >= TELL_PERIOD) {
                    tracing::warn!(%error, "the list of this directory's nodes could not be looked at or changed");
                    membership.trouble = Some(Instant::now());
                }
            }
        }
        self.keep_own_record();
        Ok(())
    }

    pub(super) fn take_roster(&mut self, value: &Value) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        if value.version > membership.version {
            let Some(roster) = roster_in(value)? else { return Ok(()) };
            (membership.roster, membership.version) = (roster, value.version);
            self.forget_dismissed();
        }
        let Some(membership) = &self.cluster.0 else { return Ok(()) };
        let is_seated = membership.roster.at(membership.place).is_some_and(|own| own.is_seated());
        if !is_seated {
            return self.expelled();
        }
        let is_wanted = membership.roster.knocking().next().is_some() || !membership.roster.view.is_empty();
        if is_wanted && membership.door.is_none() {
            self.open_door()?;
        }
        self.know_members();
        self.take_view(value)
    }

    /// The overlay takes the view that a look has shown.
    pub(super) fn take_view(&mut self, value: &Value) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        let view = views::of(&membership.roster).map_err(|problem| Error::Roster { problem })?;
        // One that has its agent of before is not this one's yet.
        let Some(view) = view.filter(|view| view.seats().contains(&membership.seat())) else { return Ok(()) };
        if membership.part == Part::Alone {
            self.join(true);
        }
        let (began, now) = (Nanos(value.began_ns), Nanos(now_ns()));
        let view = Arc::new(view);
        self.tiers.overlay.on_view(self.tiers.shared.view(), began, now, Arc::clone(&view));
        self.notes_on_view(&view);
        self.carry_out_all()
    }

    /// Swaps in what others have to know of this member.
    pub(super) fn keep_own_record(&mut self) {
        let Some(membership) = &mut self.cluster.0 else { return };
        if membership.swaps || !self.life.serves() {
            return;
        }
        if let Some(roster) = membership.wanted() {
            membership.service.ask_swap(membership.version, roster.to_bytes());
            membership.swaps = true;
        }
    }
}
