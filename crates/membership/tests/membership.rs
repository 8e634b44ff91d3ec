//! The register and the locks between real processes.

#[path = "membership/history.rs"]
mod history;
#[path = "membership/holders.rs"]
mod holders;
#[path = "membership/kills.rs"]
mod kills;
#[path = "membership/roles.rs"]
mod roles;
