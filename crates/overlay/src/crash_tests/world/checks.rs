//! What must hold at any time and at the end of a case.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Agent, World};
use crate::crash_tests::storage::{Bytes, moved};
use headstart_protocol::message::Request;
use headstart_protocol::shared::word_of;
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

impl World {
    pub(crate) fn check_sizes(&mut self) {
        if self.agents[self.at].is_dead {
            return;
        }
        for (number, file) in self.agents[self.at].overlay.files.iter() {
            // Of a file that others may use nothing is known.
            if !self.agents[self.at].overlay.sharing.is_alone(*number) {
                continue;
            }
            let real = self.inodes[self.inode(*number)].store.size();
            if file.length.size() > real && !file.names.is_unlinked() && !file.length.is_extending() {
                self.violations
                    .push(format!("file {number} is {real} bytes long, thought to be at least {}", file.length.size()));
            }
        }
    }

    /// Whoever sees that a file is left alone is not kept from flash that he could have, or ask for.
    pub(crate) fn check_left_alone(&mut self) {
        let agent = &self.agents[self.at];
        if agent.is_dead {
            return;
        }
        for (number, file) in agent.overlay.files.iter() {
            let may_come = agent.overlay.sharing.is_alone(*number) && !file.is_left_alone();
            if may_come && agent.memory.files[*number as usize].is_left_alone() {
                self.violations.push(format!("file {number} may come to flash, and its threads see that it may not"));
            }
            let Some(cluster) = agent.overlay.sharing.get() else { continue };
            let is_so = file.is_left_alone() || agent.overlay.sharing.is_elsewhere(*number);
            let is_shown = agent.memory.files[*number as usize].is_left_alone();
            if is_shown && !is_so && !cluster.is_refused(*number) {
                self.violations.push(format!("file {number} is nobody else's, and its threads see that it is"));
            }
        }
    }

    /// What is listed is in the map, and its granule is not open.
    pub(crate) fn check_listings(&mut self) {
        let agent = &self.agents[self.at];
        if agent.is_dead {
            return;
        }
        let load = |cell: &AtomicU32| cell.load(Ordering::Relaxed);
        for (key, cell) in agent.memory.listing_keys.keys.iter().zip(&agent.memory.listings) {
            if key.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let (file, begin) = (load(&cell.file), cell.granule.load(Ordering::Relaxed) * GRANULE_BYTES);
            if agent.overlay.rings.is_open(file, word_of(begin)) {
                self.violations.push(format!("a granule of file {file} is listed and open"));
            }
            for listed in &cell.extents[..load(&cell.count) as usize] {
                let range = Range::new(begin + u64::from(load(&listed.offset)), load(&listed.length).into());
                let (data_file, place) = (load(&listed.data_file), listed.place.load(Ordering::Relaxed));
                let known = agent.overlay.files.get(&file);
                let mapped = known.into_iter().flat_map(|known| known.map.overlapping(range));
                let there = mapped.filter(|mapped| mapped.same_place(data_file, range.offset, place));
                if there.map(|mapped| mapped.range.intersection(range).length).sum::<u64>() != range.length {
                    self.violations.push(format!("file {file}: {range:?} is listed, and not mapped so"));
                }
            }
        }
    }

    /// What a read of the whole file would return: flash over disk.
    pub(crate) fn visible(&self, inode: usize) -> Bytes {
        let all = Range::new(0, u64::MAX);
        let slow = &self.inodes[inode].store;
        let has = |agent: &&Agent| {
            agent.overlay.find(self.inodes[inode].identity).is_some_and(|file| agent.overlay.has_extents(file))
        };
        let Some(agent) = self.agents.iter().find(has) else { return slow.read(all) };
        let file = agent.overlay.find(self.inodes[inode].identity).expect("it has extents");
        let mut bytes = Vec::new();
        let mut at = 0;
        for mapped in agent.overlay.files[&file].map.iter() {
            bytes.extend(slow.read(Range::between(at, mapped.range.offset)));
            let place = Range::new(mapped.place, mapped.range.length);
            let store = agent.data.get(&mapped.data_file).expect("a mapped data file exists");
            bytes.extend(moved(&store.read(place), mapped.place, mapped.range.offset));
            at = mapped.range.end();
        }
        bytes.extend(slow.read(Range::between(at, u64::MAX)));
        bytes
    }

    /// Ends a case: everybody finishes, everything drains, and disk, model and accounts agree.
    pub fn finish(&mut self) {
        self.whims.failures = 0;
        self.agents.iter_mut().for_each(|agent| agent.dying = None);
        self.quiesce();
        self.land_late(None);
        for at in 0..self.agents.len() {
            self.at = at;
            self.land_ghosts();
            self.agents[at].overlay.drain(true);
            // A quarantine whose barrier failed is lifted by the next.
            self.agents[at].overlay.request_barrier();
        }
        for _ in 0..50 {
            for at in 0..self.agents.len() {
                self.at = at;
                self.poll();
                if self.cluster.is_some() {
                    self.say_again();
                }
            }
            self.quiesce();
        }
        if !self.violations.is_empty() {
            return;
        }
        self.check_disk();
        for at in 0..self.agents.len() {
            self.at = at;
            let dirty_bytes = self.agents[at].overlay.dirty_bytes();
            if dirty_bytes > 0 {
                self.violations.push(format!("{dirty_bytes} dirty bytes do not drain"));
            }
            self.check_counters();
            self.drop_everything();
            self.at = at;
            self.check_counters();
        }
    }

    pub fn mapped_bytes(&self) -> u64 {
        self.agents[self.at]
            .overlay
            .files
            .iter()
            .map(|(_, file)| file)
            .flat_map(|file| file.map.iter())
            .map(|mapped| mapped.range.length)
            .sum()
    }

    /// Bytes that came to flash are there, or are counted as dropped for one reason.
    fn check_counters(&mut self) {
        let counters = self.agents[self.at].overlay.counters();
        let came = self.agents[self.at].mapped_before + counters.absorbed_bytes_total + counters.fetched_bytes_total;
        let (left, here) = (counters.dropped_bytes(), self.mapped_bytes());
        if came != left + here {
            self.violations.push(format!("{came} bytes came to flash, {left} left, {here} are there: {counters:?}"));
        }
        let extents = || {
            self.agents[self.at]
                .overlay
                .files
                .iter()
                .map(|(_, file)| file)
                .flat_map(|file| file.map.iter())
                .filter(|mapped| mapped.dirty)
        };
        let kept = extents().filter(|mapped| mapped.stamp.is_kept());
        let found =
            [extents().map(|mapped| mapped.range.length).sum::<u64>(), kept.map(|mapped| mapped.range.length).sum()];
        let counted = [
            self.agents[self.at].overlay.mapping.dirty_bytes(),
            self.agents[self.at].overlay.mapping.kept_dirty_bytes(),
        ];
        if counted != found {
            self.violations
                .push(format!("{counted:?} bytes count as dirty, and dirty of regions; there are {found:?}"));
        }
    }

    /// Clean bytes are those of the disk.
    pub fn check_clean(&mut self) {
        let mut wrong = Vec::new();
        for (number, file) in self.agents[self.at].overlay.files.iter() {
            for mapped in file.map.iter().filter(|mapped| !mapped.dirty) {
                let disk = self.inodes[self.inode(*number)].store.read(mapped.range);
                let place = Range::new(mapped.place, mapped.range.length);
                let flash =
                    moved(&self.agents[self.at].data[&mapped.data_file].read(place), mapped.place, mapped.range.offset);
                if merged(&disk) != merged(&flash) {
                    wrong.push(format!("{mapped:?} is called clean: {flash:?}, disk {disk:?}"));
                }
            }
        }
        self.violations.extend(wrong);
    }

    fn check_disk(&mut self) {
        let now = self.now();
        for inode in 0..self.inodes.len() {
            if !self.inodes[inode].linked {
                continue;
            }
            let mut disk = self.inodes[inode].store.read(Range::new(0, u64::MAX));
            disk.extend(self.visible(inode));
            for (range, byte) in disk {
                let result = self.inodes[inode].register.settle(range, byte, false, now);
                self.violation(result.map_err(|text| format!("inode {inode} at the end: {text}")));
            }
            let size = self.inodes[inode].store.size();
            if self.inodes[inode].size.is_some_and(|expected| expected != size) {
                self.violations.push(format!("inode {inode} is {size} bytes long, not {:?}", self.inodes[inode].size));
            }
        }
    }

    /// Everything is unlinked and closed: no page, file, data file or bit is left.
    fn drop_everything(&mut self) {
        for inode in 0..self.inodes.len() {
            let identity = self.inodes[inode].identity;
            let Some(rank) = self.ranks_here().next() else { return };
            self.request(rank, &Request::Unlinked { inode: identity.inode });
        }
        for (number, file) in
            self.agents[self.at].overlay.files.iter().map(|(number, file)| (*number, file.clone())).collect::<Vec<_>>()
        {
            for process in file.users.openers() {
                let rank = self.ranks_here().find(|rank| self.ranks[*rank].process == process).expect("openers live");
                self.request(rank, &Request::Close { file: number });
            }
        }
        let at = self.at;
        for _ in 0..4 {
            self.at = at;
            self.agents[at].overlay.request_barrier();
            self.poll();
            self.quiesce();
        }
        self.at = at;
        let space = &self.agents[self.at].overlay.space;
        let left = (space.charged_bytes() / 4096, space.mapped_bytes() / 4096, space.removed_bytes() / 4096);
        let mut wrong = Vec::new();
        if left != (self.agents[self.at].leaked_pages, 0, 0) {
            wrong.push(format!(
                "pages charged, mapped, removed: {left:?}, leaked: {}",
                self.agents[self.at].leaked_pages
            ));
        }
        if self.agents[self.at].overlay.files.len() > 0 {
            let log = self.agents[self.at].overlay.sharing.log();
            let logged: Vec<_> = log.records().collect();
            wrong.push(format!("files are left: {:#?}\n{logged:?}", self.agents[self.at].overlay.files));
        }
        if self.agents[self.at].leaked_pages == 0 && self.agents[self.at].overlay.data_files.count() > 0 {
            wrong.push(format!("data files are left: {:?}", self.agents[self.at].overlay.data_files));
        }
        if self.agents[self.at].memory.bits.iter().any(|word| word.load(Ordering::Relaxed) != 0) {
            wrong.push("bits are left".to_string());
        }
        if self.agents[self.at].memory.files.iter().any(|file| file.size_bit.load(Ordering::Relaxed) != 0) {
            wrong.push("a size bit is left".to_string());
        }
        self.violations.extend(wrong);
    }
}

/// Neighbours of equal bytes as one run.
fn merged(bytes: &Bytes) -> Bytes {
    let mut runs: Bytes = Vec::new();
    for &(range, byte) in bytes {
        match runs.last_mut() {
            Some((last, same)) if *same == byte => last.length += range.length,
            _ => runs.push((range, byte)),
        }
    }
    runs
}
