//! The register in etcd: one key a managed directory, swapped by its modification revision.
//!
//! No lease and no watch: a member's deadline is counted from its own linearizable reads, and it reads often enough.
//! Servers are asked in turn, from the one that answered last; each attempt has its own time. An attempt of which no
//! answer came may be carried out later: the next one makes the same comparison, and finds by the nonce whether it was.
//!
//! tokio runs within the calls, in the thread that makes them.

mod messages;
mod server;
mod server_version;
mod settings;

use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::envelope;
use crate::error::{Error, Result};
use crate::register::{Register, Swap, Value, Version, now_ns, refuse_too_long};

use messages::{
    Compare, KeyValue, Operation, Outcome, PutRequest, RangeRequest, RangeResponse, RequestOp, TARGET_MOD, TxnRequest,
    TxnResponse,
};
use server::{Common, Failed, How, RANGE, Server, TXN};
pub use settings::EtcdSettings;

/// What a server says when it is asked at a start: its version, or why it does not serve.
pub type Checked = (String, std::result::Result<String, String>);

/// See the module.
pub struct EtcdRegister {
    runtime: Runtime,
    servers: Vec<Server>,
    /// The server that answered last.
    last: usize,
    common: Common,
    key: String,
    version: u64,
    bytes: Arc<[u8]>,
}

impl EtcdRegister {
    /// Connects to nobody yet.
    pub fn new(settings: &EtcdSettings) -> Result<EtcdRegister> {
        let targets = settings.targets()?;
        let servers = settings.endpoints.iter().zip(targets).map(|(name, target)| Server::new(name, target));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(EtcdRegister {
            runtime: runtime.map_err(|error| Error::system("start the runtime of the network", error))?,
            servers: servers.collect(),
            last: 0,
            common: Common {
                credentials: settings.credentials()?,
                accept_old: settings.accept_old,
                attempt: settings.attempt,
                has_certificate: settings.identity.is_some(),
                cluster: None,
            },
            key: settings.key.clone(),
            version: 0,
            bytes: Arc::new([]),
        })
    }

    /// Asks every server for its version, and reads once.
    ///
    /// # Errors
    /// No server serves, or one that answers must not be used: its version is refused, or it is of another cluster.
    pub fn check(&mut self) -> Result<Vec<Checked>> {
        let mut checked = Vec::new();
        for server in &mut self.servers {
            let version = self.runtime.block_on(server.version(&mut self.common));
            if let Err(Failed { problem, how: How::Refused }) = version {
                return Err(Error::RefusedServer { problem });
            }
            checked.push((server.name.clone(), version.map_err(|failed| failed.problem)));
        }
        self.read()?;
        Ok(checked)
    }

    /// What each server was asked, from the last that answered on, until one answers; `unsure` tells whether one of
    /// those before may have carried it out.
    fn ask<Q, A>(&mut self, path: &'static str, question: &Q) -> std::result::Result<(A, bool), (Vec<String>, bool)>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let (mut problems, mut unsure) = (Vec::new(), false);
        let count = self.servers.len();
        for at in (self.last..count).chain(0..self.last) {
            match self.runtime.block_on(self.servers[at].call(&mut self.common, path, question)) {
                Ok(answer) => {
                    self.last = at;
                    return Ok((answer, unsure));
                }
                Err(failed) => {
                    unsure |= failed.how.is_unsure();
                    problems.push(failed.problem);
                }
            }
        }
        Err((problems, unsure))
    }

    fn place(&self) -> String {
        format!("the key {} of etcd at {}", self.key, self.servers[self.last].name)
    }

    fn opened(&self, found: &KeyValue) -> Result<(envelope::Nonce, Arc<[u8]>)> {
        let (nonce, value) = envelope::open(&|| self.place(), &found.value)?;
        Ok((nonce, value.into()))
    }

    fn know(&mut self, version: u64, bytes: Arc<[u8]>, began_ns: u64) -> Value {
        (self.version, self.bytes) = (version, bytes);
        Value { began_ns, version: Version(version), bytes: Arc::clone(&self.bytes) }
    }

    fn went_back(&self) -> Error {
        Error::WentBack { place: self.place(), known: self.version }
    }

    /// What an answer to a read shows; values as old as the known one were left out.
    fn learn(&mut self, answer: &RangeResponse, began_ns: u64) -> Result<Value> {
        match answer.values.first() {
            Some(found) => {
                let (_, bytes) = self.opened(found)?;
                Ok(self.know(found.mod_revision as u64, bytes, began_ns))
            }
            None if (answer.count == 0) != (self.version == 0) => Err(self.went_back()),
            None => Ok(self.know(self.version, Arc::clone(&self.bytes), began_ns)),
        }
    }

    fn swap_question(&self, expected: Version, sealed: Vec<u8>) -> TxnRequest {
        let key = self.key.clone().into_bytes();
        let compare = Compare { target: TARGET_MOD, key: key.clone(), mod_revision: Some(expected.0 as i64) };
        let operation = |operation| vec![RequestOp { request: Some(operation) }];
        TxnRequest {
            compare: vec![compare],
            success: operation(Operation::Put(PutRequest { key: key.clone(), value: sealed })),
            failure: operation(Operation::Range(RangeRequest { key, min_mod_revision: 0 })),
        }
    }
}

impl Register for EtcdRegister {
    fn read(&mut self) -> Result<Value> {
        let began_ns = now_ns();
        let question = RangeRequest { key: self.key.clone().into(), min_mod_revision: self.version as i64 + 1 };
        let (answer, _) =
            self.ask::<_, RangeResponse>(RANGE, &question).map_err(|(problems, _)| Error::Unreachable { problems })?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision as u64);
        if revision < self.version {
            return Err(self.went_back());
        }
        self.learn(&answer, began_ns)
    }

    fn swap(&mut self, expected: Version, bytes: &[u8]) -> Result<Swap> {
        refuse_too_long(bytes)?;
        let began_ns = now_ns();
        let nonce = envelope::fresh_nonce()?;
        let question = self.swap_question(expected, envelope::seal(&nonce, bytes));
        let (answer, was_unsure) = match self.ask::<_, TxnResponse>(TXN, &question) {
            Ok(answered) => answered,
            Err((problems, true)) => return Err(Error::Unsure { problem: problems.join("; ") }),
            Err((problems, false)) => return Err(Error::Unreachable { problems }),
        };
        let revision = answer.header.unwrap_or_default().revision as u64;
        if answer.succeeded {
            return Ok(Swap::Done(self.know(revision, bytes.into(), began_ns)));
        }
        let found = answer.responses.into_iter().find_map(|response| match response.response {
            Some(Outcome::Range(range)) => range.values.into_iter().next(),
            _ => None,
        });
        let Some(found) = found else {
            // The key is not there, so nothing of this swap is: an attempt before found the same.
            return if self.version == 0 {
                Ok(Swap::Lost(self.know(0, Arc::new([]), began_ns)))
            } else {
                Err(self.went_back())
            };
        };
        let (found_nonce, found_bytes) = self.opened(&found)?;
        let value = self.know(found.mod_revision as u64, found_bytes, began_ns);
        if found_nonce == nonce {
            Ok(Swap::Done(value))
        } else if was_unsure {
            Err(Error::Unsure { problem: format!("{} was swapped again meanwhile", self.place()) })
        } else {
            Ok(Swap::Lost(value))
        }
    }
}
