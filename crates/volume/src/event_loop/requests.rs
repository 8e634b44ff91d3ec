//! Requests that have no reply yet, and since when none has come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headstart_block::order::Tag;
use slab::Slab;

use super::clock::Clock;
use super::figures::Kind;
use super::mailbox::Answer;
use super::parts::Data;
use crate::block::Buffer;

/// A request that has no reply yet.
pub(super) struct Waiting {
    pub kind: Kind,
    pub bytes: u64,
    /// Its own, so that who asked may do with his as he likes once he is answered.
    pub data: Option<Arc<Buffer>>,
    pub begun: Instant,
    pub answer: Answer,
}

/// See the module.
#[derive(Default)]
pub(super) struct Requests {
    waiting: Slab<Waiting>,
    /// When the last one came, until the engine was told that it is idle.
    busy_since: Option<Instant>,
}

impl Data for Requests {
    fn data(&self, tag: Tag) -> &Arc<Buffer> {
        self.waiting[tag as usize].data.as_ref().expect("the parts of a write are of its data")
    }
}

impl Requests {
    /// One comes; its name.
    pub(super) fn add(&mut self, request: Waiting) -> Tag {
        self.busy_since = Some(request.begun);
        self.waiting.insert(request) as Tag
    }

    /// One has its reply.
    pub(super) fn end(&mut self, tag: Tag) -> Waiting {
        self.waiting.remove(tag as usize)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the engine is to be told that it is idle: so long after the last one came, if none waits.
    pub(super) fn idle_from(&self, idle: Duration) -> Option<Instant> {
        self.busy_since.filter(|_| self.waiting.is_empty()).map(|since| since + idle)
    }

    /// Whether that is now. Once it was, it is not again before a request has come.
    pub(super) fn turn_idle(&mut self, clock: &Clock, idle: Duration) -> bool {
        let is_idle = self.idle_from(idle).is_some_and(|at| clock.until(at) == Duration::ZERO);
        if is_idle {
            self.busy_since = None;
        }
        is_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_idle_once_after_the_last_request_has_its_reply() {
        let (mut requests, mut clock) = (Requests::default(), Clock::begin());
        let answer = Answer::new(Box::new(|_| ()));
        let tag = requests.add(Waiting { kind: Kind::Write, bytes: 1, data: None, begun: Instant::now(), answer });
        clock.turn();
        assert!(!requests.turn_idle(&clock, Duration::ZERO), "one waits");
        assert_eq!((requests.len(), requests.idle_from(Duration::ZERO)), (1, None));
        requests.end(tag).answer.fail(libc::EIO);
        assert!(requests.turn_idle(&clock, Duration::ZERO) && !requests.turn_idle(&clock, Duration::ZERO));
    }
}
