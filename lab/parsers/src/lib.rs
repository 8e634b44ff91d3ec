//! What must hold of whatever comes from disk, socket or shared file: the checks of every parser, from bytes.
//! The tests of this crate run them on bytes from a seed, `lab/fuzz` on those that a fuzzer finds.
#![forbid(unsafe_code)]
// The name of a check says what it checks.
#![allow(missing_docs)]

pub mod frames;
pub mod hostile;
pub mod journal;
pub mod membership;
pub mod packets;
pub mod seeded;
pub mod source;
pub mod text;
pub mod traces;
pub mod volumes;
