//! The control socket: one JSON object per line each way.
//!
//! | request | answer |
//! |---|---|
//! | `{"command":"stats"}` | `{"stats":{...}}` |
//! | `{"command":"reset"}` | `{"done":[]}` |
//! | `{"command":"cool"}` | `{"done":[]}` |
//! | `{"command":"down","keep_backing":false}` | `{"done":["message",...]}`, after unmounting |
//! | anything else | `{"error":"..."}` |

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::serve::{Server, Stop};
use crate::stats::TestbedStats;

/// How long a client waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A question to a running testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Request {
    /// What happened so far.
    Stats,
    /// Start counting anew.
    Reset,
    /// Forget what was read.
    Cool,
    /// Unmount and end.
    Down {
        /// Leave the backing files.
        #[serde(default)]
        keep_backing: bool,
    },
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To `stats`.
    Stats(Box<TestbedStats>),
    /// To the others, with what the user should know.
    Done(Vec<String>),
    /// The request was not understood.
    Error(String),
}

/// Asks the testbed whose socket this is.
///
/// # Errors
/// [`Error::Io`] if nobody listens, [`Error::Control`] if the answer is an error or nonsense.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer> {
    let io = |action| Error::io(action, socket);
    let mut stream = UnixStream::connect(socket).map_err(io("connect to"))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(io("prepare"))?;
    let mut line = serde_json::to_string(request).expect("requests are plain data");
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(io("write to"))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(io("read from"))?;
    match serde_json::from_str(&answer) {
        Ok(Answer::Error(error)) => Err(Error::Control(error)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(Error::Control(format!("'{}', which is no answer ({error})", answer.trim_end()))),
    }
}

/// The server's end.
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Makes the socket, usable by this user only.
    pub(crate) fn bind(path: &Path) -> Result<Listener> {
        // Left by a killed server; that nobody listens was checked when the name was claimed.
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(Error::io("make the control socket", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::io("protect", path))?;
        Ok(Listener(listener))
    }

    /// Answers questions from a thread of its own until the process ends.
    pub(crate) fn answer(self, server: Arc<Server>, stop: Sender<Stop>) {
        let serve = move || {
            for stream in self.0.incoming().flatten() {
                // A client that goes away in the middle is its own business.
                let _ = converse(stream, &server, &stop);
            }
        };
        std::thread::Builder::new()
            .name("control".to_string())
            .spawn(serve)
            .expect("the system has room for one more thread");
    }
}

fn converse(mut stream: UnixStream, server: &Server, stop: &Sender<Stop>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let reader = BufReader::new(stream.try_clone()?);
    for line in reader.lines() {
        let request = serde_json::from_str::<Request>(&line?);
        let answer = match &request {
            Ok(Request::Stats) => Answer::Stats(Box::new(server.stats())),
            Ok(Request::Reset) => {
                server.reset_stats();
                Answer::Done(Vec::new())
            }
            Ok(Request::Cool) => {
                server.empty_buffers();
                Answer::Done(Vec::new())
            }
            Ok(Request::Down { .. }) => {
                Answer::Done(server.unmount().into_iter().chain(server.dirty_message()).collect())
            }
            Err(error) => Answer::Error(format!("no such command: {error}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        stream.write_all(text.as_bytes())?;
        if let Ok(Request::Down { keep_backing }) = request {
            // The main thread may be ending for another reason already.
            let _ = stop.send(Stop::Down { keep_backing });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_table_says() {
        for (text, request) in [
            (r#"{"command":"stats"}"#, Request::Stats),
            (r#"{"command":"reset"}"#, Request::Reset),
            (r#"{"command":"cool"}"#, Request::Cool),
            (r#"{"command":"down"}"#, Request::Down { keep_backing: false }),
            (r#"{"command":"down","keep_backing":true}"#, Request::Down { keep_backing: true }),
        ] {
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#"{"command":"explode"}"#).is_err());
    }
}
