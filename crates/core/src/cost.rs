//! Cost models: what a request costs on disk and on flash.

pub mod benefit;
pub mod region;
pub mod software;
