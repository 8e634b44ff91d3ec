//! The threads that an agent finds in the shared file of the one before.
//!
//! A slot's thread lives if its process does and, while a request of it is under way, the thread itself: a process that called
//! exec has lost all but one. A slot whose thread has given it up is nobody's. Those that live come back when they next ask
//! something, which may be never: so each process is held by a descriptor that tells when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_core::overlay::Process;
use headstart_core::protocol::shared::{
    LEASE_GIVEN_UP, LEASE_NONE, LEASE_QUARANTINED, STATE_FREE, STATE_QUARANTINED, Shared, Slot,
};

use crate::process::ProcessHandle;

/// See the module.
#[derive(Debug, Default)]
pub struct Survivors {
    /// Slots whose threads live.
    pub slots: BTreeSet<u32>,
    /// Their processes.
    pub processes: BTreeMap<Process, ProcessHandle>,
}

impl Survivors {
    /// Looks at every slot that has an owner.
    pub fn find(shared: Shared<'_>) -> Survivors {
        let mut found = Survivors::default();
        for (index, slot) in shared.used_slots().iter().enumerate() {
            let pid = slot.owner_pid.load(Ordering::Acquire);
            let process = Process { pid, start_time: slot.owner_start.load(Ordering::Relaxed) };
            if pid == 0 || !is_in_use(slot) || !found.holds(process) {
                continue;
            }
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
    let (pid, tid) = (slot.owner_pid.load(Ordering::Relaxed), slot.owner_tid.load(Ordering::Relaxed));
    let idle = state == STATE_FREE && matches!(lease, LEASE_NONE | LEASE_GIVEN_UP);
    tid != 0 && (idle || Path::new(&format!("/proc/{pid}/task/{tid}")).exists())
}

#[cfg(test)]
mod tests {
    use headstart_core::protocol::shared::{STATE_ASKING, STATE_CHEAP};

    use super::*;
    use crate::runtime_directory::start_time;
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
    }
}
