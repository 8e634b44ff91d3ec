//! Which node and which user this is.
//!
//! A node is its host name and its machine id: clones of one image share the id, and names change.
//! `HEADSTART_NODE` names it instead where neither lasts, as in containers that are made anew; then the name
//! alone counts.

/// Environment: the node's name.
pub const ENVIRONMENT_NODE: &str = "HEADSTART_NODE";

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its machine id, if that counts.
    pub machine_id: Option<String>,
}

impl Node {
    /// Whether this node is the one so named.
    pub(crate) fn is(&self, name: &str, machine_id: Option<&str>) -> bool {
        let ids = self.machine_id.as_deref().zip(machine_id);
        self.name == name && ids.is_none_or(|(own, other)| own == other)
    }
}

/// The node this process runs on.
pub fn this() -> Node {
    if let Some(name) = std::env::var(ENVIRONMENT_NODE).ok().filter(|name| !name.is_empty()) {
        return Node { name, machine_id: None };
    }
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let machine_id = std::fs::read_to_string("/etc/machine-id").ok().map(|id| id.trim().to_string());
    Node {
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".into()),
        machine_id: machine_id.filter(|id| !id.is_empty()),
    }
}

/// The user's login name, or number.
pub(crate) fn user() -> String {
    let uid = nix::unistd::getuid();
    let entry = nix::unistd::User::from_uid(uid).ok().flatten();
    entry.map_or_else(|| uid.to_string(), |entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_name_and_machine_id_as_far_as_both_are_known() {
        let node = |id: Option<&str>| Node { name: "a".into(), machine_id: id.map(str::to_string) };
        assert!(node(Some("1")).is("a", Some("1")));
        assert!(!node(Some("1")).is("a", Some("2")), "clones of an image differ in one of the two");
        assert!(!node(Some("1")).is("b", Some("1")));
        assert!(node(None).is("a", Some("1")) && node(Some("1")).is("a", None), "a name that was given counts alone");
    }
}
