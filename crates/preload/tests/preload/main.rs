//! The library under real programs, with a fake agent.

mod agents;
mod aio;
mod arrivals;
mod bypasses;
mod cluster_deadlines;
mod copies;
mod data_path;
mod descriptors;
mod edges;
mod environments;
mod fake_agent;
mod mounts;
mod names;
mod neighbours;
mod processes;
mod programs;
mod regions;
mod streams;
mod symbols;
mod tools;
