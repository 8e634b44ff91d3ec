//! Detectors of order: whether the disk serves a request well anyway.

mod course;
mod interleaving;

pub use course::{AHEAD_MAX, Course, Courses, Distance, REACH_BYTES, Tracks};
pub use interleaving::Interleaving;
