//! The disk: foreground orders that wait for it or are there, and for how long background work has kept them waiting.
//!
//! Background work (write-backs and fetches) has the disk alone from [`Disk::give_to_background`] until
//! [`Disk::give_to_foreground`].

use super::disk_queue::{DiskQueue, Kind, Queued};
use super::orders::Purpose;
use super::settings::Settings;
use crate::counters::Waits;
use crate::order::{Action, Order, OrderId};
use headstart_units::Nanos;
use headstart_units::request::Range;

/// Writes of the foreground that follow each other are gathered into orders of at most so many bytes (as
/// long as those of write-back).
const GATHERED_BYTES_MAX: u64 = 2 << 20;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    queue: DiskQueue,
    /// Since when background work has the disk.
    background_since: Option<Nanos>,
    /// For how long it had it before.
    background: Nanos,
    /// When a foreground order last came or ended.
    foreground_at: Nanos,
}

impl Disk {
    /// An order of the foreground comes.
    pub(super) fn push(&mut self, now: Nanos, order: Order, purpose: Purpose, kind: Kind) {
        self.foreground_at = now;
        let background = self.background_time(now);
        self.queue.push(Queued { order, purpose, since: now, background, kind });
    }

    /// The disk is done with an order of the foreground; see [`DiskQueue::complete`].
    pub(super) fn complete(&mut self, now: Nanos, order: OrderId) -> (Range, Nanos) {
        self.foreground_at = now;
        self.queue.complete(order, now)
    }

    /// For how long background work has had the disk.
    fn background_time(&self, now: Nanos) -> Nanos {
        self.background + self.background_since.map_or(Nanos::ZERO, |since| now.since(since))
    }

    /// Background work has the disk; who comes waits behind the gate.
    pub(super) fn give_to_background(&mut self, now: Nanos) {
        self.queue.close();
        self.background_since.get_or_insert(now);
    }

    /// The foreground has the disk; if the turn is `closing`, those that wait now and no others.
    pub(super) fn give_to_foreground(&mut self, now: Nanos, closing: bool) {
        let ended = self.background_since.take();
        if let Some(since) = ended {
            self.background += now.since(since);
        }
        if closing && ended.is_none() {
            self.queue.close();
        } else {
            self.queue.open(closing);
        }
    }

    /// The next order for the disk, unless it has enough of the foreground. What background work has added
    /// to its wait is noted.
    pub(super) fn next(&mut self, now: Nanos, settings: &Settings, waits: &mut Waits) -> Option<Queued> {
        let (orders, bytes) = (self.queue.in_flight(), self.queue.in_flight_bytes());
        if orders >= settings.disk_orders_max
            || (orders >= settings.disk_orders_min && bytes >= settings.disk_bytes_max)
        {
            return None;
        }
        let mut queued = self.queue.pop(now)?;
        let background = self.background_time(now);
        waits.add(background.since(queued.background));
        if queued.kind != Kind::Single {
            self.gather_writes(&mut queued, background, waits);
        }
        Some(queued)
    }

    /// Makes writes that follow one on the disk one order with it, as a drive takes longer for many short ones.
    fn gather_writes(&mut self, first: &mut Queued, background: Nanos, waits: &mut Waits) {
        while let Some(next) = self.queue.pop_following(first, GATHERED_BYTES_MAX) {
            waits.add(background.since(next.background));
            first.order.length += next.order.length;
            let (Action::Write(parts), Action::Write(more)) = (&mut first.order.action, next.order.action) else {
                unreachable!("only writes follow");
            };
            parts.extend(more);
            let (Purpose::Bypass(all), Purpose::Bypass(of_next)) = (&mut first.purpose, next.purpose) else {
                unreachable!("the foreground writes in bypasses only");
            };
            all.extend(of_next);
        }
    }

    /// What waits and what the disk has.
    pub(super) fn queue(&self) -> &DiskQueue {
        &self.queue
    }

    /// When a foreground order last came or ended.
    pub(super) fn foreground_at(&self) -> Nanos {
        self.foreground_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Device;
    use crate::order::Part;

    fn write(id: OrderId, offset: u64) -> (Order, Purpose) {
        let action = Action::Write(vec![Part::Zeros(512)]);
        let order = Order { id, device: Device::Disk, action, offset, length: 512, session: None };
        (order, Purpose::Bypass(vec![(id, Range::new(offset, 512))]))
    }

    #[test]
    fn writes_that_follow_each_other_are_one_order_but_for_single_ones() {
        let mut disk = Disk::default();
        for (id, kind) in [(1, Kind::Joined), (2, Kind::Joined), (3, Kind::Single)] {
            let (order, purpose) = write(id, 512 * id);
            disk.push(Nanos(5), order, purpose, kind);
        }
        let (settings, mut waits) = (Settings::default(), Waits::default());
        let mut next = || disk.next(Nanos(9), &settings, &mut waits).map(|queued| queued.order.length);
        assert_eq!([next(), next(), next()], [Some(1024), Some(512), None]);
        assert_eq!((waits.count, waits.sum), (3, Nanos::ZERO));
        assert_eq!(disk.complete(Nanos(11), 1).0, Range::new(512, 1024));
        assert_eq!(disk.foreground_at(), Nanos(11));
    }

    #[test]
    fn what_comes_while_background_work_has_the_disk_waits_behind_the_gate_for_as_long_as_is_noted() {
        let mut disk = Disk::default();
        let (settings, mut waits) = (Settings::default(), Waits::default());
        disk.give_to_background(Nanos(10));
        let (order, purpose) = write(1, 0);
        disk.push(Nanos(14), order, purpose, Kind::Joined);
        assert!(disk.next(Nanos(15), &settings, &mut waits).is_none());
        disk.give_to_foreground(Nanos(20), true);
        assert!(disk.next(Nanos(21), &settings, &mut waits).is_some());
        assert_eq!(waits.sum, Nanos(6));
    }
}
