//! One member of a managed directory, as the register has it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::node_files::NODES_MAX;

/// Longest name, id or path; assumed: twice the longest host name, and the kernel's longest path.
pub(super) const TEXT_BYTES_MAX: usize = 4096;
/// Addresses of one member; assumed: more than a node has networks.
const ADDRESSES_MAX: usize = 64;

/// A member's place: `headstart_cluster::MemberId`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Number among the nodes.
    pub node: u16,
    /// How often a node joined under that number before.
    pub life: u16,
}

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It wants to join, and may be answered; it has nothing yet.
    Knocking,
    /// It is there by itself, or so it was: its programs have no deadline, so that nobody may act on its absence.
    Unarmed,
    /// Its programs have a deadline.
    Armed,
    /// It was silent, and given up: what a barrier had covered of what its flash alone has counts.
    Expelled,
    /// It left, with nothing on flash that the disks have not.
    Left,
}

/// What counts of the journal of a member that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Who copied it.
    pub by: Place,
    /// How many bytes of the copy.
    pub bytes: u64,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its place.
    pub place: Place,
    /// How many agents it had before.
    pub incarnation: u32,
    /// How it stands.
    pub standing: Standing,
    /// What it is called.
    pub name: String,
    /// The node's machine id, where it has one and no other name was given to it.
    pub machine_id: Option<String>,
    /// The node's boot.
    pub boot_id: String,
    /// Under which name it holds its locks, if it does.
    pub locks: Option<String>,
    /// Where its agent listens, if it does.
    pub addresses: Vec<SocketAddr>,
    /// Of one that was given up, once nothing of it can change any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Of one that knocks: a member that has seen so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_by: Option<Place>,
}

impl Member {
    /// Whether it has a seat: it is there, or may have something on flash.
    pub fn is_seated(&self) -> bool {
        matches!(self.standing, Standing::Unarmed | Standing::Armed)
    }

    /// Whether it is this node's.
    pub(crate) fn is_of(&self, node: &Node) -> bool {
        node.is(&self.name, self.machine_id.as_deref())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let texts = [&self.name, &self.boot_id].into_iter().chain(&self.machine_id).chain(&self.locks);
        for text in texts {
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.contains(['\0', '\n']) {
                return Err(format!("a name of member {} cannot be one", self.place.node));
            }
        }
        // Lock files are named by it.
        if self.locks.as_ref().is_some_and(|name| name.contains('/') || name.starts_with('.')) {
            return Err(format!("the locks of member {} have a name that no file has", self.place.node));
        }
        if self.place.node >= NODES_MAX || self.addresses.len() > ADDRESSES_MAX {
            return Err(format!("member {} has a number or addresses that no member has", self.place.node));
        }
        Ok(())
    }
}
