//! What the agent told the process's first thread of the site.

use std::sync::OnceLock;

use headstart_policy::client::s4d::S4d;

/// What the agent told the process's first thread.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) s4d: S4d,
    pub(crate) fast: Vec<u8>,
}

pub(crate) static SITE: OnceLock<Site> = OnceLock::new();

/// Absolute path of the fast directory; empty before the first session.
pub(crate) fn fast_directory() -> &'static [u8] {
    SITE.get().map_or(b"", |site| &site.fast)
}
