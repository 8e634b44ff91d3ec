//! A disk in memory that remembers what it was asked, and answers from a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use headstart_units::request::Range;
use headstart_volume::block::{Block, Buffer, Done, Request};

/// What came, but for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Read(Range),
    Write(Range, bool),
    Zero(Range, bool),
    Flush,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    queue: VecDeque<(Request, Done)>,
    is_over: bool,
}

/// The disk; answers only while `hold` requests wait.
pub struct Memory {
    bytes: usize,
    pub discards: bool,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Memory {
    /// A disk of zeros.
    pub fn new(bytes: usize) -> Memory {
        Memory::answering_in_batches(bytes, 1)
    }

    /// A disk that keeps its first `batch` requests until all of them are there; later ones it answers at once.
    pub fn answering_in_batches(bytes: usize, batch: usize) -> Memory {
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let mut data = vec![0; bytes];
            let (mutex, came) = &*shared;
            let mut state = mutex.lock().unwrap();
            while state.queue.len() < batch && !state.is_over {
                state = came.wait(state).unwrap();
            }
            while !state.is_over {
                let Some((request, done)) = state.queue.pop_front() else {
                    state = came.wait(state).unwrap();
                    continue;
                };
                drop(state);
                done(serve(&mut data, request));
                state = mutex.lock().unwrap();
            }
        });
        Memory { bytes, discards: true, state }
    }

    /// What came since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.0.lock().unwrap().asked)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.state.0.lock().unwrap().is_over = true;
        self.state.1.notify_all();
    }
}

fn serve(data: &mut [u8], request: Request) -> io::Result<Buffer> {
    let span = |range: Range| range.offset as usize..range.end() as usize;
    match request {
        Request::Read(range) => return Ok(Buffer::from_slice(4096, &data[span(range)])),
        Request::Write { offset, data: new, .. } => {
            data[span(Range::new(offset, new.len() as u64))].copy_from_slice(&new);
        }
        Request::Zero { range, .. } => data[span(range)].fill(0),
        Request::Flush => {}
    }
    Ok(Buffer::new(4096))
}

impl Block for Memory {
    fn size_bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn discards(&self) -> bool {
        self.discards
    }

    fn submit(&self, request: Request, done: Done) {
        let (mutex, came) = &*self.state;
        let mut state = mutex.lock().unwrap();
        state.asked.push(match &request {
            Request::Read(range) => Asked::Read(*range),
            Request::Write { offset, data, fua } => Asked::Write(Range::new(*offset, data.len() as u64), *fua),
            Request::Zero { range, fua } => Asked::Zero(*range, *fua),
            Request::Flush => Asked::Flush,
        });
        state.queue.push_back((request, done));
        came.notify_one();
    }
}
