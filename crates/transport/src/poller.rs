//! What the transport waits on, behind one descriptor: an epoll of its own, in which a timer lies too.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::error::{Error, Result};

/// See the module.
pub(crate) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    /// When the timer goes off.
    due: Option<Instant>,
}

impl Poller {
    /// One that tells of time as event `timer`.
    pub(crate) fn new(timer: u64) -> Result<Poller> {
        let failed = |error: Errno| Error::system("prepare to wait for the other agents", error);
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let poller = Poller {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?,
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?,
            due: None,
        };
        poller.watch(&poller.timer, timer).map_err(failed)?;
        Ok(poller)
    }

    /// Readable when an event waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    pub(crate) fn watch(&self, descriptor: impl AsFd, token: u64) -> std::result::Result<(), Errno> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))
    }

    /// Tells also when a watched descriptor takes bytes, or no longer does.
    pub(crate) fn watch_writable(&self, descriptor: impl AsFd, token: u64, writable: bool) {
        let more = if writable { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        let _ = self.epoll.modify(descriptor, &mut EpollEvent::new(EpollFlags::EPOLLIN | more, token));
    }

    /// Tells no more of it.
    pub(crate) fn leave(&self, descriptor: impl AsFd) {
        let _ = self.epoll.delete(descriptor);
    }

    /// Events that are there; waits for none.
    pub(crate) fn events(&self, events: &mut [EpollEvent]) -> usize {
        // It fails on a signal alone, and then the descriptor stays readable.
        self.epoll.wait(events, EpollTimeout::ZERO).unwrap_or(0)
    }

    /// The timer went off.
    pub(crate) fn timer_went_off(&mut self) {
        let _ = self.timer.wait();
        self.due = None;
    }

    /// Sees that the timer goes off at `due`, or sooner.
    pub(crate) fn set_timer(&mut self, due: Option<Instant>) {
        let Some(due) = due.filter(|due| self.due.is_none_or(|earlier| earlier > *due)) else { return };
        self.due = Some(due);
        // Zero would disarm it.
        let period = due.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        let _ = self.timer.set(Expiration::OneShot(TimeSpec::from(period)), TimerSetTimeFlags::empty());
    }
}
