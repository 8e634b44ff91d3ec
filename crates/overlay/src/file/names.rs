//! What a file is called.

/// Further names that are kept of a file (assumed: who removes one does so soon after he made another).
const OTHER_NAMES_MAX: usize = 16;

/// What the change of a name means for where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// It is where it was.
    None,
    /// It is there now.
    At(Vec<u8>),
    /// There is a name, and it is not known.
    Nameless,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    path: Vec<u8>,
    /// Further names that were told, the newest last.
    others: Vec<Vec<u8>>,
    /// `path` is gone, and no other name is known, though there is one.
    nameless: bool,
    /// No name is left.
    unlinked: bool,
}

impl Names {
    /// A file that lies there.
    pub(crate) fn new(path: Vec<u8>) -> Names {
        Names { path, ..Names::default() }
    }

    /// Where it is, or was last.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The same for a person.
    pub(crate) fn shown(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.path)
    }

    /// How many names are known.
    pub(crate) fn count(&self) -> u64 {
        u64::from(!self.nameless) + self.others.len() as u64
    }

    /// Whether it has a name that is not known.
    pub(crate) fn is_nameless(&self) -> bool {
        self.nameless
    }

    /// Whether no name is left.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.unlinked
    }

    /// None is left; true if there was one before.
    pub(crate) fn unlink(&mut self) -> bool {
        !std::mem::replace(&mut self.unlinked, true)
    }

    /// A process has found it there; true if it was not known to be.
    pub(crate) fn found_at(&mut self, path: &[u8]) -> bool {
        if self.path == path || path.is_empty() {
            return false;
        }
        let before = std::mem::replace(&mut self.path, path.to_vec());
        if let Some(known) = self.others.iter_mut().find(|name| *name == path) {
            *known = before;
        }
        self.nameless = false;
        true
    }

    /// It was moved there.
    pub(crate) fn move_to(&mut self, path: Vec<u8>) {
        self.path = path;
    }

    /// Further names were moved, or a directory above them.
    pub(crate) fn move_others(&mut self, moved: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for name in &mut self.others {
            if let Some(path) = moved(name) {
                *name = path;
            }
        }
    }

    /// It has got another name (`stays`), or is about to lose one of several.
    pub(crate) fn change(&mut self, path: &[u8], stays: bool) -> NameChange {
        self.others.retain(|name| name != path);
        let is_known = self.path == path;
        if stays {
            if is_known || self.nameless {
                self.nameless = false;
                return NameChange::At(path.to_vec());
            }
            // The newest of many are as good as all of them.
            let too_many = (self.others.len() + 1).saturating_sub(OTHER_NAMES_MAX);
            self.others.drain(..too_many);
            self.others.push(path.to_vec());
            return NameChange::None;
        }
        if !is_known {
            return NameChange::None;
        }
        match self.others.pop() {
            Some(other) => NameChange::At(other),
            None => {
                self.nameless = true;
                NameChange::Nameless
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_loses_its_name_is_found_at_the_newest_other_one_or_has_none_that_is_known() {
        let mut names = Names::new(b"/a".to_vec());
        for other in [b"/b", b"/c"] {
            assert_eq!(names.change(other, true), NameChange::None);
        }
        assert_eq!(names.count(), 3);
        assert_eq!(names.change(b"/a", false), NameChange::At(b"/c".to_vec()));
        names.move_to(b"/c".to_vec());
        assert_eq!(names.change(b"/b", false), NameChange::None);
        assert_eq!(names.change(b"/c", false), NameChange::Nameless);
        assert!(names.is_nameless() && names.count() == 0);
        assert_eq!(names.change(b"/d", true), NameChange::At(b"/d".to_vec()));
        assert!(!names.is_nameless() && names.unlink() && !names.unlink());
    }

    #[test]
    fn the_oldest_of_too_many_names_is_forgotten() {
        let mut names = Names::new(b"/a".to_vec());
        for other in 0..=OTHER_NAMES_MAX as u8 {
            names.change(&[b'/', other], true);
        }
        assert_eq!(names.count(), 1 + OTHER_NAMES_MAX as u64);
        names.change(&[b'/', 0], true);
        assert_eq!(names.count(), 1 + OTHER_NAMES_MAX as u64);
    }

    #[test]
    fn where_a_file_is_found_it_is_and_where_it_was_is_another_name_if_that_was_one() {
        let mut names = Names::new(b"/a".to_vec());
        names.change(b"/b", true);
        assert!(!names.found_at(b"/a") && !names.found_at(b"") && names.found_at(b"/b"));
        assert_eq!(names.change(b"/b", false), NameChange::At(b"/a".to_vec()));
    }
}
