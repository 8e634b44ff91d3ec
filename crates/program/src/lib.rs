//! What of a program decides whether the library can be in it: its ELF image, and lists of libraries to preload.
#![forbid(unsafe_code)]

pub mod image;
pub mod preloading;
