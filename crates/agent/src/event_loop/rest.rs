//! When the agent sleeps: it sets no timer though threads take part, and whoever leaves something for it tells it
//! ([`headstart_protocol::marks`]). Not while it does anything of its own, nor while regions follow what programs read,
//! which is decided by time.

use std::time::Duration;

use nix::sys::epoll::EpollEvent;

use super::{CLUSTER_REGISTER, EventLoop, TIMER};

/// After so long without a message, a completion or a mark (assumed: some looks in vain cost less than to tell the
/// agent of each of a program's writes that come a little apart).
const QUIET: Duration = Duration::from_millis(100);

/// Whether it sleeps, and since when nothing has come.
#[derive(Default)]
pub(super) struct Rest {
    sleeps: bool,
    /// When the last wait ended, and the last one that the timer did not end.
    now_ns: u64,
    told_ns: u64,
}

impl EventLoop<'_> {
    /// A wait has ended.
    pub(super) fn rise(&mut self, now_ns: u64, events: &[EpollEvent]) {
        let rest = self.poller.rest_mut();
        rest.now_ns = now_ns;
        // A look at the register is the agent's own.
        if events.iter().any(|event| ![TIMER, CLUSTER_REGISTER].contains(&event.data())) {
            rest.told_ns = now_ns;
        }
        if std::mem::take(&mut rest.sleeps) {
            self.shared().wake_up();
        }
    }

    /// Sleeps, if there has been nothing to do for long enough.
    pub(super) fn falls_asleep(&mut self) -> bool {
        let (rest, overlay) = (self.poller.rest_mut(), &self.tiers.overlay);
        let since_ns = rest.told_ns.max(overlay.marked_ns());
        let is_quiet = rest.now_ns.saturating_sub(since_ns) >= QUIET.as_nanos() as u64;
        rest.sleeps = is_quiet && !overlay.is_following() && overlay.fall_asleep(self.tiers.shared.view());
        rest.sleeps
    }
}
