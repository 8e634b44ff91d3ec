//! The simulator: what it costs, what it decides, and that its checkers agree.

mod accesses;
mod agents;
mod closed_form;
mod determinism;
mod flow;
mod policies;
mod programs;
mod random_programs;
mod scenarios;
mod volume;
