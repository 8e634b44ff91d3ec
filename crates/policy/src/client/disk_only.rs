//! The null policy: everything to disk. What is already on flash is still found there.

use super::{Decision, Policy, Reason};
use crate::client::Request;

/// Wants nothing on flash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskOnly;

impl Policy for DiskOnly {
    fn on_request(&self, _: &Request) -> Decision {
        Decision::Disk(Reason::Off)
    }
}
