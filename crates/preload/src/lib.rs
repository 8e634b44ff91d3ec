//! libheadstart.so: preloaded into unmodified programs, it decides for every request whether its bytes go to flash or
//! to disk.
//!
//! ```text
//! program -> hook -> descriptor -> file -> data path -> slow file, by a system call
//!                                                   \-> data file on flash, by a system call
//!                              session: the thread's slot and socket -> agent
//! ```
//!
//! A tour, from the program down to the kernel. A file imports only what stands below it.
//!
//! | module | what it owns |
//! |---|---|
//! | [`hooks`] | the table of libc's symbols, and all else that takes the place of libc's functions |
//! | [`start`], [`fork`] | how the library comes up in a process, and what a fork does to every part |
//! | [`programs`] | what a process starts or becomes: exec, spawn, environment, libraries, strangers, confinement |
//! | [`calls`] | what a hook does on a managed file, one file a subject: data, names, size, copies, streams, aio |
//! | [`data_path`] | one read or write: the thread's side of the protocol |
//! | [`files`] | what each descriptor is; one record a file; opening, closing, bypass, write-back |
//! | [`recording`] | each request, written down for `headstart trace` |
//! | [`session`] | the thread's slot in the shared file and its connection to the agent |
//! | [`location`] | which path is a managed file, whatever mount it was reached by |
//! | [`settings`], [`process`], [`gate`] | what the environment says; which process this is; the locks |
//! | [`kernel`] | system calls, the program's buffers, the library's memory |
//!
//! A process that never opens a managed file never speaks to the agent: its calls cost one table look-up.
//! Where there is no agent and requests are recorded ([`recording`]), they go to the kernel as they are.
//!
//! **Invariants.**
//! - A managed file's bytes are read or written in the slow file only with a published slot and clear bits, or under a
//!   lease.
//! - The library calls the kernel itself (`kernel`), so that no hook is entered twice and no slot is left behind by a
//!   cancelled thread. Hooks of unmanaged descriptors call the next library in the chain.
//! - No lock and no allocation in a data call, but for the first one that finds other regions of its file
//!   (`files::regions`), and for the lock of a description's offset (`files::descriptors`) in one that uses it.
//!   Opening and closing a managed file take one lock (`gate`).
//! - A forked child never uses its parent's sockets or slots (`fork`).
//!
//! **What it does not see**: bytes that stdio, `mmap`, io_uring, Linux aio, static binaries or raw system calls move
//! (docs/reference/symbols.md). The agent is told of what it notices of these, and of a managed standard input, and
//! keeps the file off flash until the process ends; so do not expect such files to be faster. Streams on
//! inherited descriptors 1 and 2 are not noticed: they write where nothing lies on flash, unless the file was
//! opened to be overwritten in place.
//!
//! **What it cannot survive.** A raw `clone` skips the handler that separates a child from its parent. A thread that
//! leaves a call on a managed file without returning (`siglongjmp` out of a signal handler, a `fork` in one,
//! asynchronous cancellation) leaves its request published; whoever then closes its descriptor, or uses its offset in
//! another thread, waits for ever.
//! Managed descriptors must be below `files::descriptors::DESCRIPTORS_MAX`. A vector of buffers must itself be
//! readable memory.
//!
//! **Beside other preloaded libraries**: one before this one sees every call; one behind it sees none on managed files,
//! whose calls go to the kernel. Profilers belong before it.

#[cfg(panic = "abort")]
compile_error!(
    "a thread that is cancelled in a blocking call must be able to unwind through the hooks: use panic = \"unwind\""
);

mod calls;
mod data_path;
mod files;
mod fork;
mod gate;
mod hooks;
mod kernel;
mod location;
mod process;
mod programs;
mod recording;
mod session;
mod settings;
mod start;

/// Run by the dynamic linker when the library is loaded.
extern "C" fn loaded() {
    if start::active() {
        files::descriptors::make_room();
        calls::stdio::inherited();
        programs::libraries::start();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
