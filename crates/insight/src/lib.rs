//! From traces to recommendations: what of a run belongs on flash, what flash would gain it, and what a
//! site's devices cost.
//!
//! | module | from what to what |
//! |---|---|
//! | [`plan`] | traces and a capacity to the regions that belong on flash, with a prediction of what they gain |
//! | [`advice`] | traces to curves of gain over capacity, and the knee of them |
//! | [`calibration`] | measured latencies and rates of a site to the parameters of the cost models |
#![forbid(unsafe_code)]

pub mod advice;
pub mod calibration;
pub mod plan;
