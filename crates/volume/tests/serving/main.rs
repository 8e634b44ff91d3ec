//! Volumes that are served: by the real event loop, over memory and files.

mod bench;
mod life;
