//! The register, the locks and the probe between real processes.

#[path = "membership/history.rs"]
mod history;
#[path = "membership/holders.rs"]
mod holders;
#[path = "membership/kills.rs"]
mod kills;
#[path = "membership/probes.rs"]
mod probes;
#[path = "membership/roles.rs"]
mod roles;
