//! The programs through their steps: what the benchmarks are known to do, and what must hold whatever the parameters.

#[path = "workload/golden.rs"]
mod golden;
#[path = "workload/observed.rs"]
mod observed;
#[path = "workload/orders.rs"]
mod orders;
#[path = "workload/properties.rs"]
mod properties;
#[path = "workload/replay.rs"]
mod replay;
#[path = "workload/structure.rs"]
mod structure;
