//! A cluster in virtual time: compute nodes, a network, file servers, parallel programs, and the policies of
//! `core` between them.
//!
//! ```text
//! Scenario (TOML) --> run --> [calibration: what the tiers cost] --> [plan: a traced run, core::plan] --> Simulation --> Report
//!
//! Simulation   ranks (workload::Program, step by step; barriers, think time, jobs)        rank, job, phases
//!                |  requests
//!              client: stock | placed (CARL's regions) | agent + library (core's Overlay)  stock, placed, overlay/
//!                |  transfers: byte ranges of a file of one tier
//!              fabric: node cards --> servers of `model`, striped; one event queue         fabric, queue
//!                |  what happened
//!              check: contents and conservation, apart from all of the above               check/
//! ```
//!
//! Nothing here decides what goes to flash: policies, overlay, leases and slots are those of `core`, and the
//! costs of a server are those of `model`. What is modelled here is what lies between them: programs and
//! their barriers, the cards of compute nodes, and the time that messages to the agent take.
//!
//! There is no clock and no thread. Random numbers come from the scenario's seed, one sequence for each
//! purpose, and events of the same time are ordered by the number under which they were announced: the same
//! scenario gives the same report, byte for byte.
//!
//! Memory grows with ranks, servers and files, and with what is under way; never with the length of a run.
//! What the overlay maps and what a checker remembers grows with the extents on flash and in the files.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod check;
mod client;
mod fabric;
mod job;
pub mod latency;
mod list;
mod list_requests;
mod node;
mod options;
mod overlay;
mod phases;
mod placed;
mod placed_requests;
mod plan;
mod queue;
mod rank;
pub mod report;
mod run;
pub mod scenario;
mod seeds;
mod simulation;
mod stock;
mod tier;
pub mod workload;

pub use fabric::ServerAccess;
pub use headstart_model::request::Operation;
pub use headstart_model::server::{Access, Actor};
pub use options::{Options, SimulationError};
pub use report::Report;
pub use run::{Programs, run, run_programs};
pub use scenario::Scenario;
pub use tier::TierName;
