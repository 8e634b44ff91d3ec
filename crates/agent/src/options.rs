//! How an agent is started.

use std::path::PathBuf;

use headstart_units::Capacity;

use crate::site::Site;

/// How the agent is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The site.
    pub site: Site,
    /// Where the site file is, for messages.
    pub site_path: PathBuf,
    /// Overrides the site's capacity.
    pub capacity: Option<Capacity>,
}
