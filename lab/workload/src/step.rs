//! The steps of a rank.

use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

/// What a rank does; the next step begins when this one is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a file, by its number within the program; whoever writes it first creates it.
    Open {
        /// The file.
        file: u32,
        /// Whether it may be written.
        writable: bool,
    },
    /// One request, and waits for it.
    Request {
        /// The file.
        file: u32,
        /// Reading or writing.
        direction: Direction,
        /// The bytes.
        range: Range,
    },
    /// One call for many ranges of a file, ascending and apart, and waits for all of them.
    List {
        /// The file.
        file: u32,
        /// Reading or writing.
        direction: Direction,
        /// The bytes.
        ranges: Vec<Range>,
    },
    /// Waits until what was written to the file is on the medium.
    Sync {
        /// The file.
        file: u32,
    },
    /// Closes a file.
    Close {
        /// The file.
        file: u32,
    },
    /// Waits for all ranks of the program.
    Barrier,
    /// Does something else for so long.
    Think(Nanos),
    /// A point that reports go by; takes no time. Phase number k of [`Program::phases`] begins at mark 2k and
    /// ends at mark 2k + 1.
    Mark(u32),
}

/// One timed pass over a program's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What the benchmark calls it.
    pub name: &'static str,
    /// What its requests do.
    pub direction: Direction,
}

/// A parallel program.
pub trait Program: Send + Sync {
    /// Number of ranks.
    fn ranks(&self) -> u32;

    /// Sizes in bytes of the files once all ranks have written, by number.
    fn file_bytes(&self) -> Vec<u64>;

    /// The timed phases, in order. A rank is in phase k from [`Step::Mark`] 2k to mark 2k + 1. None where the
    /// program has no marks.
    fn phases(&self) -> Vec<Phase> {
        Vec::new()
    }

    /// What a rank does. The same every time it is asked; holds no more than a few numbers however long it
    /// runs, unless its implementation says otherwise.
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_>;
}
