//! The register between real processes.

#[path = "membership/history.rs"]
mod history;
#[path = "membership/kills.rs"]
mod kills;
#[path = "membership/roles.rs"]
mod roles;
