//! The register, the locks and the probe between real processes; etcd where it is installed.

#[path = "membership/etcd.rs"]
mod etcd;
#[path = "membership/etcd_servers.rs"]
mod etcd_servers;
#[path = "membership/file_systems.rs"]
mod file_systems;
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
