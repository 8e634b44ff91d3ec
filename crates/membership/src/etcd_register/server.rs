//! One etcd server: its connection, made when it is needed and again after each failure, and the calls.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::messages::{AuthenticateRequest, AuthenticateResponse, StatusRequest, StatusResponse};
use super::server_version;
use super::settings::describe;

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Why a call gave nothing.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) problem: String,
    pub(super) how: How,
}

/// What is known of a call that gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It was not carried out and will not be.
    NotDone,
    /// It may have been carried out, or may still be.
    Unsure,
    /// The same, and the time for the attempt is over.
    Late,
    /// The server must not be used.
    Refused,
}

impl How {
    pub(super) fn is_unsure(self) -> bool {
        matches!(self, How::Unsure | How::Late)
    }
}

/// What all servers have in common.
pub(super) struct Common {
    pub(super) credentials: Option<(String, String)>,
    pub(super) accept_old: bool,
    pub(super) attempt: Duration,
    pub(super) has_certificate: bool,
    /// Of the first server that answered: all must be of one cluster.
    pub(super) cluster: Option<u64>,
}

impl Common {
    /// A server that misses this client's certificate hangs up, and does not always say why.
    fn with_hint(&self, target: &Endpoint, Failed { problem, how }: Failed) -> Failed {
        let may_be_missed = target.uri().scheme_str() == Some("https") && !self.has_certificate;
        let hint = if may_be_missed { " (does it ask for a client's certificate? None is set)" } else { "" };
        Failed { problem: problem + hint, how }
    }
}

pub(super) struct Server {
    pub(super) name: String,
    target: Endpoint,
    connection: Option<Connection>,
}

struct Connection {
    channel: Channel,
    version: String,
    token: Option<MetadataValue<Ascii>>,
}

impl Server {
    pub(super) fn new(name: &str, target: Endpoint) -> Server {
        Server { name: name.into(), target, connection: None }
    }

    /// Makes a call within the time for an attempt; twice where the first failed on a connection made before.
    pub(super) async fn call<Q, A>(
        &mut self,
        common: &mut Common,
        path: &'static str,
        question: &Q,
    ) -> Result<A, Failed>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut was_unsure = false;
        let until = Instant::now() + common.attempt;
        if let Some(connection) = &self.connection {
            match within(until, connection.unary(path, question.clone())).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => {
                    self.connection = None;
                    was_unsure = failed.how.is_unsure();
                    if failed.how == How::Late {
                        return Err(self.named(failed));
                    }
                }
            }
        }
        match self.call_anew(until, common, path, question).await {
            Ok(answer) => Ok(answer),
            Err(Failed { problem, how }) => {
                let how = if was_unsure { How::Unsure } else { how };
                Err(self.named(Failed { problem, how }))
            }
        }
    }

    async fn call_anew<Q, A>(
        &mut self,
        until: Instant,
        common: &mut Common,
        path: &'static str,
        question: &Q,
    ) -> Result<A, Failed>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let connection = within(until, Connection::make(&self.target, common)).await.map_err(before)?;
        let answer = within(until, connection.unary(path, question.clone())).await?;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// The server's version, from a connection of now.
    pub(super) async fn version(&mut self, common: &mut Common) -> Result<String, Failed> {
        self.connection = None;
        match within(Instant::now() + common.attempt, Connection::make(&self.target, common)).await {
            Ok(connection) => Ok(self.connection.insert(connection).version.clone()),
            Err(failed) => Err(self.named(failed)),
        }
    }

    fn named(&self, failed: Failed) -> Failed {
        Failed { problem: format!("{}: {}", self.name, failed.problem), how: failed.how }
    }
}

async fn within<T>(until: Instant, call: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let late = || Err(Failed { problem: "no answer in time".into(), how: How::Late });
    tokio::time::timeout_at(until, call).await.unwrap_or_else(|_| late())
}

fn not_done(problem: String) -> Failed {
    Failed { problem, how: How::NotDone }
}

impl Connection {
    async fn make(target: &Endpoint, common: &mut Common) -> Result<Connection, Failed> {
        let channel = target.connect().await.map_err(|error| not_done(describe(&error)))?;
        let mut connection = Connection { channel, version: String::new(), token: None };
        let asked = connection.unary(STATUS, StatusRequest {}).await.map_err(before);
        let status: StatusResponse = asked.map_err(|failed| common.with_hint(target, failed))?;
        if let Some(refusal) = server_version::refusal(&status.version).filter(|_| !common.accept_old) {
            return Err(Failed { problem: refusal, how: How::Refused });
        }
        let cluster = status.header.unwrap_or_default().cluster_id;
        if *common.cluster.get_or_insert(cluster) != cluster {
            let problem = "it belongs to another etcd cluster than the others".into();
            return Err(Failed { problem, how: How::Refused });
        }
        connection.version = status.version;
        if let Some((name, password)) = &common.credentials {
            let question = AuthenticateRequest { name: name.clone(), password: password.clone() };
            let answer: AuthenticateResponse = connection.unary(AUTHENTICATE, question).await.map_err(before)?;
            let token = answer.token.parse().map_err(|_| not_done("its token is no text".into()))?;
            connection.token = Some(token);
        }
        Ok(connection)
    }

    async fn unary<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Failed>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut request = Request::new(question);
        // A server that has lost its leader says so at once.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| not_done(describe(&error)))?;
        let path = Uri::from_static(path).into_parts().path_and_query.expect("it is a path");
        let answer = client.unary(request, path, ProstCodec::<Q, A>::default()).await;
        answer.map(tonic::Response::into_inner).map_err(|status| refused(&status))
    }
}

/// A call before the one that was asked for: that one was not made.
fn before(Failed { problem, how }: Failed) -> Failed {
    Failed { problem, how: if how == How::Refused { how } else { How::NotDone } }
}

fn refused(status: &Status) -> Failed {
    let certain = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::FailedPrecondition,
        Code::ResourceExhausted,
        Code::Unimplemented,
    ];
    let problem = match (status.message(), std::error::Error::source(status)) {
        (message, Some(cause)) => format!("{message}: {}", describe(cause)),
        ("", None) => status.code().description().to_owned(),
        (message, None) => message.to_owned(),
    };
    Failed { problem, how: if certain.contains(&status.code()) { How::NotDone } else { How::Unsure } }
}
