//! Guesses of order: whether the disk serves a request well anyway, so that flash should be left to others.
//!
//! A cost model prices a request by its size and its distance to the last one. It cannot know what lies beneath: a
//! server's cache that joins neighbours, a drive that reads ahead, a client that writes back in address order. Eight
//! guesses make up for that, each from the little that whoever asks can see, each in the file that is named for it:
//!
//! | file | asked by | guesses whether |
//! |---|---|---|
//! | `course` | library, planner, simulator | a process goes on in a file |
//! | `interleaving` | the same | processes go through a file together, each with the next piece |
//! | `faster_side` | overlay | the disks answer reads of a file sooner than flash |
//! | `streams` | iTransformer | requests of a disk continue each other, and how many streams do |
//! | `crowd` | `streams` | many processes read one stream together |
//! | `trust` | `streams` | what looks like a new stream will go on |
//! | `unaided` | iTransformer | the disk serves streams as fast without fetches |
//! | `trailing_writes` | LiU | writes follow each other closely and keep the disk busy |
//!
//! What each guesses from: `course` the end of the process's last request; `interleaving` which blocks of a MiB were
//! touched, and by whom; `faster_side` measured reads of both sides; `streams` runs of requests without gaps; `crowd`
//! where the last reads began; `trust` how many of the new streams before went on; `unaided` what the disk took for
//! reads without fetches and for fetches; `trailing_writes` distances of the last writes.
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

pub use course::{Course, Distance, Tracks};
pub use faster_side::{FasterSide, Measured};
pub use interleaving::Interleaving;
pub(crate) use streams::{Heading, Streams};
pub(crate) use trailing_writes::TrailingWrites;
pub(crate) use unaided::{Planned, Unaided};
