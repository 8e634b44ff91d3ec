//! What stands between ranks and servers.

use crate::overlay::Site;
use crate::placed::Placed;

/// The policy at work.
pub enum Client {
    /// None: requests go to the disks.
    Stock,
    /// Regions lie on flash from the begin.
    Placed(Placed),
    /// Agents and their library.
    Overlay(Box<Site>),
}
