//! Files by threads that each wait for one operation: where io_uring is refused.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::bell::Bell;
use super::positioned::perform;
use super::{Completion, Files, Operation, Storage};

/// Operations under way at once: what a disk sorts (32, the depth of NCQ).
const THREADS: usize = 32;

/// The threads.
#[derive(Debug)]
pub struct Threads {
    operations: Option<Sender<Operation>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    refused: String,
}

#[derive(Debug)]
struct Shared {
    files: Files,
    bell: Arc<Bell>,
    waiting: Mutex<Receiver<Operation>>,
    completed: Mutex<Vec<Completion>>,
}

impl Shared {
    fn work(&self) {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(operation) = next else { return };
            let completion = perform(self.files.of(operation.device), operation);
            self.completed.lock().unwrap_or_else(PoisonError::into_inner).push(completion);
            self.bell.ring();
        }
    }
}

impl Threads {
    /// Starts them; `refused` says why io_uring is not used.
    pub fn start(files: Files, bell: Arc<Bell>, refused: &io::Error) -> io::Result<Threads> {
        let (operations, waiting) = channel();
        let shared = Arc::new(Shared { files, bell, waiting: Mutex::new(waiting), completed: Mutex::default() });
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::Builder::new().name("volume-io".to_owned()).spawn(move || shared.work())?);
        }
        Ok(Threads { operations: Some(operations), shared, threads, refused: refused.to_string() })
    }
}

impl Storage for Threads {
    fn submit(&mut self, operation: Operation) {
        let sender = self.operations.as_ref().expect("it is there until the end");
        sender.send(operation).expect("the threads hold the receiver");
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.shared.completed.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.shared.bell.sleep(timeout);
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.shared.completed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn description(&self) -> String {
        format!("threads (io_uring: {})", self.refused)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.operations = None;
        for thread in self.threads.drain(..) {
            // A panic of one was reported when it happened.
            let _ = thread.join();
        }
    }
}
