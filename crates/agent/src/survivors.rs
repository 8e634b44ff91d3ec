//! The threads that an agent finds in the shared file of the one before.
//!
//! A slot's thread lives if its process does and, while a request of it is under way, the thread itself: a
//! process that called exec has lost all but one. A slot whose thread has given it up is nobody's. Those that
//! live come back when they next ask something, which may be never: so each process is held by a descriptor
//! that tells when it ends.
//!
//! A process is known by the number that the agent's own namespace shows, which the kernel tells of a
//! connection; what it calls itself in a container may be another one's number here. One that the namespace
//! does not show, or whose number is of another agent's, is never taken for dead: that the socket ends tells
//! of its end.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_overlay::Process;
use headstart_protocol::shared::{
    LEASE_GIVEN_UP, LEASE_NONE, LEASE_QUARANTINED, STATE_FREE, STATE_QUARANTINED, Shared, Slot,
};

use crate::process::ProcessHandle;
use crate::process::start_time;

/// Numbers of several namespaces.
const SEVERAL: u64 = u64::MAX;

/// The process behind a connection: the number that this process sees, zero if none, and what the process
/// says of itself.
pub(crate) fn identify(seen: u32, told: Process) -> Process {
    match start_time(seen) {
        Some(start_time) if seen != 0 => Process { pid: seen, start_time },
        _ => Process::unseen(told.pid, told.start_time),
    }
}

/// This process's namespace of process numbers; zero where that cannot be found out.
fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// From here on slots get numbers of this process's namespace.
pub(crate) fn note_namespace(shared: Shared<'_>, adopted: bool) {
    let noted = &shared.header.pid_namespace;
    let (before, own) = (noted.load(Ordering::Relaxed), namespace());
    noted.store(if adopted && before != own { SEVERAL } else { own }, Ordering::Relaxed);
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    /// Slots whose threads live.
    pub slots: BTreeSet<u32>,
    /// Their processes.
    pub processes: BTreeMap<Process, ProcessHandle>,
    /// Of some, nothing can be found out by their processes' numbers.
    pub unseen: bool,
}

impl Survivors {
    /// Looks at every slot that has an owner.
    pub(crate) fn find(shared: Shared<'_>) -> Survivors {
        let mut found = Survivors::default();
        let is_ours = shared.header.pid_namespace.load(Ordering::Relaxed) == namespace();
        for (index, slot) in shared.used_slots().iter().enumerate() {
            let pid = slot.owner_pid.load(Ordering::Acquire);
            let process = Process { pid, start_time: slot.owner_start.load(Ordering::Relaxed) };
            if pid == 0 || !is_in_use(slot) {
                continue;
            }
            let is_unseen = !is_ours || process.is_unseen();
            let lives = is_unseen || has_thread(slot) && found.holds(process);
            if !lives {
                continue;
            }
            found.unseen |= is_unseen;
            found.slots.insert(index as u32);
        }
        let owned = |process: &Process| {
            let owns = |slot: &u32| shared.slots[*slot as usize].owner_pid.load(Ordering::Relaxed) == process.pid;
            found.slots.iter().any(owns)
        };
        let needless: Vec<Process> = found.processes.keys().filter(|process| !owned(process)).copied().collect();
        needless.iter().for_each(|process| drop(found.processes.remove(process)));
        found
    }

    fn holds(&mut self, process: Process) -> bool {
        if let Some(handle) = self.processes.get(&process) {
            return !handle.wait(std::time::Duration::ZERO);
        }
        let Some(handle) = ProcessHandle::open(process.pid, process.start_time) else { return false };
        // One that has ended, but whose parent does not know yet, is as good as gone.
        let lives = !handle.wait(std::time::Duration::ZERO);
        self.processes.insert(process, handle);
        lives
    }
}

fn is_in_use(slot: &Slot) -> bool {
    let (state, lease) = (slot.state.load(Ordering::Acquire), slot.lease.load(Ordering::Acquire));
    if state == STATE_QUARANTINED || lease == LEASE_QUARANTINED {
        return false;
    }
    slot.owner_tid.load(Ordering::Relaxed) != 0
}

/// Whether the thread is there, as far as that matters: one without a request may have left the slot for the next.
fn has_thread(slot: &Slot) -> bool {
    let (state, lease) = (slot.state.load(Ordering::Acquire), slot.lease.load(Ordering::Acquire));
    let (pid, tid) = (slot.owner_pid.load(Ordering::Relaxed), slot.owner_tid.load(Ordering::Relaxed));
    let idle = state == STATE_FREE && matches!(lease, LEASE_NONE | LEASE_GIVEN_UP);
    idle || is_thread_of(pid, tid)
}

/// Whether the process has a thread that calls itself `tid`.
fn is_thread_of(pid: u32, tid: u32) -> bool {
    let own = |task: &Path| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.map_or_else(
            // A kernel without namespaces of process numbers.
            || task.ends_with(tid.to_string()),
            |numbers| numbers.split_whitespace().next_back() == Some(&tid.to_string()),
        )
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks.is_ok_and(|tasks| tasks.flatten().any(|task| own(&task.path())))
}

#[cfg(test)]
mod tests {
    use headstart_protocol::shared::{STATE_ASKING, STATE_CHEAP};

    use super::*;
    use crate::shared_file::SharedFile;

    #[test]
    fn a_slot_lives_with_its_process_and_a_request_with_its_thread() {
        let runtime = tempfile::tempdir().unwrap();
        let shared = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        let (pid, started) = (std::process::id(), start_time(std::process::id()).unwrap());
        let gone_tid = std::thread::spawn(nix::unistd::gettid).join().unwrap().as_raw() as u32;
        let cases = [
            // process, start, thread, state, lives
            (pid, started, pid, STATE_FREE, true),
            (pid, started, pid, STATE_CHEAP, true),
            (pid, started, gone_tid, STATE_FREE, true), // parked for the next thread
            (pid, started, gone_tid, STATE_ASKING, false),
            (pid, started, 0, STATE_FREE, false), // given up
            (pid, started + 1, pid, STATE_FREE, false),
            (pid, started, pid, STATE_QUARANTINED, false),
            (0, 0, 0, STATE_FREE, false),
            (Process::unseen(1, 1).pid, 1, gone_tid, STATE_CHEAP, true), // nobody can know
            (Process::unseen(1, 1).pid, 1, 0, STATE_FREE, false),
        ];
        for (slot, (pid, start, tid, state, _)) in shared.view().slots.iter().zip(cases) {
            slot.owner_start.store(start, Ordering::Relaxed);
            slot.owner_tid.store(tid, Ordering::Relaxed);
            slot.state.store(state, Ordering::Relaxed);
            slot.owner_pid.store(pid, Ordering::Relaxed);
        }
        shared.view().header.slots_used.store(cases.len() as u64, Ordering::Relaxed);
        let expected: Vec<u32> = (0..).zip(cases).filter(|(_, case)| case.4).map(|(slot, _)| slot).collect();
        let found = Survivors::find(shared.view());
        assert_eq!(found.slots.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(found.processes.keys().map(|process| process.start_time).collect::<Vec<_>>(), [started]);
        // The agent before saw other numbers.
        shared.view().header.pid_namespace.fetch_xor(1, Ordering::Relaxed);
        let found = Survivors::find(shared.view());
        assert!(found.unseen && found.processes.is_empty());
        assert_eq!(found.slots.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 5, 8]);
        note_namespace(shared.view(), true);
        assert_eq!(shared.view().header.pid_namespace.load(Ordering::Relaxed), SEVERAL);
    }

    #[test]
    fn a_process_is_known_by_the_number_that_is_seen_and_else_by_what_it_says() {
        let (own, told) = (std::process::id(), Process { pid: 7, start_time: 8 });
        assert_eq!(identify(own, told), Process { pid: own, start_time: start_time(own).unwrap() });
        assert_eq!(identify(0, told), Process::unseen(7, 8));
        assert!(Process::unseen(7, 8).is_unseen() && !told.is_unseen());
    }
}
