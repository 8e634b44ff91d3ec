//! From requests to recommendations: what of a run belongs on flash, what flash would gain it, what devices cost.
//!
//! | ask | with | get |
//! |---|---|---|
//! | [`plan::plan`] | a traced run, a capacity | a [`plan::Plan`]: regions, and the run time to expect |
//! | [`advice::advise`] | a traced run | [`advice::Advice`]: run time by policy and capacity |
//! | [`calibration::schedule::loads`] | a tier | the loads to measure there |
//! | [`calibration::findings`] | their latencies | the cost models' parameters |
//!
//! [`Software`] is what requests take of processors; plans and advice go by it. A trace comes as
//! [`Access`](headstart_units::request::Access), once or twice from its begin; who reads it, and the clock of a
//! calibration, are the caller's.
#![forbid(unsafe_code)]

pub mod advice;
pub mod calibration;
pub mod plan;
mod software;

pub use software::Software;
