//! Guesses of order: whether the disk serves a request well anyway, so that flash should be left to others.
//!
//! A cost model prices a request by its size and its distance to the last one. It cannot know what lies beneath: a
//! server's cache that joins neighbours, a drive that reads ahead, a client that writes back in address order. Eight
//! guesses make up for that, each from the little that whoever asks can see, each in the file that is named for it:
//!
//! | file | guesses whether | asked by | from |
//! |---|---|---|---|
//! | `course` | a process goes on in a file | the library for each request, planner, simulator | the end of the process's last request |
//! | `interleaving` | processes go through a file together, each with the next piece | the same | which blocks of a MiB were touched, and by whom |
//! | `faster_side` | disks answer reads of a file sooner than flash | the overlay, for reads of clean bytes and before fetches | measured reads of both sides |
//! | `streams` | requests of a disk continue each other, and how many streams do | iTransformer | runs of requests without gaps |
//! | `crowd` | many processes read one stream together | `streams` | where the last reads began |
//! | `trust` | what looks like a new stream will go on | `streams` | how many of those before did |
//! | `unaided` | the disk serves streams as fast without fetches | iTransformer | what it took for reads without and for fetches |
//! | `trailing_writes` | writes follow each other closely and keep the disk busy | LiU | distances of the last writes |
//!
//! **Their constants are chosen, not derived.** Each says beside it on which row of a benchmark (`compose/..` and
//! `itransformer/..` are scenarios of the simulator, `paper` S and L rows of `headstart-lab paper`), or that it is
//! assumed; `docs/internals/constants.md` lists them all. Most were added for one row that lost without them, and hold
//! for machines like its own. A wrong guess costs time, never bytes: whoever asks reads and writes the same either way.
//!
//! **They are to be replaced by one measured answer**: what the disk really took for requests of each kind, told to
//! whoever decides. `faster_side` and `unaided` do that already for one question each. Until then a new guess goes
//! here, with its row, and nowhere else.

mod course;
mod crowd;
mod faster_side;
mod interleaving;
mod streams;
mod trailing_writes;
mod trust;
mod unaided;

pub use course::{Course, Courses, Distance, Tracks};
pub use faster_side::{FasterSide, Measured};
pub use interleaving::Interleaving;
pub(crate) use streams::{Heading, Streams};
pub(crate) use trailing_writes::TrailingWrites;
pub(crate) use unaided::{Planned, Unaided};
