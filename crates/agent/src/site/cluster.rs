//! `[cluster]` in the site file: how the nodes that share the directories find each other, and how long one may be
//! silent. Where file locks are seen between nodes nothing of it is needed.

use std::path::PathBuf;

use headstart_cluster::Timing;
use headstart_membership::EtcdSettings;
use headstart_transport::Listen;
use headstart_units::Nanos;
use serde::{Deserialize, Serialize};

/// For how many seconds a look at the membership service holds; assumed: longer than a server of a file system takes to
/// recover, shorter than a job's walltime by far.
const HOLD_S: u64 = 30;
/// How many seconds longer others wait; assumed: far more than clocks go apart in the time of one look.
const MARGIN_S: u64 = 5;
/// Longest of either; assumed.
const TIME_S_MAX: u64 = 3600;

/// The table as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Where the view is kept: `locks` in files of the shared directories, `etcd` in etcd; `locks` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<String>,
    /// Servers of etcd, as `https://HOST:2379`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<String>,
    /// Certificates of those who signed the servers'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_ca: Option<PathBuf>,
    /// This client's certificate, with `etcd_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_certificate: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_key: Option<PathBuf>,
    /// User, with `etcd_password_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_user: Option<String>,
    /// The file with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_password_file: Option<PathBuf>,
    /// Servers are used whose version is known to lose revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_accept_old: Option<bool>,
    /// Where agents listen for each other: an interface, an address or a host name, and a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// What this node is called among the members; its own name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// So many seconds a look at the membership service holds; 30 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<u64>,
    /// So many seconds more others wait for a member that is silent; 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_s: Option<u64>,
}

/// Where the view is kept.
#[derive(Clone, Debug)]
pub(crate) enum Membership {
    /// In files of the fast directory; locks say who is there.
    Locks,
    /// In etcd; the key is still to be set.
    Etcd(Box<EtcdSettings>),
}

/// The table as it is meant.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSite {
    pub(crate) membership: Membership,
    pub(crate) listen: Listen,
    pub(crate) name: Option<String>,
    pub(crate) timing: Timing,
}

impl ClusterSettings {
    /// What it says, or what is wrong with it.
    pub(crate) fn meant(&self) -> Result<ClusterSite, String> {
        let wrong = |problem: String| format!("[cluster] {problem}");
        let listen =
            self.listen.as_deref().unwrap_or("").parse::<Listen>().map_err(|error| wrong(error.to_string()))?;
        if let Some(name) = &self.name {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
                return Err(wrong(format!(
                    "name is {name:?}; it is at most 64 letters of a to z, digits, '-', '_' and '.'"
                )));
            }
        }
        let seconds = |key: &str, value: Option<u64>, default: u64| match value.unwrap_or(default) {
            seconds @ 1..=TIME_S_MAX => Ok(Nanos(seconds * 1_000_000_000)),
            other => Err(wrong(format!("{key} is {other}; it is a number of seconds from 1 to {TIME_S_MAX}"))),
        };
        let timing = Timing {
            hold: seconds("hold_s", self.hold_s, HOLD_S)?,
            margin: seconds("margin_s", self.margin_s, MARGIN_S)?,
        };
        let membership = self.membership().map_err(wrong)?;
        Ok(ClusterSite { membership, listen, name: self.name.clone(), timing })
    }

    fn membership(&self) -> Result<Membership, String> {
        let named = self.membership.as_deref().unwrap_or("locks");
        match named {
            "locks" => match self.first_of_etcd() {
                Some(key) => Err(format!("{key} is set, and membership is \"locks\"; say membership = \"etcd\"")),
                None => Ok(Membership::Locks),
            },
            "etcd" => self.etcd().map(|settings| Membership::Etcd(Box::new(settings))),
            other => Err(format!("membership is {other:?}; it must be \"locks\" or \"etcd\"")),
        }
    }

    /// A key that has no meaning without etcd, if one is set.
    fn first_of_etcd(&self) -> Option<&'static str> {
        let set = [
            ("etcd", !self.etcd.is_empty()),
            ("etcd_ca", self.etcd_ca.is_some()),
            ("etcd_certificate", self.etcd_certificate.is_some()),
            ("etcd_key", self.etcd_key.is_some()),
            ("etcd_user", self.etcd_user.is_some()),
            ("etcd_password_file", self.etcd_password_file.is_some()),
            ("etcd_accept_old", self.etcd_accept_old.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
    }

    fn etcd(&self) -> Result<EtcdSettings, String> {
        if self.etcd.is_empty() {
            return Err("membership is \"etcd\", and etcd names no server; name at least one, as \
                        etcd = [\"https://HOST:2379\"]"
                .into());
        }
        let is_server = |server: &&String| server.starts_with("http://") || server.starts_with("https://");
        if let Some(other) = self.etcd.iter().find(|server| !is_server(server)) {
            return Err(format!("etcd has {other:?}; a server is named as \"https://HOST:2379\""));
        }
        let pair = |names: [&str; 2], first: bool, second: bool| match first == second {
            true => Ok(()),
            false => Err(format!("{} and {} belong together; one of them is missing", names[0], names[1])),
        };
        let (certificate, key) = (&self.etcd_certificate, &self.etcd_key);
        pair(["etcd_certificate", "etcd_key"], certificate.is_some(), key.is_some())?;
        let (user, password) = (&self.etcd_user, &self.etcd_password_file);
        pair(["etcd_user", "etcd_password_file"], user.is_some(), password.is_some())?;
        let mut settings = EtcdSettings::new(self.etcd.clone(), "");
        settings.ca.clone_from(&self.etcd_ca);
        settings.identity = certificate.clone().zip(key.clone());
        settings.user = user.clone().zip(password.clone());
        settings.accept_old = self.etcd_accept_old.unwrap_or(false);
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(text: &str) -> Result<ClusterSite, String> {
        toml::from_str::<ClusterSettings>(text).map_err(|error| error.to_string())?.meant()
    }

    #[test]
    fn nothing_is_needed_where_locks_are_seen_between_nodes() {
        let site = meant("").unwrap();
        assert!(matches!(site.membership, Membership::Locks) && site.name.is_none());
        assert_eq!(site.timing, Timing { hold: Nanos(30_000_000_000), margin: Nanos(5_000_000_000) });
    }

    #[test]
    fn etcd_is_taken_with_all_that_it_needs() {
        let text = "membership = \"etcd\"\netcd = [\"https://a:1\", \"http://b:2\"]\netcd_ca = \"/ca\"\nhold_s = 5\n\
                    etcd_certificate = \"/c\"\netcd_key = \"/k\"\netcd_user = \"u\"\netcd_password_file = \"/p\"";
        let site = meant(text).unwrap();
        let Membership::Etcd(etcd) = site.membership else { panic!("{site:?}") };
        assert_eq!((etcd.endpoints.len(), etcd.identity.is_some(), etcd.user.unwrap().0), (2, true, "u".into()));
        assert_eq!(site.timing.hold, Nanos(5_000_000_000));
    }

    #[test]
    fn a_bad_value_is_named_with_what_it_must_be() {
        let cases = [
            ("membership = \"lock\"", &["lock", "\"locks\" or \"etcd\""][..]),
            ("membership = \"etcd\"", &["names no server", "https://HOST:2379"]),
            ("membership = \"etcd\"\netcd = [\"a:2379\"]", &["a:2379", "https://HOST:2379"]),
            ("etcd = [\"http://a:1\"]", &["etcd is set", "membership = \"etcd\""]),
            ("etcd_user = \"u\"", &["etcd_user is set"]),
            ("membership = \"etcd\"\netcd = [\"http://a:1\"]\netcd_key = \"/k\"", &["etcd_certificate and etcd_key"]),
            ("listen = \"a:b\"", &["listen = \"a:b\""]),
            ("name = \"a b\"", &["name is \"a b\"", "64 letters"]),
            ("hold_s = 0", &["hold_s is 0", "1 to 3600"]),
            ("margin_s = 4000", &["margin_s is 4000"]),
            ("lease = 3", &["lease"]),
        ];
        for (text, words) in cases {
            let problem = meant(text).unwrap_err();
            assert!(words.iter().all(|word| problem.contains(word)), "{text}: {problem}");
        }
    }
}
