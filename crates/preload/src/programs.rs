//! Programs that this one starts, and what it becomes itself.
//!
//! ```text
//! executing     exec: looks at the program       environment   what every child must find in its environment
//! spawning      posix_spawn and its actions      libraries     libraries that the dynamic linker is about to read
//! strangers     programs the library cannot be in
//! confinement   the process gives up rights: another user, another root, a filter of system calls
//! ```

pub(crate) mod confinement;
pub(crate) mod environment;
pub(crate) mod executing;
pub(crate) mod libraries;
pub(crate) mod spawning;
pub(crate) mod strangers;
