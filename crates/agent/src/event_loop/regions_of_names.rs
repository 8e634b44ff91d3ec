//! Which connections want regions placed, and the regions that they have told so far or want for a name.

use std::collections::{BTreeMap, BTreeSet};

use headstart_policy::client::carl::{Regions, Wanted};

/// See the module.
#[derive(Default)]
pub(super) struct RegionsOfNames {
    /// Regions of files of which others are to come, by connection.
    incomplete: BTreeMap<u64, (String, Vec<Wanted>)>,
    /// Regions of whatever file has the name.
    named: BTreeMap<Vec<u8>, Regions>,
    /// The connection for which regions are copied to flash.
    placed_for: Option<u64>,
    /// Connections that want regions to follow programs.
    followed_for: BTreeSet<u64>,
}

/// What ends with a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Regions follow programs no more.
    pub(super) following: bool,
    /// Regions are copied no more.
    pub(super) placing: bool,
}

impl RegionsOfNames {
    /// What the connection has told of the file so far, to be gone on with.
    pub(super) fn take_incomplete(&mut self, connection: u64, path: &str) -> Vec<Wanted> {
        let told = self.incomplete.remove(&connection);
        told.filter(|(of, _)| of == path).map(|(_, regions)| regions).unwrap_or_default()
    }

    /// Others of the file are to come.
    pub(super) fn keep_incomplete(&mut self, connection: u64, path: String, regions: Vec<Wanted>) {
        self.incomplete.insert(connection, (path, regions));
    }

    /// The name has these regions; none: it has none.
    pub(super) fn set(&mut self, path: &[u8], regions: Option<&Regions>) {
        self.named.remove(path);
        if let Some(regions) = regions.filter(|regions| **regions != Regions::NONE) {
            self.named.insert(path.to_vec(), regions.clone());
        }
    }

    /// No name has any.
    pub(super) fn clear(&mut self) {
        self.named.clear();
    }

    /// The regions of a name.
    pub(super) fn of(&self, path: &[u8]) -> Option<&Regions> {
        self.named.get(path)
    }

    /// Names that have some.
    pub(super) fn count(&self) -> usize {
        self.named.len()
    }

    /// Regions are copied to flash for this connection; for none: no more.
    pub(super) fn place_for(&mut self, connection: Option<u64>) {
        self.placed_for = connection;
    }

    /// Regions follow programs for this connection, too.
    pub(super) fn follow_for(&mut self, connection: u64) {
        self.followed_for.insert(connection);
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, connection: u64) -> Ended {
        self.incomplete.remove(&connection);
        let following = self.followed_for.remove(&connection) && self.followed_for.is_empty();
        let placing = self.placed_for == Some(connection);
        if placing {
            self.placed_for = None;
        }
        Ended { following, placing }
    }
}

#[cfg(test)]
mod tests {
    use headstart_units::request::Range;

    use super::*;

    #[test]
    fn what_a_connection_wanted_ends_with_it_and_with_the_last_of_several() {
        let mut regions = RegionsOfNames::default();
        regions.place_for(Some(1));
        [1, 2].into_iter().for_each(|connection| regions.follow_for(connection));
        assert_eq!(regions.forget(1), Ended { following: false, placing: true });
        assert_eq!(regions.forget(2), Ended { following: true, placing: false });
        assert_eq!(regions.forget(2), Ended::default());
    }

    #[test]
    fn regions_told_in_parts_are_those_of_one_file() {
        let mut regions = RegionsOfNames::default();
        let wanted = Wanted { range: Range::new(0, 1), benefit_ns: 1, gain_ns: 1 };
        regions.keep_incomplete(1, "/slow/a".into(), vec![wanted]);
        assert_eq!(regions.take_incomplete(1, "/slow/a"), [wanted]);
        regions.keep_incomplete(1, "/slow/a".into(), vec![wanted]);
        assert!(regions.take_incomplete(1, "/slow/b").is_empty());
        regions.set(b"/slow/a", Some(&Regions::new(vec![wanted])));
        assert_eq!((regions.count(), regions.of(b"/slow/a").is_some()), (1, true));
        regions.set(b"/slow/a", Some(&Regions::NONE));
        assert_eq!(regions.count(), 0);
    }
}
