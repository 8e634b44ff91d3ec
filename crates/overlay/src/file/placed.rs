//! Which regions of a file belong on flash, and how placing them goes.

use headstart_policy::client::carl::{Regions, Wanted};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    regions: Regions,
    /// A copy of regions to flash failed with this.
    error: Option<i32>,
    /// One met the end of the file: nothing from here on is placed.
    end: u64,
}

impl Default for Placed {
    fn default() -> Placed {
        Placed { regions: Regions::default(), error: None, end: u64::MAX }
    }
}

impl Placed {
    /// The regions.
    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        !self.regions.is_empty()
    }

    /// The region that the byte belongs to.
    pub(crate) fn holding(&self, offset: u64) -> Option<&Wanted> {
        self.regions.holding(offset)
    }

    /// Other regions take their place.
    pub(crate) fn replace(&mut self, regions: Regions) -> Regions {
        std::mem::replace(&mut self.regions, regions)
    }

    /// One more.
    pub(crate) fn put(&mut self, region: Wanted) {
        self.regions.put(region);
    }

    /// One less.
    pub(crate) fn remove(&mut self, region: Wanted) {
        self.regions.remove(region.range);
    }

    /// Placing begins anew.
    pub(crate) fn retry(&mut self) {
        (self.error, self.end) = (None, u64::MAX);
    }

    /// Somebody opens the file, which may be longer by now.
    pub(crate) fn forget_end(&mut self) {
        self.end = u64::MAX;
    }

    /// A copy met the end of the file before this offset.
    pub(crate) fn end_at(&mut self, offset: u64) {
        self.end = self.end.min(offset);
    }

    /// A copy failed.
    pub(crate) fn fail(&mut self, errno: i32) {
        self.error = self.error.or(Some(errno));
    }

    /// Nothing is placed from here on.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// What the first copy that failed did so with.
    pub(crate) fn error(&self) -> Option<i32> {
        self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stands_until_placing_begins_anew() {
        let mut placed = Placed::default();
        placed.fail(5);
        placed.fail(28);
        placed.end_at(100);
        placed.end_at(200);
        assert_eq!((placed.error(), placed.end()), (Some(5), 100));
        placed.retry();
        assert_eq!((placed.error(), placed.end()), (None, u64::MAX));
    }
}
