//! How long a file is, and whether it is about to become longer. Only the agent extends files that have bytes on flash.

/// A change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// None is under way.
    None,
    /// To be made so long as soon as no thread may be changing the size, since when. While that is no longer than the
    /// file, it is announced for commits that wait until nobody else may be extending the file.
    Announced(u64, u64),
    /// The runtime is at it; then it is to be so long.
    Running(u64),
}

/// What becomes of the wish that a file be so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// It is.
    Already,
    /// The last try failed.
    Failed,
    /// It is announced just now.
    Announced,
    /// It was announced before, or is under way.
    Waits,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Length {
    size: u64,
    /// How long it is for a capacity that is a share of all files: direct writes make it longer without the agent.
    expected: u64,
    extension: Extension,
    /// The last extension failed.
    failed: bool,
}

impl Length {
    /// A file of that size.
    pub(crate) fn new(size: u64) -> Length {
        Length { size, expected: size, extension: Extension::None, failed: false }
    }

    /// A size it has at least.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// How long it is expected to be.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// A new size it has at least: how long it is to be expected to be.
    pub(crate) fn set_size(&mut self, size: u64) -> u64 {
        let before = std::mem::replace(&mut self.size, size);
        if size < before { size } else { size.max(self.expected) }
    }

    /// It is expected to be so long: as how long before.
    pub(crate) fn expect(&mut self, size: u64) -> u64 {
        std::mem::replace(&mut self.expected, size)
    }

    /// Whether an extension is announced or under way.
    pub(crate) fn is_extending(&self) -> bool {
        self.extension != Extension::None
    }

    /// Whether one is under way.
    pub(crate) fn extension_runs(&self) -> bool {
        matches!(self.extension, Extension::Running(_))
    }

    /// It is to be `size` long at least.
    pub(crate) fn extend(&mut self, size: u64, now_ns: u64) -> Extended {
        if self.size >= size {
            return Extended::Already;
        }
        if std::mem::take(&mut self.failed) {
            return Extended::Failed;
        }
        self.announce(size, now_ns)
    }

    /// The same, or only that it may have to become longer (zero).
    pub(crate) fn announce(&mut self, size: u64, now_ns: u64) -> Extended {
        if self.extension == Extension::None {
            self.extension = Extension::Announced(size, now_ns);
            return Extended::Announced;
        }
        self.raise(size);
        Extended::Waits
    }

    /// Where an extension is announced or under way, the file is to be so long at least in the end.
    pub(crate) fn raise(&mut self, size: u64) {
        match &mut self.extension {
            Extension::None => {}
            Extension::Announced(announced, _) => *announced = size.max(*announced),
            Extension::Running(then) => *then = size.max(*then),
        }
    }

    /// What is announced, and since when.
    pub(crate) fn announced(&self) -> Option<(u64, u64)> {
        match self.extension {
            Extension::Announced(size, since_ns) => Some((size, since_ns)),
            Extension::None | Extension::Running(_) => None,
        }
    }

    /// The runtime begins with it.
    pub(crate) fn run_extension(&mut self) {
        self.extension = Extension::Running(0);
    }

    /// It has ended, or is not needed. True if the file is to be longer still, which is announced: nobody else may
    /// begin to make it longer in between, who would be waited for.
    pub(crate) fn end_extension(&mut self, now_ns: u64) -> bool {
        self.extension = match self.extension {
            Extension::Running(then) if then > self.size => Extension::Announced(then, now_ns),
            _ => Extension::None,
        };
        self.is_extending()
    }

    /// It has failed.
    pub(crate) fn fail_extension(&mut self) {
        self.extension = Extension::None;
        self.failed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_announced_raised_and_run_and_a_failure_is_told_once() {
        let mut length = Length::new(100);
        assert_eq!(length.extend(100, 1), Extended::Already);
        assert_eq!((length.extend(200, 2), length.extend(300, 3), length.extend(250, 4)), {
            (Extended::Announced, Extended::Waits, Extended::Waits)
        });
        length.raise(400);
        assert_eq!(length.announced(), Some((400, 2)));
        length.run_extension();
        assert_eq!((length.extend(500, 5), length.announced()), (Extended::Waits, None));
        assert!(length.extension_runs());
        length.fail_extension();
        assert_eq!((length.extend(200, 6), length.extend(200, 7)), (Extended::Failed, Extended::Announced));
    }

    #[test]
    fn what_an_extension_under_way_is_not_enough_for_is_announced_when_it_ends() {
        let mut length = Length::new(100);
        length.announce(0, 1);
        length.raise(200);
        length.run_extension();
        length.raise(300);
        length.set_size(200);
        assert!(length.end_extension(8) && length.announced() == Some((300, 8)));
        length.run_extension();
        length.raise(250);
        length.set_size(300);
        assert!(!length.end_extension(9) && !length.is_extending());
    }

    #[test]
    fn what_is_expected_of_a_file_grows_with_it_and_shrinks_when_it_is_cut() {
        let mut length = Length::new(100);
        assert_eq!(length.expect(500), 100);
        assert_eq!(length.set_size(200), 500);
        assert_eq!(length.set_size(600), 600);
        assert_eq!(length.set_size(50), 50);
    }
}
