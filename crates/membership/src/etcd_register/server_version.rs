//! Which servers may hold a view.
//!
//! Before 3.5.23 and 3.6.5 etcd revokes leases wrongly and can serve old revisions after some failures: other programs
//! of such a cluster break, and its administrators had better know. They may be used where a site says so.

/// The oldest release of each minor version that may be used.
const FIXED: [(u32, u32, u32); 2] = [(3, 5, 23), (3, 6, 5)];

/// Why a server of this version is not used, if it is not.
pub(super) fn refusal(version: &str) -> Option<String> {
    let numbers: Vec<u32> =
        version.split(['-', '+']).next().unwrap_or("").split('.').map_while(|n| n.parse().ok()).collect();
    let [major, minor, patch] = numbers[..] else {
        return Some(format!("it says that its version is '{version}', which is none"));
    };
    let same_minor = FIXED.iter().find(|fixed| (fixed.0, fixed.1) == (major, minor));
    let is_fixed = match same_minor {
        Some(fixed) => patch >= fixed.2,
        None => (major, minor) > (FIXED[1].0, FIXED[1].1),
    };
    (!is_fixed).then(|| format!("its version {version} has known faults; use 3.5.23, 3.6.5 or a later one, or accept old ones in the site file"))
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn old_versions_are_refused_and_fixed_ones_are_not() {
        for version in ["3.5.23", "3.5.40", "3.6.5", "3.6.5+dev", "3.7.0-rc.1", "4.0.0"] {
            assert_eq!(refusal(version), None);
        }
        for version in ["2.3.8", "3.4.23", "3.4.99", "3.5.22", "3.6.0", "3.6.4-x", "", "not provided", "3.6"] {
            assert!(refusal(version).is_some_and(|text| text.contains(version)), "{version}");
        }
    }
}
