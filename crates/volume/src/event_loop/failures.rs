//! Failures of devices that were reported: each is logged once.

use headstart_block::devices::Device;
use headstart_block::engine::Engine;
use headstart_policy::server::Policy;

use super::figures::Figures;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    /// Disk, flash.
    failed: (bool, bool),
}

impl Failures {
    /// Which devices have failed: disk, flash.
    pub(super) fn devices(&self) -> (bool, bool) {
        self.failed
    }

    /// Says what has failed since the last time.
    pub(super) fn report<P: Policy>(&mut self, engine: &Engine<P>, figures: &Figures) {
        let failed = engine.has_failed();
        if failed.0 && !self.failed.0 {
            let disk = figures.device(Device::Disk, true).name;
            tracing::error!(disk, "the disk has failed: what bypasses flash fails, and so does FLUSH");
        }
        if failed.1 && !self.failed.1 {
            let flash = figures.device(Device::Flash, true).name;
            tracing::error!(flash, "the flash has failed: writes and FLUSH fail, what only flash held cannot be read");
        }
        self.failed = failed;
    }
}
