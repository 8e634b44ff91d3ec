//! What other threads leave for the event loop: requests, commands, and the word that it shall end.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::block::{Buffer, Done, Request};
use crate::control;
use crate::storage::bell::Bell;

/// Who waits for the end of a request: told once, also if it is dropped, as when the loop dies.
pub struct Answer(Option<Done>);

impl Answer {
    /// Will call `done`.
    pub fn new(done: Done) -> Answer {
        Answer(Some(done))
    }

    /// The end of the request.
    pub fn send(mut self, result: io::Result<Buffer>) {
        let done = self.0.take().expect("an answer is sent once");
        done(result);
    }

    /// The end of a request that failed.
    pub fn fail(self, errno: i32) {
        self.send(Err(io::Error::from_raw_os_error(errno)));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(io::Error::from_raw_os_error(libc::EIO)));
        }
    }
}

/// Hears the answer to a command; must not block.
pub type CommandDone = Box<dyn FnOnce(control::Answer) + Send>;

/// Something for the loop.
pub enum Message {
    /// A request, when it came, and who waits for it.
    Request(Request, Instant, Answer),
    /// A command.
    Command(control::Command, CommandDone),
    /// End now, as if killed.
    Die,
}

/// Whether requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The volume has ended: ESHUTDOWN.
    Closed,
    /// The loop died: EIO.
    Dead,
}

struct Contents {
    messages: Vec<Message>,
    state: State,
}

/// The mailbox.
pub struct Mailbox {
    contents: Mutex<Contents>,
    bell: Arc<Bell>,
}

impl Mailbox {
    /// An empty one, that rings this bell.
    pub fn new(bell: Arc<Bell>) -> Mailbox {
        Mailbox { contents: Mutex::new(Contents { messages: Vec::new(), state: State::Open }), bell }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a message; a request that comes too late is answered there and then.
    pub fn put(&self, message: Message) {
        let mut contents = self.lock();
        let state = contents.state;
        if state == State::Open {
            contents.messages.push(message);
            drop(contents);
            self.bell.ring();
            return;
        }
        drop(contents);
        match message {
            Message::Request(_, _, answer) => {
                answer.fail(if state == State::Dead { libc::EIO } else { libc::ESHUTDOWN })
            }
            Message::Command(_, done) => done(control::Answer::Error("the volume has ended".to_owned())),
            Message::Die => {}
        }
    }

    /// What wakes the loop when something is left.
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Takes everything.
    pub fn take(&self, messages: &mut Vec<Message>) {
        std::mem::swap(&mut self.lock().messages, messages);
    }

    /// Whether there is something to take.
    pub fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Takes nothing any more; what is still there is told so.
    pub fn close(&self, died: bool) {
        let mut contents = self.lock();
        if contents.state == State::Open {
            contents.state = if died { State::Dead } else { State::Closed };
        }
        let messages = std::mem::take(&mut contents.messages);
        drop(contents);
        messages.into_iter().for_each(|message| self.put(message));
    }
}
