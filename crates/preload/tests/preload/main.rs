//! The library under real programs, with a fake agent.

mod data_path;
mod fake_agent;
mod names;
mod processes;
mod programs;
mod tools;
