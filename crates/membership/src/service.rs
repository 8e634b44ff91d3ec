//! The thread that makes a register's calls, and the way back to an event loop.
//!
//! Questions are queued, answers are collected once the descriptor is readable. Reads that wait for the thread
//! together are one read: it begins after all of them were asked. A call that hangs hangs this thread alone; what it
//! was asked meanwhile waits, and [`Service::waiting_since_ns`] says since when.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Error, Result};
use crate::register::{Register, Swap, Value, Version, now_ns};

/// What the thread found out.
#[derive(Debug)]
pub enum Answer {
    /// To all reads that were asked before this one began.
    Read(Result<Value>),
    /// To the swap of this number.
    Swapped(u64, Result<Swap>),
}

enum Question {
    Read,
    Swap { number: u64, expected: Version, bytes: Vec<u8> },
}

#[derive(Default)]
struct State {
    questions: VecDeque<Question>,
    answers: Vec<Answer>,
    /// Since when the call under way is.
    busy_since_ns: Option<u64>,
    is_closed: bool,
}

struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    bell: EventFd,
}

/// See the module.
pub struct Service {
    shared: Arc<Shared>,
    swaps: u64,
}

const PANICS: &str = "no thread panics with the lock";

impl Service {
    /// Starts the thread.
    pub fn start(register: Box<dyn Register>) -> Result<Service> {
        let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| Error::system("create an event descriptor", error))?;
        let shared = Arc::new(Shared { state: Mutex::default(), arrived: Condvar::new(), bell });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("membership".into())
            .spawn(move || of_thread.serve(register))
            .map_err(|error| Error::system("start a thread", error))?;
        Ok(Service { shared, swaps: 0 })
    }

    /// Asks for the value; one read that has not begun answers all who asked.
    pub fn ask_read(&mut self) {
        let mut state = self.shared.state.lock().expect(PANICS);
        if !matches!(state.questions.back(), Some(Question::Read)) {
            state.questions.push_back(Question::Read);
            self.shared.arrived.notify_one();
        }
    }

    /// Asks for a swap; the number comes back with its answer.
    pub fn ask_swap(&mut self, expected: Version, bytes: Vec<u8>) -> u64 {
        self.swaps += 1;
        let question = Question::Swap { number: self.swaps, expected, bytes };
        self.shared.state.lock().expect(PANICS).questions.push_back(question);
        self.shared.arrived.notify_one();
        self.swaps
    }

    /// Readable while there are answers.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Takes all answers.
    pub fn collect(&mut self) -> Vec<Answer> {
        let mut state = self.shared.state.lock().expect(PANICS);
        let _ = self.shared.bell.read();
        std::mem::take(&mut state.answers)
    }

    /// Since when, by CLOCK_MONOTONIC, the call under way is under way; none while nothing is.
    pub fn waiting_since_ns(&self) -> Option<u64> {
        self.shared.state.lock().expect(PANICS).busy_since_ns
    }
}

impl Drop for Service {
    /// The thread ends after the call under way, for which nobody waits.
    fn drop(&mut self) {
        self.shared.state.lock().expect(PANICS).is_closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    fn serve(&self, mut register: Box<dyn Register>) {
        while let Some(question) = self.next() {
            let answer = match question {
                Question::Read => Answer::Read(register.read()),
                Question::Swap { number, expected, bytes } => Answer::Swapped(number, register.swap(expected, &bytes)),
            };
            let mut state = self.state.lock().expect(PANICS);
            state.busy_since_ns = None;
            state.answers.push(answer);
            // It fails only if the counter would overflow, and then the reader is awake anyway.
            let _ = self.bell.write(1);
        }
    }

    fn next(&self) -> Option<Question> {
        let mut state = self.state.lock().expect(PANICS);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(question) = state.questions.pop_front() {
                state.busy_since_ns = Some(now_ns());
                return Some(question);
            }
            state = self.arrived.wait(state).expect(PANICS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// Answers when the test lets it.
    struct Gated {
        began: Sender<()>,
        gate: Receiver<()>,
        reads: u64,
    }

    impl Register for Gated {
        fn read(&mut self) -> Result<Value> {
            let began_ns = now_ns();
            self.began.send(()).unwrap();
            self.gate.recv().unwrap();
            self.reads += 1;
            Ok(Value { began_ns, version: Version(self.reads), bytes: Arc::new([]) })
        }

        fn swap(&mut self, expected: Version, bytes: &[u8]) -> Result<Swap> {
            Ok(Swap::Done(Value { began_ns: now_ns(), version: Version(expected.0 + 1), bytes: bytes.into() }))
        }
    }

    fn wait(service: &Service) {
        let mut descriptors = [PollFd::new(service.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut descriptors, PollTimeout::from(60_000_u16)).unwrap(), 1);
    }

    #[test]
    fn a_call_that_hangs_stops_nobody_and_reads_that_waited_for_it_are_one() {
        let ((began_tell, began), (open, gate)) = (channel(), channel());
        let mut service = Service::start(Box::new(Gated { began: began_tell, gate, reads: 0 })).unwrap();
        assert_eq!(service.waiting_since_ns(), None);
        service.ask_read();
        began.recv().unwrap();
        assert!(service.waiting_since_ns().unwrap() <= now_ns());
        let asked_ns = now_ns();
        for _ in 0..100 {
            service.ask_read();
        }
        let number = service.ask_swap(Version(7), b"new".to_vec());
        assert!(service.collect().is_empty(), "nothing was answered");
        open.send(()).unwrap();
        open.send(()).unwrap();
        let mut answers = Vec::new();
        while answers.len() < 3 {
            wait(&service);
            answers.extend(service.collect());
        }
        let [Answer::Read(Ok(first)), Answer::Read(Ok(second)), Answer::Swapped(told, Ok(Swap::Done(value)))] =
            &answers[..]
        else {
            panic!("{answers:?}")
        };
        assert_eq!((first.version, second.version, *told), (Version(1), Version(2), number));
        assert!(first.began_ns < asked_ns && second.began_ns >= asked_ns, "a read begins after it was asked for");
        assert_eq!((value.version, &value.bytes[..]), (Version(8), &b"new"[..]));
        assert_eq!(service.waiting_since_ns(), None);
    }
}
