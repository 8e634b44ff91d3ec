//! Which etcd, and how it is talked to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::{Error, Result};

/// How long one attempt at one server may take; assumed: an election of etcd takes one to two seconds by its defaults.
const ATTEMPT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`, one a server.
    pub endpoints: Vec<String>,
    /// The key of the managed directory.
    pub key: String,
    /// Certificates of those who signed the servers'; needed for `https`.
    pub ca: Option<PathBuf>,
    /// This client's certificate and private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in the servers' certificates, where it is not the endpoints'.
    pub server_name: Option<String>,
    /// User and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// Servers whose version is known to lose leases or revisions are used all the same.
    pub accept_old: bool,
    /// How long one attempt at one server may take.
    pub attempt: Duration,
}

impl EtcdSettings {
    /// Without TLS and user.
    pub fn new(endpoints: Vec<String>, key: impl Into<String>) -> EtcdSettings {
        let (ca, identity, server_name, user) = (None, None, None, None);
        EtcdSettings {
            endpoints,
            key: key.into(),
            ca,
            identity,
            server_name,
            user,
            accept_old: false,
            attempt: ATTEMPT,
        }
    }

    /// The endpoints as tonic takes them.
    pub(super) fn targets(&self) -> Result<Vec<Endpoint>> {
        let setting =
            |setting: &str, problem: &str| Error::Setting { setting: setting.into(), problem: problem.into() };
        if self.endpoints.is_empty() {
            return Err(setting("etcd", "name at least one server, as \"https://HOST:2379\""));
        }
        let mut targets = Vec::new();
        for text in &self.endpoints {
            let is_tls = text.starts_with("https://");
            if !is_tls && !text.starts_with("http://") {
                return Err(setting(text, "an etcd server is named as \"https://HOST:2379\" or \"http://HOST:2379\""));
            }
            let target = Endpoint::from_shared(text.clone()).map_err(|error| setting(text, &error.to_string()))?;
            let target = target.connect_timeout(self.attempt);
            let target = if is_tls {
                target.tls_config(self.tls(text)?).map_err(|error| setting(text, &describe(&error)))?
            } else {
                target
            };
            targets.push(target);
        }
        Ok(targets)
    }

    fn tls(&self, endpoint: &str) -> Result<ClientTlsConfig> {
        let Some(ca) = &self.ca else {
            let problem = "https needs the file with the certificates of those who signed the server's".into();
            return Err(Error::Setting { setting: endpoint.into(), problem });
        };
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(if let Some(name) = &self.server_name { tls.domain_name(name) } else { tls })
    }

    /// User and password.
    pub(super) fn credentials(&self) -> Result<Option<(String, String)>> {
        let Some((user, file)) = &self.user else { return Ok(None) };
        let password = String::from_utf8(read(file)?)
            .map_err(|error| Error::file("read the password in", file, std::io::Error::other(error)))?;
        Ok(Some((user.clone(), password.trim_end_matches('\n').into())))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::file("read", path, error))
}

/// An error with what caused it, which errors of networks leave out of their text.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        let problem = |endpoints: &[&str], ca: Option<&str>| {
            let mut settings = EtcdSettings::new(endpoints.iter().map(|&text| text.into()).collect(), "key");
            settings.ca = ca.map(PathBuf::from);
            settings.targets().unwrap_err().to_string()
        };
        assert!(problem(&[], None).contains("at least one"));
        assert!(problem(&["http://a:1", "b:2379"], None).starts_with("b:2379: "));
        assert!(problem(&["https://a:2379"], None).contains("https needs"));
        assert!(problem(&["https://a:2379"], Some("/no/such/file")).contains("/no/such/file"));
        assert!(problem(&["http://a b"], None).contains("http://a b"));
    }
}
