//! What the event loop waits on: descriptors, time and signals.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::error::{Error, Result};

use super::rest::Rest;

/// The signals that end the agent; blocked before any thread starts, or one of the threads would die of them.
pub(crate) fn signals_awaited() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals
}

/// See the module.
pub(super) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    /// When the timer goes off.
    due: Option<Instant>,
    signals: SignalFd,
    started: Instant,
    rest: Rest,
}

impl Poller {
    /// One that tells of time as event `timer` and of signals as event `signals`.
    pub(super) fn new(timer: u64, signals: u64) -> Result<Poller> {
        let failed = |error: Errno| Error::system("prepare the event loop", error);
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let poller = Poller {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?,
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?,
            due: None,
            signals: SignalFd::with_flags(&signals_awaited(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
                .map_err(failed)?,
            started: Instant::now(),
            rest: Rest::default(),
        };
        poller.watch(&poller.timer, timer).map_err(failed)?;
        poller.watch(&poller.signals, signals).map_err(failed)?;
        Ok(poller)
    }

    /// Tells from now on when the descriptor is readable.
    pub(super) fn watch(&self, descriptor: impl AsFd, token: u64) -> std::result::Result<(), Errno> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))
    }

    /// Tells from now on when the other end is closed, and of nothing else.
    pub(super) fn watch_end(&self, descriptor: impl AsFd, token: u64) -> std::result::Result<(), Errno> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::empty(), token))
    }

    /// Tells also when a watched descriptor takes bytes, or no longer does.
    pub(super) fn watch_writable(&self, descriptor: impl AsFd, token: u64, writable: bool) {
        let more = if writable { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        let _ = self.epoll.modify(descriptor, &mut EpollEvent::new(EpollFlags::EPOLLIN | more, token));
    }

    /// Tells no more of it.
    pub(super) fn leave(&self, descriptor: impl AsFd) {
        let _ = self.epoll.delete(descriptor);
    }

    /// Waits for events; none came if a signal did.
    pub(super) fn wait(&self, events: &mut [EpollEvent]) -> Result<usize> {
        match self.epoll.wait(events, EpollTimeout::NONE) {
            Ok(count) => Ok(count),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(Error::system("wait for events", error)),
        }
    }

    /// Whether anything comes.
    pub(super) fn rest_mut(&mut self) -> &mut Rest {
        &mut self.rest
    }

    /// Nanoseconds since it was made.
    pub(super) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// The timer went off.
    pub(super) fn timer_went_off(&mut self) {
        let _ = self.timer.wait();
        self.due = None;
    }

    /// Sets the timer, unless it goes off before that; without a period it does not go off. Messages, however
    /// many, do not put off what was due.
    pub(super) fn set_timer(&mut self, period: Option<Duration>) {
        let Some(period) = period else {
            if self.due.take().is_some() {
                let _ = self.timer.unset();
            }
            return;
        };
        // Zero would disarm it.
        let period = period.max(Duration::from_micros(1));
        let due = Instant::now() + period;
        if self.due.is_none_or(|earlier| earlier > due) {
            self.due = Some(due);
            let _ = self.timer.set(Expiration::OneShot(period.into()), TimerSetTimeFlags::empty());
        }
    }

    /// A signal came.
    pub(super) fn take_signal(&self) {
        let _ = self.signals.read_signal();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_goes_off_at_the_earlier_of_two_times_and_not_once_it_is_unset() {
        let mut poller = Poller::new(1, 2).unwrap();
        let mut events = [EpollEvent::empty(); 4];
        poller.set_timer(Some(Duration::from_secs(600)));
        poller.set_timer(Some(Duration::ZERO));
        poller.set_timer(Some(Duration::from_secs(600)));
        assert_eq!((poller.wait(&mut events).unwrap(), events[0].data()), (1, 1));
        poller.timer_went_off();
        poller.set_timer(Some(Duration::from_secs(600)));
        assert!(poller.due.is_some());
        poller.set_timer(None);
        assert!(poller.due.is_none());
    }
}
