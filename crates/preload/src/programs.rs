//! Programs that this one starts, and what it becomes itself.
//!
//! ```text
//! executing     exec: looks at the program       environment   what every child must find in its environment
//! spawning      posix_spawn and its actions      libraries     libraries that the dynamic linker is about to read
//! strangers     programs the library cannot be in
//! confinement   the process gives up rights: another user, another root, a filter of system calls
//! ```

pub mod confinement;
pub mod environment;
pub mod executing;
pub mod libraries;
pub mod spawning;
pub mod strangers;
