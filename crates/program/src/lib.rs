//! What of a program decides whether the library can be in it. Nothing here does I/O, and nothing allocates that the
//! library calls between `vfork` and `execve`.
//!
//! | module | what it tells | who asks |
//! |---|---|---|
//! | [`image`] | what an executable file is, and why the library will not be in it | `preload`, `cli` |
//! | [`preloading`] | what a list of libraries (`LD_PRELOAD`) lacks, and one that has it | `preload`, `cli` |
#![forbid(unsafe_code)]

pub mod image;
pub mod preloading;
