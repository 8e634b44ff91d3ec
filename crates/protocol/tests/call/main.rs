//! The thread's side of the protocol, step by step and against an agent that is just good enough.

mod listed;
mod misses;
mod orders;
mod rings;
mod steps;
mod world;
