//! Processes on another node than the run's. Where a launcher's daemon there was not started by `headstart launch`,
//! nobody has started an agent, and nobody follows one that dies: whoever needs one and finds none gives that command
//! itself, which says on stderr why there is none.
//!
//! The command is no child that the program could come upon: it is one of a child that sends no signal when it ends,
//! and that `wait` passes over. (The kernel makes an ordinary child of what executes a program.) Neither of the two has
//! memory of its own before the exec: a fork would copy the tables of a large program's memory, and what a network card
//! reads of it would stay with one of the two.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use headstart_program::preloading;
use headstart_protocol::ENVIRONMENT_SWITCH;
use libc::{c_char, c_int};

use super::complaints::complain;
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::programs::environment::strings::{self, Strings, current};
use crate::settings::settings;

const UNKNOWN: u8 = 0;
const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;

static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Stack of either child: a few calls with few arguments (assumed).
const STACK_BYTES: usize = 16 << 10;

/// Whether this process runs on another node than that where its run began.
pub(crate) fn is_elsewhere() -> bool {
    let known = PLACE.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == ELSEWHERE;
    }
    let of_run = settings().launch.as_deref().and_then(boot_of);
    let here = kernel::boot_id();
    let elsewhere = of_run.is_some_and(|of_run| here.is_some_and(|here| here != of_run));
    PLACE.store(if elsewhere { ELSEWHERE } else { HERE }, Ordering::Relaxed);
    elsewhere
}

/// The boot of the run's node: the second field of the word behind the last space.
fn boot_of(launch: &[u8]) -> Option<[u8; 16]> {
    let word = launch.rsplit(|byte| *byte == b' ').next()?;
    kernel::id_of(word.split(|byte| *byte == b',').nth(1)?)
}

/// Starts an agent on this node, or finds that one serves; says so if not.
#[cold]
#[inline(never)]
pub(crate) fn start_agent() -> bool {
    let launch = settings().launch.as_deref().unwrap_or_default();
    let Some(space) = launch.iter().rposition(|byte| *byte == b' ') else { return false };
    let (Ok(program), Ok(word)) = (CString::new(&launch[..space]), CString::new(&launch[space + 1..])) else {
        return false;
    };
    match run(&program, &[&program, c"launch", &word]) {
        // Where it failed it has said why.
        Ok(status) => status == 0,
        Err(errno) => {
            complain(format_args!(
                "no agent serves {} on this node, and {} cannot be started to start one (error {errno}): install \
                 Headstart where the first node has it",
                settings().slow.escape_ascii(),
                program.to_bytes().escape_ascii()
            ));
            false
        }
    }
}

/// What is executed, and how it went.
struct Execution {
    program: *const c_char,
    arguments: Strings,
    environment: Strings,
    /// Where the stack of the one that executes it begins.
    stack: *mut c_void,
    /// Its status, or what the kernel said if there was none; nothing yet.
    outcome: Option<Result<c_int, Errno>>,
}

/// Runs a program to its end, without the library: its status.
fn run(program: &CStr, arguments: &[&CStr]) -> Result<c_int, Errno> {
    const OFF: &CStr = c"HEADSTART=off";
    const { assert!(OFF.to_bytes().len() == ENVIRONMENT_SWITCH.len() + 4) };
    let arguments: Vec<*const c_char> = arguments.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect();
    let is_ours = |name: &str, string: &CStr| strings::assigned(string, name).is_some();
    // SAFETY: libc's list; a program that changes it meanwhile has the same race with every exec of its own.
    let kept = unsafe { strings::each(current()) }
        .filter(|string| !is_ours(preloading::VARIABLE, string) && !is_ours(ENVIRONMENT_SWITCH, string));
    let environment: Vec<*const c_char> = kept.map(CStr::as_ptr).chain([OFF.as_ptr(), ptr::null()]).collect();
    let (program, arguments, environment) = (program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    let mut stacks = [vec![0u8; STACK_BYTES], vec![0u8; STACK_BYTES]];
    let [outer, stack] = stacks.each_mut().map(|stack| stack.as_mut_ptr_range().end.cast::<c_void>());
    let mut execution = Execution { program, arguments, environment, stack, outcome: None };
    let (blocked, errno) = (Signals::block(), kernel::errno());
    // SAFETY: the child has this stack alone; it and what it is told live until it has been waited for. It makes system
    // calls only. The top of an allocation of whole KiB is aligned as any stack must be.
    let child = unsafe { libc::clone(stand_between, outer, libc::CLONE_VM, (&raw mut execution).cast()) };
    blocked.restore();
    // SAFETY: no status is asked for.
    let waited = || unsafe { syscall!(libc::SYS_wait4, child, 0, libc::__WALL, 0) };
    while child > 0 && waited() == Err(libc::EINTR) {}
    kernel::set_errno(errno);
    // SAFETY: the child, which wrote to it, has ended.
    unsafe { (&raw const execution.outcome).read_volatile() }.unwrap_or(Err(libc::EAGAIN))
}

/// In the child that is passed over: starts the one that executes, and waits for it.
extern "C" fn stand_between(execution: *mut c_void) -> c_int {
    let told = execution.cast::<Execution>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: whoever started this one waits, and does not touch what it was told. The other stack is the new child's
    // alone, and this one waits until that has begun the program or ended.
    unsafe {
        let child = libc::clone(execute, (*told).stack, flags, execution);
        let mut status = 0;
        let mut waited = || syscall!(libc::SYS_wait4, child, &raw mut status, 0, 0);
        while child > 0 && waited() == Err(libc::EINTR) {}
        if child > 0 && (*told).outcome.is_none() {
            (*told).outcome = Some(Ok(status));
        }
    }
    0
}

/// In that child: becomes the program. What it says goes to stderr.
extern "C" fn execute(execution: *mut c_void) -> c_int {
    let told = execution.cast::<Execution>();
    // SAFETY: the others wait with what it points to; this one has descriptors of its own.
    unsafe {
        let _ = syscall!(libc::SYS_dup3, libc::STDERR_FILENO, libc::STDOUT_FILENO, 0);
        let (program, arguments, environment) = ((*told).program, (*told).arguments, (*told).environment);
        if let Err(errno) = syscall!(libc::SYS_execve, program, arguments, environment) {
            (*told).outcome = Some(Err(errno));
        }
    }
    127
}

/// The thread's blocked signals: a handler of the program's must not run in the child.
struct Signals(u64);

impl Signals {
    fn block() -> Signals {
        let (all, mut before) = (u64::MAX, 0u64);
        // SAFETY: both are sets as the kernel has them.
        let _ = unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8) };
        Signals(before)
    }

    fn restore(self) {
        // SAFETY: as above.
        let _ = unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const self.0, 0, 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_of_the_run_is_the_second_field_of_the_word() {
        let launch = b"/my tools/headstart node1,00112233-4455-6677-8899-aabbccddeeff,,run";
        let id: [u8; 16] = std::array::from_fn(|k| (k * 0x11) as u8);
        assert_eq!(boot_of(launch), Some(id));
        for launch in [&b""[..], b"/x node1", b"/x node1,", b"/x node1,0011"] {
            assert_eq!(boot_of(launch), None);
        }
    }

    #[test]
    fn a_program_is_run_to_its_end_without_the_library() {
        let shell = c"/bin/sh";
        assert_eq!(run(shell, &[shell, c"-c", c"exit 3"]).map(|status| libc::WEXITSTATUS(status)), Ok(3));
        let without = c"test \"$HEADSTART\" = off && test -z \"$LD_PRELOAD\"";
        assert_eq!(run(shell, &[shell, c"-c", without]), Ok(0));
        assert_eq!(run(c"/nowhere", &[c"/nowhere"]), Err(libc::ENOENT));
    }
}
