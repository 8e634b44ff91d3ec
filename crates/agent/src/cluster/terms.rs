//! What all nodes of a directory must agree to.

use std::path::PathBuf;

use crate::cluster::roster::{Roster, Terms};
use crate::error::{Error, Result};
use crate::site::{ClusterSite, Membership, Site};

/// Version of what agents say to each other.
pub(crate) const VERSION: u32 = 1;

/// This site's.
pub(crate) fn of(site: &Site, cluster: &ClusterSite) -> Terms {
    Terms {
        version: VERSION,
        slow: site.slow.display().to_string(),
        fast: site.fast.display().to_string(),
        hold_ms: cluster.timing.hold.0 / 1_000_000,
        margin_ms: cluster.timing.margin.0 / 1_000_000,
        locks: matches!(cluster.membership, Membership::Locks),
    }
}

/// Refuses to join nodes that go by others.
pub(crate) fn refuse_others(own: &Terms, roster: &Roster) -> Result<()> {
    let theirs = &roster.terms;
    let membership = |locks: bool| if locks { "locks" } else { "etcd" };
    let differing = [
        ("the version of the agents' protocol", own.version.to_string(), theirs.version.to_string()),
        ("slow", own.slow.clone(), theirs.slow.clone()),
        ("fast", own.fast.clone(), theirs.fast.clone()),
        ("[cluster] hold_s", (own.hold_ms / 1000).to_string(), (theirs.hold_ms / 1000).to_string()),
        ("[cluster] margin_s", (own.margin_ms / 1000).to_string(), (theirs.margin_ms / 1000).to_string()),
        ("[cluster] membership", membership(own.locks).into(), membership(theirs.locks).into()),
    ];
    match differing.into_iter().find(|(_, here, there)| here != there) {
        None => Ok(()),
        Some((what, here, there)) => Err(Error::Terms {
            slow: PathBuf::from(&own.slow),
            nodes: roster.seated().map(|member| member.name.clone()).collect(),
            what,
            here,
            there,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::roster::Standing;
    use crate::cluster::roster::tests::{member, terms};

    #[test]
    fn what_differs_between_nodes_is_named_with_both_values() {
        let roster = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        assert!(refuse_others(&terms(), &roster).is_ok());
        for (own, words) in [
            (Terms { version: 9, ..terms() }, ["version", "9", "1"]),
            (Terms { fast: "/flash".into(), ..terms() }, ["fast", "/flash", "/fast"]),
            (Terms { hold_ms: 5000, ..terms() }, ["hold_s", "5", "30"]),
            (Terms { locks: false, ..terms() }, ["membership", "etcd", "locks"]),
        ] {
            let error = refuse_others(&own, &roster).unwrap_err();
            let text = error.to_string();
            assert!(words.iter().chain(&["/slow", "node a"]).all(|word| text.contains(word)), "{text}");
            assert!(error.means_in_use());
        }
    }
}
