//! What the environment says, read once at the first hooked call (`start`); and whether the library is at work at all.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use headstart_policy::client::chain::Chain;
use headstart_protocol::{
    ENVIRONMENT_LAUNCH, ENVIRONMENT_POLICY, ENVIRONMENT_RANKS, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW,
    ENVIRONMENT_STRANGERS, ENVIRONMENT_SWITCH, ENVIRONMENT_TRACE, Strangers,
};

use crate::kernel::Errno;
use crate::programs::environment::strings;

pub(crate) const UNKNOWN: u32 = 0;
pub(crate) const STARTING: u32 = 1;
pub(crate) const OFF: u32 = 2;
/// At work without an agent: requests are recorded, and go to the kernel.
pub(crate) const ALONE: u32 = 3;
pub(crate) const ON: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The environment's answers.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The agent's runtime directory; empty where there is no agent.
    pub runtime: Vec<u8>,
    /// The managed directory, without trailing slash.
    pub slow: Vec<u8>,
    /// The policies at work.
    pub policies: Chain,
    /// What becomes of programs that the library cannot be in.
    pub strangers: Strangers,
    /// The directory that requests are recorded in, if they are.
    pub trace: Option<Vec<u8>>,
    /// The process's rank in its parallel program, as the launcher told it.
    pub rank: Option<u32>,
    /// How an agent is started on another node than the run's.
    pub launch: Option<Vec<u8>>,
}

/// Whether the library is at work; not before it has started.
#[inline]
pub(crate) fn active() -> bool {
    state() >= ALONE
}

/// Whether there is an agent to ask.
#[inline]
pub(crate) fn served() -> bool {
    state() == ON
}

/// Where the library stands: `UNKNOWN` to `ON`.
#[inline]
pub(crate) fn state() -> u32 {
    STATE.load(Ordering::Acquire)
}

/// The calling thread is the one that starts the library; another one is, or has, if not.
pub(crate) fn begin_start() -> bool {
    STATE.compare_exchange(UNKNOWN, STARTING, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Keeps what was read, and says whether requests are recorded; nothing if the library is off.
pub(crate) fn keep(found: Option<Settings>) -> Option<bool> {
    let records = found.as_ref()?.trace.is_some();
    SETTINGS.set(found?).expect("one thread starts the library");
    Some(records)
}

/// The library has started.
pub(crate) fn end_start() -> u32 {
    let state = match SETTINGS.get() {
        None => OFF,
        Some(settings) if settings.runtime.is_empty() => ALONE,
        Some(_) => ON,
    };
    STATE.store(state, Ordering::Release);
    state
}

/// The settings; only asked for once [`active`] has said yes.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get().expect("settings are read before the library is active")
}

/// No agent serves this process, and none needs to: from now on hooks only pass through, or requests are only
/// recorded. No descriptor of it is managed.
pub(crate) fn retire(records: bool) {
    STATE.store(if records { ALONE } else { OFF }, Ordering::Release);
}

/// Reads the environment; nothing if the library is off.
pub(crate) fn read() -> Option<Settings> {
    if variable(ENVIRONMENT_SWITCH).is_some_and(|value| value == b"off") {
        return None;
    }
    let trace = variable(ENVIRONMENT_TRACE).filter(|directory| directory.starts_with(b"/"));
    let runtime = variable(ENVIRONMENT_RUNTIME).unwrap_or_default();
    let mut slow = variable(ENVIRONMENT_SLOW)?;
    while slow.len() > 1 && slow.ends_with(b"/") {
        slow.pop();
    }
    if runtime.is_empty() && trace.is_none() || !slow.starts_with(b"/") {
        return None;
    }
    let policies = variable(ENVIRONMENT_POLICY).and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok());
    let policies = policies.unwrap_or_default();
    let strangers = strings::value(ENVIRONMENT_STRANGERS).and_then(Strangers::named).unwrap_or_default();
    Some(Settings { runtime, slow, policies, strangers, trace, rank: rank(), launch: variable(ENVIRONMENT_LAUNCH) })
}

/// The rank, by whichever launcher tells it.
fn rank() -> Option<u32> {
    let text = ENVIRONMENT_RANKS.iter().find_map(|name| variable(name))?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

/// The environment as libc has it now: `std::env` would take a lock that a program changing it does not know of.
fn variable(name: &str) -> Option<Vec<u8>> {
    let mut terminated = [0u8; 64];
    terminated[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the name ends with NUL, as the buffer is longer than any of ours.
    let value = unsafe { libc::getenv(terminated.as_ptr().cast()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a string; it is copied before the program can change it.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes().to_vec())
}

/// A path in the runtime directory.
pub(crate) fn runtime_path(name: &str) -> Result<CString, Errno> {
    CString::new([settings().runtime.as_slice(), b"/", name.as_bytes()].concat()).map_err(|_| libc::EINVAL)
}
