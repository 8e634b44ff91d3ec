//! The library under real programs, with a fake agent.

mod aio;
mod arrivals;
mod bypasses;
mod copies;
mod data_path;
mod edges;
mod environments;
mod fake_agent;
mod mounts;
mod names;
mod neighbours;
mod processes;
mod programs;
mod regions;
mod symbols;
mod tools;
