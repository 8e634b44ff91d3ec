//! What the site file says, and what commands have changed of it since.

use std::path::Path;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::selection::Selection;
use crate::site::Site;
use crate::store::as_path;

use super::log::Log;

/// See the module.
pub(super) struct ServedSite {
    site: Site,
    capacity: String,
    /// Which files may come to flash.
    selection: Selection,
    log: Log,
}

impl ServedSite {
    pub(super) fn new(options: Options, runtime: &Path) -> Result<ServedSite> {
        let Options { site, site_path, capacity } = options;
        let selection = site.selection().map_err(|problem| Error::Site { path: site_path, problem })?;
        let capacity = capacity.map(|capacity| capacity.to_string());
        let capacity = capacity.or_else(|| site.capacity.clone()).unwrap_or_else(|| "20%".into());
        let log = Log::of(runtime, site.agent.as_ref().and_then(|agent| agent.log_bytes_max));
        Ok(ServedSite { site, capacity, selection, log })
    }

    /// As it holds now.
    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    /// The agent's log.
    pub(super) fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The slow directory.
    pub(super) fn slow(&self) -> &Path {
        &self.site.slow
    }

    /// The fast directory.
    pub(super) fn fast(&self) -> &Path {
        &self.site.fast
    }

    /// How much flash is used, as it was said.
    pub(super) fn capacity(&self) -> &str {
        &self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: String) {
        self.capacity = capacity;
    }

    /// Other patterns say from now on which files may come to flash.
    pub(super) fn select(&mut self, include: Vec<String>, exclude: Vec<String>) -> std::result::Result<(), String> {
        self.selection = Selection::new(&include, &exclude)?;
        (self.site.include, self.site.exclude) = (include, exclude);
        Ok(())
    }

    /// Whether patterns keep the file off flash.
    pub(super) fn excludes(&self, path: &[u8]) -> bool {
        as_path(path).strip_prefix(&self.site.slow).is_ok_and(|below| self.selection.excludes(below))
    }
}
