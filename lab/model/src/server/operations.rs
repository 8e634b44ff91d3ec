//! Disk operations: how many requests may use the disk at once, and those that wait to.

use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Operations {
    under_way: usize,
    max: usize,
    waiting: VecDeque<u32>,
}

impl Operations {
    /// So many at once.
    pub(super) fn new(max: usize) -> Operations {
        assert!(max > 0, "a server without disk operations never serves anything");
        Operations { under_way: 0, max, waiting: VecDeque::new() }
    }

    /// Whether the next request has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.under_way >= self.max
    }

    /// A request waits, in order of arrival.
    pub(super) fn wait(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    /// Whether a request waits that could begin.
    pub(super) fn could_begin(&self) -> bool {
        !self.is_full() && !self.waiting.is_empty()
    }

    /// The next request that waits, if it may begin.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.is_full() { None } else { self.waiting.pop_front() }
    }

    /// One begins.
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One ends, if `held`, which is taken.
    pub(super) fn end(&mut self, held: &mut bool) {
        self.under_way -= usize::from(std::mem::take(held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_begin_in_order_once_others_have_ended() {
        let (mut operations, mut held) = (Operations::new(1), true);
        operations.begin();
        operations.wait(4);
        operations.wait(2);
        assert_eq!((operations.could_begin(), operations.next()), (false, None));
        operations.end(&mut held);
        operations.end(&mut held);
        assert_eq!((operations.could_begin(), operations.next(), operations.next()), (true, Some(4), Some(2)));
    }
}
