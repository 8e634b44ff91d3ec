//! The shared-memory part of the protocol under a model checker:
//! `RUSTFLAGS="--cfg loom" cargo test -p headstart-protocol --release
//! --test handshake`, which `make test` runs.
//!
//! loom runs each model through the interleavings of its threads (all, unless `LOOM_MAX_PREEMPTIONS` or the model
//! says how many preemptions), and through every value that the memory model of C11 lets a load return: stores
//! that are delayed, reordered or seen by one thread before another, as on machines weaker than x86. The models
//! call the functions that library and agent call.
//!
//! For each rule there is a model that holds and variants that leave the rule out, which loom must refute.
//!
//! What is not checked here: values from the future of a thread (loads that take effect before earlier ones,
//! which loom does not do); sequentially consistent accesses as such (loom takes them for acquire and
//! release, so nothing may rest on them; fences it knows, a little stronger than C11 has them); sockets (a
//! flag stands for a message); more than two threads, but for the order of two ranks' commits; more than a few
//! requests; and whether a waiting agent is ever served, but for a rank that asks.
#![cfg(loom)]

mod adoption;
mod by_hand;
mod explorer;
mod hints;
mod leases;
mod listings;
mod reads;
mod requests;
mod rings;
mod sizes;
mod sleep;
mod tickets;
