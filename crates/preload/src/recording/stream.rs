//! A thread's part of the recording: a stream of blocks. A request that interrupted another one of its thread
//! (in a signal handler) has a stream of its own meanwhile, so that the requests of each stream follow one
//! another. A stream that a thread leaves behind is taken up by the next.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use headstart_trace::block::{BLOCK_BYTES, Encoder, Full, HEAD_BYTES, Request, STREAMS_MAX};

use super::process_file;
use crate::files::descriptors::target::Target;
use crate::location::{self, PathBuffer};

/// Files whose names a stream remembers to have written in its block.
const NAMED: usize = 1024;

/// See the module.
pub(crate) struct Stream {
    number: u32,
    /// Blocks it had.
    blocks: u32,
    /// Its block, or null.
    memory: *mut u8,
    encoder: Encoder,
    /// Files named in the block: each at its number modulo the length; zero is no file.
    named: [u32; NAMED],
}

struct Thread {
    stream: Cell<*mut Stream>,
    busy: AtomicBool,
}

thread_local! {
    /// Without a destructor, so that it serves to the very end of a thread and of the process.
    static THREAD: Thread = const { Thread { stream: Cell::new(ptr::null_mut()), busy: AtomicBool::new(false) } };
}

/// Streams that threads left behind.
static PARKED: [AtomicPtr<Stream>; STREAMS_MAX as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; STREAMS_MAX as usize];
/// Streams of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Key whose destructor parks a thread's stream.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Called once, before anything is recorded.
pub(crate) fn start() {
    let mut key = 0;
    // SAFETY: `key` is writable, and the destructor lives as long as the library.
    unsafe { libc::pthread_key_create(&mut key, Some(end_of_thread)) };
    KEY.store(key, Ordering::Relaxed);
    process_file::start();
}

/// Runs `work` with the calling thread's stream.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&mut Stream) -> R) -> R {
    THREAD.with(|thread| {
        if thread.busy.load(Ordering::Relaxed) {
            let stream = take();
            // SAFETY: a stream that was taken is this caller's alone.
            let result = work(unsafe { &mut *stream });
            park(stream);
            return result;
        }
        thread.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if thread.stream.get().is_null() {
            thread.stream.set(take());
            // SAFETY: the key exists since `start`.
            unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), thread.stream.get().cast()) };
        }
        // SAFETY: only this thread has the pointer, and `busy` keeps a handler from using it too.
        let result = work(unsafe { &mut *thread.stream.get() });
        compiler_fence(Ordering::SeqCst);
        thread.busy.store(false, Ordering::Relaxed);
        result
    })
}

/// A stream that was left behind, or a new one.
#[cold]
fn take() -> *mut Stream {
    let used = (COUNT.load(Ordering::Relaxed) as usize).min(PARKED.len());
    for cell in &PARKED[..used] {
        let parked = cell.swap(ptr::null_mut(), Ordering::AcqRel);
        if !parked.is_null() {
            return parked;
        }
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let encoder = Encoder::new(0, number, 0);
    Box::into_raw(Box::new(Stream { number, blocks: 0, memory: ptr::null_mut(), encoder, named: [0; NAMED] }))
}

/// Leaves a stream for others. Each has a cell that is its own.
fn park(stream: *mut Stream) {
    // SAFETY: the caller has the stream.
    if let Some(cell) = PARKED.get(unsafe { (*stream).number } as usize) {
        cell.store(stream, Ordering::Release);
    }
}

unsafe extern "C" fn end_of_thread(stream: *mut c_void) {
    THREAD.with(|thread| thread.stream.set(ptr::null_mut()));
    park(stream.cast());
}

/// In a forked child: forgets the parent's streams, whose memory another thread may have been in the middle of.
pub(crate) fn abandon() {
    THREAD.with(|thread| {
        thread.stream.set(ptr::null_mut());
        thread.busy.store(false, Ordering::Relaxed);
    });
    // SAFETY: the key exists since `start`; setting it to nothing frees nothing.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::null()) };
    PARKED.iter().for_each(|cell| cell.store(ptr::null_mut(), Ordering::Relaxed));
    COUNT.store(0, Ordering::Relaxed);
    process_file::abandon();
}

/// Writes a request down.
#[inline]
pub(crate) fn append(stream: &mut Stream, target: &Target, request: &Request) {
    let cell = request.file as usize % NAMED;
    if !stream.memory.is_null() && stream.named[cell] == request.file {
        let (encoder, entries) = stream.parts();
        if encoder.request(entries, request).is_ok() {
            return stream.publish();
        }
    }
    stream.entry(target, |encoder, entries| encoder.request(entries, request));
}

/// Writes down that a file is used by means that are not recorded.
pub(crate) fn unseen(stream: &mut Stream, target: &Target) {
    let file = target.record.serial();
    stream.entry(target, |encoder, entries| encoder.unseen(entries, file));
}

impl Stream {
    /// Writes an entry down behind the name of its file, in the next block if this one is full.
    #[cold]
    fn entry(&mut self, target: &Target, mut write: impl FnMut(&mut Encoder, &mut [u8]) -> Result<(), Full>) {
        for _ in 0..2 {
            if (!self.memory.is_null() || self.begin_block()) && self.name(target).is_ok() && {
                let (encoder, entries) = self.parts();
                write(encoder, entries).is_ok()
            } {
                return self.publish();
            }
            self.end_block();
        }
        process_file::count_unrecorded();
    }

    /// Names the file unless the block does.
    fn name(&mut self, target: &Target) -> Result<(), Full> {
        let file = target.record.serial();
        if self.named[file as usize % NAMED] == file {
            return Ok(());
        }
        let mut buffer = PathBuffer::empty();
        let path = location::path_of(target.fd, &mut buffer).unwrap_or(b"");
        let (device, inode) = target.record.identity();
        let (encoder, entries) = self.parts();
        encoder.name(entries, file, device, inode, path)?;
        self.named[file as usize % NAMED] = file;
        Ok(())
    }

    fn begin_block(&mut self) -> bool {
        if self.number >= STREAMS_MAX {
            return false;
        }
        let Some(block) = process_file::give_out() else { return false };
        self.memory = block.memory;
        self.encoder = Encoder::new(block.index, self.number, self.blocks);
        self.named.fill(0);
        let names = u64::from(self.number) | u64::from(self.blocks) << 32;
        self.blocks += 1;
        // SAFETY: the block is this long and aligned to pages, and this stream's alone.
        unsafe { (*self.memory.add(8).cast::<AtomicU64>()).store(names.to_le(), Ordering::Relaxed) };
        self.publish();
        true
    }

    fn end_block(&mut self) {
        if !self.memory.is_null() {
            process_file::unmap(self.memory);
            self.memory = ptr::null_mut();
        }
    }

    /// Its block's encoder and entries.
    #[inline]
    fn parts(&mut self) -> (&mut Encoder, &mut [u8]) {
        // SAFETY: the block is this long, and this stream's alone.
        let entries = unsafe { std::slice::from_raw_parts_mut(self.memory.add(HEAD_BYTES), BLOCK_BYTES - HEAD_BYTES) };
        (&mut self.encoder, entries)
    }

    /// Makes what the block holds count: one store, so that a process that is killed leaves a whole block.
    #[inline]
    fn publish(&self) {
        // SAFETY: the block is aligned to pages, and this stream's alone.
        unsafe { (*self.memory.cast::<AtomicU64>()).store(self.encoder.head().to_le(), Ordering::Release) };
    }
}
