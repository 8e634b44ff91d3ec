//! TLS 1.3 in which both sides show a certificate made of the agents' key, and nothing else is let in.
//!
//! Each agent makes the certificate at its start and trusts none but it: another's, of the same key and name, is as
//! good, as a trust anchor is a name and a key. It holds from 1975 to 4096: clocks of nodes do not matter. There are
//! no session tickets: what is connected again shows its certificate again.

use std::io;
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::error::{Error, Result};
use crate::key::Key;

/// The name that each certificate has: members tell who they are in their HELLO.
const NAME: &str = "agent.headstart.internal";

/// Makes either side of a connection.
pub(crate) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    pub(crate) fn new(key: &Key) -> Result<Tls> {
        prepare(key).map_err(|problem| Error::Key { path: key.path().into(), problem })
    }

    /// The side that dials.
    pub(crate) fn dialling(&self) -> io::Result<Connection> {
        let name = ServerName::try_from(NAME).expect("the name is one");
        Ok(ClientConnection::new(Arc::clone(&self.client), name).map_err(io::Error::other)?.into())
    }

    /// The side that is dialled.
    pub(crate) fn accepting(&self) -> io::Result<Connection> {
        Ok(ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?.into())
    }
}

fn prepare(key: &Key) -> std::result::Result<Tls, String> {
    let says = |error: &dyn std::error::Error| format!("no certificate can be made of it: {error}");
    let certificate = certificate(key).map_err(|error| says(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(|error| says(&error))?;
    let roots = Arc::new(roots);
    let private = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.pair().serialize_der()));
    let provider = Arc::new(ring::default_provider());

    let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| says(&error))?
        .with_root_certificates(Arc::clone(&roots))
        .with_client_auth_cert(vec![certificate.clone()], private())
        .map_err(|error| says(&error))?;
    client.resumption = Resumption::disabled();
    client.enable_sni = false;

    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| says(&error))?
        .with_client_cert_verifier(verifier.build().map_err(|error| says(&error))?)
        .with_single_cert(vec![certificate], private())
        .map_err(|error| says(&error))?;
    server.send_tls13_tickets = 0;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
}

fn certificate(key: &Key) -> std::result::Result<CertificateDer<'static>, rcgen::Error> {
    let mut parameters = CertificateParams::new(vec![NAME.to_string()])?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, NAME);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(parameters.self_signed(key.pair())?.der().clone())
}
