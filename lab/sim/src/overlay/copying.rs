//! Copies of agents: transfers on the tiers, one after the other.

use headstart_model::request::Operation;
use headstart_overlay::CopyKind;
use headstart_units::request::Range;

use super::agent::Copy;
use super::driving::own_order;
use crate::check::{Event as Check, Space, Spot};
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::simulation::Simulation;
use crate::tier::TierName;

impl Simulation<'_> {
    /// [`Event::Copy`].
    pub(crate) fn begin_copy(&mut self, number: u32) {
        self.continue_copy(number);
    }

    /// Starts a copy's next transfer; false if it has none.
    fn continue_copy(&mut self, number: u32) -> bool {
        let now = self.now;
        let Client::Overlay(site) = &self.client else { unreachable!("only the overlay copies") };
        let copy = &site.copies[number];
        let agent = &site.agents[copy.agent as usize];
        let Copy { order, step, node, .. } = copy;
        let (range, runs) = (order.range, copy.runs.len());
        let on_disk = match order.kind {
            CopyKind::Fetch => *step == 0,
            CopyKind::WriteBack => *step == runs,
        };
        if *step > runs {
            return false;
        }
        let reads = on_disk == (order.kind == CopyKind::Fetch);
        let operation = if reads { Operation::Read } else { Operation::Write };
        let (node, file) = (*node, order.file);
        let run = (!on_disk).then(|| copy.run(step - usize::from(order.kind == CopyKind::Fetch)));
        let (tier, place, offset, length) = match run {
            Some(run) => {
                let length = run.iter().map(|piece| piece.range.length).sum();
                (TierName::Flash, agent.lot.data_place(run[0].data_file), run[0].place, length)
            }
            None => {
                let file = agent.file_of(file) as usize;
                (TierName::Disk, self.files[file].place, range.offset, range.length)
            }
        };
        let order = Order { tier, operation, ..own_order(Owner::Copy(number), node, number) };
        self.fabric.start(now, &mut self.queue, order, place, Range::new(offset, length));
        true
    }

    /// A copy's transfer is done.
    pub(crate) fn on_copy_moved(&mut self, number: u32) {
        if self.checker.is_some() {
            self.tell_copy(number);
        }
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay copies") };
        let copy = &mut site.copies[number];
        copy.step += 1;
        let (agent, id) = (copy.agent, copy.order.id);
        if self.continue_copy(number) {
            return;
        }
        if let Client::Overlay(site) = &mut self.client {
            site.copies.remove(number);
        }
        self.verb(agent, |agent, _| {
            agent.copies -= 1;
            agent.overlay.on_copy_done(agent.memory.view(), id, Ok(()));
        });
    }

    fn tell_copy(&mut self, number: u32) {
        let Client::Overlay(site) = &self.client else { unreachable!("only the overlay copies") };
        let moved = &site.copies[number];
        let agent = &site.agents[moved.agent as usize];
        let Copy { order, step, .. } = moved;
        let copy = agent.lot.number(order.id);
        let (kind, range, step, runs) = (order.kind, order.range, *step, moved.runs.len());
        let disk = Spot { space: Space::Disk(agent.file_of(order.file)), offset: range.offset };
        let of_run = |number: usize| {
            moved.run(number).iter().map(move |piece| {
                let skip = piece.range.offset - range.offset;
                let (spot, length) =
                    (Spot { space: Space::Flash(piece.data_file), offset: piece.place }, piece.range.length);
                match kind {
                    CopyKind::Fetch => Check::Put { copy, skip, spot, length },
                    CopyKind::WriteBack => Check::Picked { copy, skip, spot, length },
                }
            })
        };
        let events: Vec<Check> = match kind {
            CopyKind::Fetch if step == 0 => vec![Check::Picked { copy, skip: 0, spot: disk, length: range.length }],
            CopyKind::Fetch => of_run(step - 1).collect(),
            CopyKind::WriteBack if step < runs => of_run(step).collect(),
            CopyKind::WriteBack => vec![Check::Put { copy, skip: 0, spot: disk, length: range.length }],
        };
        events.into_iter().for_each(|event| self.tell(event));
        if step == runs {
            self.tell(Check::Copied { copy });
        }
    }
}
