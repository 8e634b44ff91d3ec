//! What a claim on a managed directory says: who owns it, from where, and whether that agent lives.

use serde::{Deserialize, Serialize};

use crate::node;
use crate::process::{boot_id, is_zombie, start_time};

/// What a claim says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// For people who find the file.
    pub note: String,
    /// Login name.
    pub user: String,
    /// Its number.
    pub uid: u32,
    /// Name of the node.
    pub node: String,
    /// The node's machine id, where it has one and no other name was given to it.
    pub machine_id: Option<String>,
    /// The managed directory as the agent knows it.
    pub slow: String,
    /// Its inode. What files are known by tells them apart below this directory alone.
    pub inode: u64,
    /// Its birth time in nanoseconds since 1970; zero where its file system keeps none.
    pub birth_ns: u64,
    /// The directory on flash.
    pub fast: String,
    /// Boot id of the node when the agent started.
    pub boot_id: String,
    /// The agent's process.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_time: u64,
    /// Version of Headstart.
    pub version: String,
}

/// What an owner is to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same user on the same node.
    Own,
    /// Another user of this node.
    OtherUser,
    /// Another node.
    OtherNode,
}

impl Owner {
    /// What the text of a claim says, or why it is none.
    pub fn parse(text: &str) -> std::result::Result<Owner, String> {
        let owner: Owner = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if owner.node.is_empty() { Err("it names no node".into()) } else { Ok(owner) }
    }

    /// The text of a claim.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("an owner has a JSON form") + "\n"
    }

    /// What it is to this process.
    pub(crate) fn relation(&self) -> Relation {
        if !node::this().is(&self.node, self.machine_id.as_deref()) {
            Relation::OtherNode
        } else if self.uid != nix::unistd::getuid().as_raw() {
            Relation::OtherUser
        } else {
            Relation::Own
        }
    }

    /// Whether its agent is a process of this boot that still runs, and not this one.
    pub fn is_alive(&self) -> bool {
        let this_boot = boot_id().is_ok_and(|boot_id| hexadecimal(&boot_id) == self.boot_id);
        this_boot
            && self.relation() != Relation::OtherNode
            && self.pid != std::process::id()
            && start_time(self.pid) == Some(self.start_time)
            && !is_zombie(self.pid)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user {} (uid {}) on node {}, fast directory {}", self.user, self.uid, self.node, self.fast)
    }
}

/// Two digits a byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
