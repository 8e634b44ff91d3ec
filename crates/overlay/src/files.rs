//! The files known: identity, openers, size.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::errno;
use crate::extent_map::{ExtentMap, Mapped};
use crate::fingerprint::Fingerprint;
use crate::journal::{Identity, Record};
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use crate::parts::leases::Direct;
use crate::process::Process;
use crate::requests::opening::Opening;
use crate::sooner::Sooner;
use headstart_policy::client::carl::Regions;
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::Capacity;
use headstart_units::request::Range;

/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;
/// Further names that are kept of a file (assumed: who removes one does so soon after he made another).
const OTHER_NAMES_MAX: usize = 16;

/// A change of size under way; only the agent extends. While `size` is no larger than the file's, it is
/// announced for commits that wait until nobody else may be extending the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) size: u64,
    pub(crate) running: bool,
}

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) identity: Identity,
    pub(crate) path: Vec<u8>,
    /// Further names that were told, the newest last.
    pub(crate) other_names: Vec<Vec<u8>>,
    /// `path` is gone, and no other name is known, though there is one.
    pub(crate) is_nameless: bool,
    /// The slow file may refuse to be written by whoever has it open now.
    pub(crate) is_sealed: bool,
    pub(crate) map: ExtentMap,
    pub(crate) size: u64,
    /// How long it is for a capacity that is a share of all files: direct writes make it longer without the agent.
    pub(crate) expected_size: u64,
    pub(crate) openers: BTreeSet<Process>,
    pub(crate) writers: BTreeSet<Process>,
    /// Processes that use the file by means the library does not see; nothing comes to flash while one lives.
    pub(crate) bypassers: BTreeSet<Process>,
    /// An `Intent` stands in the journal without a `Closed` after it.
    pub(crate) intent: bool,
    pub(crate) extension: Option<Extension>,
    /// The last extension failed.
    pub(crate) extension_failed: bool,
    pub(crate) data_file: Option<u32>,
    pub(crate) unlinked: bool,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// It was not found at the start: nobody has looked at it since the agent before ended.
    pub(crate) unseen: bool,
    /// The journal holds a fingerprint with no `Intent` after it.
    pub(crate) fingerprint_stands: bool,
    pub(crate) write_back_error: Option<i32>,
    /// A write-back wrote the slow file since this agent knows it.
    pub(crate) written_back: bool,
    pub(crate) dirty_bytes: u64,
    /// What of it belongs on flash.
    pub(crate) regions: Regions,
    /// A copy of regions to flash failed with this.
    pub(crate) place_error: Option<i32>,
    /// One met the end of the file: nothing from here on is placed.
    pub(crate) place_end: u64,
    /// Opens are answered once this barrier has ended.
    pub(crate) open_barrier: u64,
    /// Which side answers reads sooner.
    pub(crate) sooner: Sooner,
}

impl File {
    pub(crate) fn new(identity: Identity, path: Vec<u8>, size: u64) -> File {
        File {
            identity,
            path,
            other_names: Vec::new(),
            is_nameless: false,
            is_sealed: false,
            map: ExtentMap::default(),
            size,
            expected_size: size,
            openers: BTreeSet::new(),
            writers: BTreeSet::new(),
            bypassers: BTreeSet::new(),
            intent: false,
            extension: None,
            extension_failed: false,
            data_file: None,
            unlinked: false,
            fingerprint: None,
            unseen: false,
            fingerprint_stands: false,
            write_back_error: None,
            written_back: false,
            dirty_bytes: 0,
            regions: Regions::default(),
            place_error: None,
            place_end: u64::MAX,
            open_barrier: 0,
            sooner: Sooner::default(),
        }
    }

    /// Up to where it can be placed. While somebody has it open it may be longer than is known here.
    pub(crate) fn placeable_end(&self) -> u64 {
        if self.openers.is_empty() { self.size } else { self.place_end.max(self.size) }
    }

    /// Whether what is written of it goes to the slow file alone: others use it unseen, nobody would find its
    /// bytes, or they might be refused there later.
    pub(crate) fn is_left_alone(&self) -> bool {
        !self.bypassers.is_empty() || self.is_nameless || self.is_sealed
    }

    /// Whether it has neither a name nor anybody who is known to have it open.
    pub(crate) fn is_gone(&self) -> bool {
        self.unlinked && self.openers.is_empty()
    }
}

impl Overlay {
    /// The file a process is about to open: its number if it is known.
    pub fn find(&self, identity: Identity) -> Option<u32> {
        self.by_identity.get(&identity).copied()
    }

    /// Path of a known file.
    pub fn path(&self, file: u32) -> Option<&[u8]> {
        self.files.get(&file).map(|file| file.path.as_slice())
    }

    /// Identity of a known file.
    pub fn identity(&self, file: u32) -> Option<Identity> {
        self.files.get(&file).map(|file| file.identity)
    }

    /// Names of a known file that were told.
    pub fn known_names(&self, file: u32) -> u64 {
        self.files.get(&file).map_or(0, |file| u64::from(!file.is_nameless) + file.other_names.len() as u64)
    }

    /// The known files: number, path, bytes dirty, the error their last write-back ended with.
    pub fn file_list(&self) -> impl Iterator<Item = (u32, &[u8], u64, Option<i32>)> + '_ {
        let lost = |number| self.has_untrusted(number, Range::new(0, u64::MAX)).then_some(errno::EIO);
        self.files.iter().map(move |(&number, file)| {
            let error = file.write_back_error.or_else(|| lost(number));
            (number, file.path.as_slice(), file.dirty_bytes, error)
        })
    }

    /// Whether a process has the file open for writing.
    pub fn is_open_for_writing(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| !file.writers.is_empty())
    }

    /// Whether the slow file is to be written, or may be at any moment: a process has it open for writing,
    /// bytes wait on flash, or its size is to grow.
    pub fn may_write_slow(&self, file: u32) -> bool {
        let busy = |file: &File| !file.writers.is_empty() || file.dirty_bytes > 0 || file.extension.is_some();
        self.files.get(&file).is_some_and(busy)
    }

    /// Whether nothing of ours changes how the slow file looks: no process has it open, and it is not about
    /// to be made longer.
    pub fn is_at_rest(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| file.openers.is_empty() && file.extension.is_none())
    }

    /// Whether a process has the file open.
    pub fn is_open(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| !file.openers.is_empty())
    }

    /// The slow file's size and modification time while nobody has it open; our own write-backs are no foreign change.
    pub fn set_fingerprint(&mut self, file: u32, fingerprint: Fingerprint) {
        let Some(known) = self.files.get_mut(&file).filter(|known| known.fingerprint != Some(fingerprint)) else {
            return;
        };
        known.fingerprint = Some(fingerprint);
        known.fingerprint_stands = true;
        let Fingerprint { size, modified_ns } = fingerprint;
        self.append(&Record::Fingerprint { file, size, modified_ns });
    }

    pub(crate) fn open(&mut self, shared: Shared<'_>, slot: u32, opening: Opening<'_>) -> Result<u32, Answer> {
        let Opening { identity, observed, writable, path } = opening;
        if path.len() > PATH_BYTES_MAX {
            return Err(Answer::protocol_error("no path is that long"));
        }
        let process = self.threads.process(slot);
        let number = self.find_or_add(shared, identity, path, observed)?;
        let file = self.file(number);
        if file.openers.is_empty() {
            file.place_end = u64::MAX;
            file.fingerprint = None;
        }
        if file.path != path && !path.is_empty() {
            let before = std::mem::replace(&mut file.path, path.to_vec());
            if let Some(known) = file.other_names.iter_mut().find(|name| *name == path) {
                *known = before;
            }
            file.is_nameless = false;
            self.append(&Record::File { file: number, identity, path: path.to_vec() });
        }
        self.table.closed.remove(&number);
        let held = &shared.open_files[slot as usize];
        held.open.insert(number);
        if writable {
            held.writable.insert(number);
        }
        let file = self.file(number);
        file.openers.insert(process);
        // An intent of an agent that died may stand, with a fingerprint taken since: what is written from now
        // on voids that.
        let begins_writing = writable && (!file.intent || file.fingerprint_stands);
        if writable {
            file.is_sealed = false;
            file.writers.insert(process);
            file.intent = true;
            file.fingerprint_stands = false;
        }
        let size = file.size;
        shared.files[number as usize].size.store(size, Ordering::Release);
        if begins_writing {
            self.append(&Record::Intent { file: number });
            if shared.files[number as usize].set_bits.load(Ordering::SeqCst) != 0 {
                // The journal as it is on disk may call bytes of it clean. They must not be trusted after
                // power loss once the file may be written: the intent is made durable before. Every later
                // clean record follows the intent.
                self.file(number).open_barrier = self.wanted_barrier();
            }
        }
        Ok(number)
    }

    /// The number of the file with this identity, which looks as `observed`.
    pub(crate) fn find_or_add(
        &mut self,
        shared: Shared<'_>,
        identity: Identity,
        path: &[u8],
        observed: Fingerprint,
    ) -> Result<u32, Answer> {
        // The agent has a file open that it leaves to heirs: its identity is in use.
        let gone = |number: &u32| self.files[number].is_gone() && !self.may_have_heirs(shared, *number);
        let earlier = self.by_identity.get(&identity).copied().filter(gone);
        if let Some(earlier) = earlier {
            // The file system has given the identity to a new file. What the journal says of the old one must
            // not be taken for the new one's: the open waits for the barrier that covers its removal.
            self.drop_all(earlier, Dropped::Unlink);
            self.by_identity.remove(&identity);
        }
        let number = match self.by_identity.get(&identity) {
            Some(&number) => {
                self.check_unchanged(number, observed)?;
                number
            }
            None => self.add_file(shared, identity, path, observed.size)?,
        };
        if earlier.is_some() {
            self.file(number).open_barrier = self.wanted_barrier();
        }
        if self.file(number).openers.is_empty() {
            // An extension under way for a thread that died may yet cut off what a dead thread appended.
            if self.file(number).extension.is_none() {
                self.settle_size(shared, number, observed.size);
                // Where it could not be found at the start, power loss may have cut it: bytes on flash lie
                // beyond its end.
                self.complete_size(shared, number, self.files[&number].map.end());
            }
            self.file(number).unseen = false;
        }
        Ok(number)
    }

    fn check_unchanged(&mut self, number: u32, observed: Fingerprint) -> Result<(), Answer> {
        let file = self.file(number);
        let Some(known) = file.fingerprint.filter(|known| *known != observed) else { return Ok(()) };
        // As at a start: the time alone may be that of a write-back of the agent before.
        let own = file.unseen && known.size == observed.size;
        if own {
            let clean: Vec<Mapped> = file.map.iter().filter(|mapped| !mapped.dirty).collect();
            clean.iter().for_each(|mapped| self.evict(number, mapped));
            return Ok(());
        }
        if file.dirty_bytes > 0 {
            return Err(Answer::Error {
                errno: errno::ESTALE,
                text: format!(
                    "{}: changed by another program while newer bytes wait on flash (size {} was {}); run 'headstart drain FILE' \
                     to write them over it, or restore the file",
                    String::from_utf8_lossy(&file.path),
                    observed.size,
                    known.size
                ),
            });
        }
        self.drop_all(number, Dropped::ForeignChange);
        Ok(())
    }

    /// Drops every extent of the file.
    pub(crate) fn drop_all(&mut self, number: u32, why: Dropped) {
        let all = Range::new(0, u64::MAX);
        self.cancel_fetches(number, all);
        if why == Dropped::Eviction {
            let clean: Vec<Mapped> = self.files[&number].map.iter().collect();
            clean.into_iter().for_each(|mapped| self.evicted.remember(number, mapped));
        } else {
            self.evicted.forget_file(number);
        }
        if !self.files[&number].map.is_empty() {
            if why == Dropped::Unlink {
                self.is_left(number);
            }
            self.append(&Record::Drop { file: number, offset: all.offset, length: all.length });
            self.carve(number, all, why);
        }
    }

    /// Asks for a barrier that begins from now on; its number.
    pub(crate) fn wanted_barrier(&mut self) -> u64 {
        self.barrier.want_next()
    }

    /// A new size the file has at least.
    pub(crate) fn set_size(&mut self, number: u32, size: u64) {
        let file = self.file(number);
        let before = std::mem::replace(&mut file.size, size);
        let expected = if size < before { size } else { size.max(file.expected_size) };
        self.expect_size(number, expected);
    }

    /// The size it has, as long as nobody writes it.
    pub(crate) fn settle_size(&mut self, shared: Shared<'_>, number: u32, size: u64) {
        shared.files[number as usize].refused_end.store(0, Ordering::Relaxed);
        self.set_size(number, size);
        self.expect_size(number, size);
    }

    fn expect_size(&mut self, number: u32, size: u64) {
        let before = std::mem::replace(&mut self.file(number).expected_size, size);
        self.known_bytes = self.known_bytes - u128::from(before) + u128::from(size);
        self.update_capacity();
    }

    /// A write up to `end` is about to happen, on flash or on disk: a share of what is being written has to
    /// grow with it.
    pub(crate) fn expect_write(&mut self, number: u32, end: u64) {
        if self.files[&number].expected_size < end {
            self.expect_size(number, end);
        }
    }

    /// The same of the writes that found no space, and were not asked for.
    pub(crate) fn expect_refused(&mut self, shared: Shared<'_>) {
        let end = |number: &u32| shared.files[*number as usize].refused_end_bytes();
        let longer = self.files.iter().filter(|(number, file)| file.expected_size < end(number));
        let longer: Vec<(u32, u64)> = longer.map(|(number, _)| (*number, end(number))).collect();
        longer.into_iter().for_each(|(number, end)| self.expect_size(number, end));
    }

    /// The process behind `slot` closed its last descriptor of the file.
    pub(crate) fn close(&mut self, shared: Shared<'_>, slot: u32, number: u32) {
        let process = self.threads.process(slot);
        let slots: Vec<u32> = self.threads.slots_of(process).collect();
        for slot in slots {
            self.return_slabs(shared, slot, Some(number));
            shared.open_files[slot as usize].close(number);
        }
        self.leave(shared, process, number);
    }

    pub(crate) fn leave(&mut self, shared: Shared<'_>, process: Process, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        file.openers.remove(&process);
        if file.openers.is_empty() {
            self.table.closed.insert(number);
        }
        let file = self.file(number);
        if file.writers.remove(&process) {
            self.close_intent(number);
        }
        self.forget_if_done(shared, number);
    }

    /// Appends `Closed` once no writer is left, none that is dead either, and the file is as long as it is to
    /// be: the agent's own extension is a write like theirs. The barrier that makes it count syncs the slow
    /// file.
    pub(crate) fn close_intent(&mut self, number: u32) {
        let quarantined = self.leases.quarantines(number, Range::new(0, u64::MAX));
        let file = self.file(number);
        if file.intent && file.writers.is_empty() && file.extension.is_none() && !quarantined {
            file.intent = false;
            self.append(&Record::Closed { file: number });
        }
    }

    /// The last name of the file is gone. Others that had the inode's number before or have it since are told
    /// apart by `is_named`: the file system may have given it to a new file, and that may have been opened
    /// before this is heard.
    pub fn on_unlinked(&mut self, shared: Shared<'_>, envelope: Envelope, inode: u64, is_named: impl Fn(u32) -> bool) {
        let found: Vec<u32> = self.numbers_of(inode).filter(|number| !is_named(*number)).collect();
        for number in found {
            self.unlink(number);
            self.forget_if_done(shared, number);
        }
        self.outbox.reply(envelope, Answer::Done);
        self.progress(shared);
    }

    /// Whether a process may have the file open that never said so. What is not found on the slow directory
    /// nobody has open.
    fn may_have_heirs(&self, shared: Shared<'_>, number: u32) -> bool {
        !self.files[&number].unseen && shared.files[number as usize].is_inherited()
    }

    /// Whether bytes of a file that is gone, as far as is known, are to be written back for those who may
    /// have inherited it. They read the slow file once the agent has forgotten it. What may be spoilt on
    /// flash is dropped with the name.
    pub(crate) fn is_left_to_heirs(&self, shared: Shared<'_>, number: u32) -> bool {
        let map = &self.files[&number].map;
        let mut dirty = std::iter::successors(map.next_dirty(0), |mapped| map.next_dirty(mapped.range.end()));
        self.may_have_heirs(shared, number) && dirty.any(|mapped| !self.is_untrusted(&mapped))
    }

    /// Writes back what is left to heirs.
    pub(crate) fn write_back_for_heirs(&mut self, shared: Shared<'_>) {
        for number in self.left_to_heirs.clone() {
            let all = Range::new(0, u64::MAX);
            let is_left = |file: &File| file.is_gone() && file.write_back_error.is_none() && file.dirty_bytes > 0;
            if !self.files.get(&number).is_some_and(is_left) {
                self.left_to_heirs.remove(&number);
                continue;
            }
            while self.copies.may_begin() && self.write_back_in(shared, number, all) {}
        }
    }

    /// The file has no name any more. The next agent must know: it could not tell such a file from one that
    /// was renamed.
    pub(crate) fn unlink(&mut self, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        if !std::mem::replace(&mut file.unlinked, true) {
            self.append(&Record::Unlinked { file: number });
        }
    }

    /// A path changed: of a file, or of a directory above files. Where two were exchanged, what was at the
    /// new one has the old one.
    pub(crate) fn renamed(&mut self, old: &[u8], new: &[u8], exchanged: bool) {
        let below = |path: &[u8], old: &[u8], new: &[u8]| {
            let rest = path.strip_prefix(old).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
            Some([new, rest].concat())
        };
        // What no call can name keeps the name it had.
        let moved = |path: &[u8]| {
            let back = || exchanged.then(|| below(path, new, old)).flatten();
            below(path, old, new).or_else(back).filter(|path| path.len() <= PATH_BYTES_MAX)
        };
        let files = self.files.iter().filter_map(|(&number, file)| Some((number, moved(&file.path)?)));
        let files: Vec<(u32, Vec<u8>)> = files.collect();
        for name in self.files.values_mut().flat_map(|file| &mut file.other_names) {
            if let Some(path) = moved(name) {
                *name = path;
            }
        }
        files.into_iter().for_each(|(number, path)| self.is_now_at(number, path));
    }

    fn is_now_at(&mut self, number: u32, path: Vec<u8>) {
        let identity = self.file(number).identity;
        self.file(number).path.clone_from(&path);
        self.append(&Record::File { file: number, identity, path });
        // Bytes that outlast the power are written back where the journal says the file is.
        self.barrier.want_if(self.barrier.is_asked(number) && self.files[&number].dirty_bytes > 0);
    }

    /// The files that have or had the inode's number, the youngest last.
    fn numbers_of(&self, inode: u64) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let born = |birth_ns| Identity { inode, birth_ns };
        self.by_identity.range(born(0)..=born(u64::MAX)).map(|(_, &number)| number)
    }

    /// A file has got another name, or is about to lose one of several. The file, if no other name of it is known then.
    pub(crate) fn name_changed(&mut self, inode: u64, stays: bool, path: &[u8]) -> Option<u32> {
        if stays && path.len() > PATH_BYTES_MAX {
            return None;
        }
        let number = self.numbers_of(inode).rfind(|number| !self.files[number].unlinked)?;
        let file = self.file(number);
        file.other_names.retain(|name| name != path);
        match (stays, file.path == path) {
            (true, is_known) => {
                if is_known || file.is_nameless {
                    file.is_nameless = false;
                    self.is_now_at(number, path.to_vec());
                } else {
                    // The newest of many are as good as all of them.
                    let too_many = (file.other_names.len() + 1).saturating_sub(OTHER_NAMES_MAX);
                    file.other_names.drain(..too_many);
                    file.other_names.push(path.to_vec());
                }
                None
            }
            (false, false) => None,
            (false, true) => match file.other_names.pop() {
                Some(other) => {
                    self.is_now_at(number, other);
                    None
                }
                None => {
                    file.is_nameless = true;
                    Some(number)
                }
            },
        }
    }

    pub(crate) fn update_capacity(&mut self) {
        let bytes = match self.settings.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(share) => (self.known_bytes as f64 * share) as u64,
        };
        self.space.set_capacity(bytes);
    }

    /// Brings the file's size to at least `size`, with the size bit set meanwhile. True once it is; none if it failed.
    pub(crate) fn extend(&mut self, shared: Shared<'_>, number: u32, size: u64) -> Option<bool> {
        let file = self.file(number);
        if file.size >= size {
            return Some(true);
        }
        if std::mem::take(&mut file.extension_failed) {
            return None;
        }
        match &mut file.extension {
            None => {
                file.extension = Some(Extension { size, running: false });
                self.extending.insert(number);
                shared.announce_extension(number);
            }
            Some(extension) if !extension.running => extension.size = extension.size.max(size),
            Some(_) => {}
        }
        self.start_extensions(shared);
        Some(false)
    }

    /// Whether the file can be made longer as soon as a commit up to `end` is applied, if it has to be. From
    /// here on writes that extend it ask first, so that one that does not end keeps a commit from being
    /// applied, not from being answered.
    pub(crate) fn may_be_extended(&mut self, shared: Shared<'_>, number: u32, end: u64) -> bool {
        let file = self.file(number);
        let size = file.size;
        match file.extension {
            _ if end <= size => return true,
            // Its own extension comes next.
            Some(extension) if extension.running => return true,
            Some(_) => {}
            None => {
                file.extension = Some(Extension { size: 0, running: false });
                self.extending.insert(number);
                shared.announce_extension(number);
            }
        }
        !self.may_be_extending(shared, number, size)
    }

    /// A commit up to `end` is applied: what was announced begins as soon as its record is appended.
    pub(crate) fn extend_to(&mut self, number: u32, end: u64) {
        if let Some(extension) = &mut self.file(number).extension
            && !extension.running
        {
            extension.size = extension.size.max(end);
        }
    }

    /// At a start or first open: begins to make the file at least `size` long, if it is not.
    pub(crate) fn complete_size(&mut self, shared: Shared<'_>, number: u32, size: u64) {
        // Nobody waits for it, so that nothing can have failed before.
        let _ = self.extend(shared, number, size);
    }

    /// Starts the extensions of files that no thread may be extending itself; true if an extension ended or began.
    pub(crate) fn start_extensions(&mut self, shared: Shared<'_>) -> bool {
        let before = self.extending.len();
        for number in self.extending.clone() {
            let size = self.files[&number].size;
            let extension = self.files[&number].extension.expect("an extending file has an extension");
            if extension.size <= size {
                if self.pending.await_length_beyond(number, size) {
                    continue;
                }
                // A truncation made it long enough meanwhile, or the commit was refused.
                self.file(number).extension = None;
                shared.end_extension(number);
                self.extending.remove(&number);
                self.close_intent(number);
            } else if !self.may_be_extending(shared, number, size) {
                self.file(number).extension = Some(Extension { running: true, ..extension });
                self.outbox.push(Output::Extend { file: number, size: extension.size });
                self.extending.remove(&number);
            }
        }
        self.extending.len() < before
    }

    /// Whether a thread may be at a call that makes the file longer.
    fn may_be_extending(&self, shared: Shared<'_>, number: u32, size: u64) -> bool {
        let direct = |direct: &Direct| direct.extends() || direct.range.end() > size;
        // A truncation whose thread died leaves dirty bytes beyond the known size: their write-back makes the
        // file longer too.
        let beyond = Range::new(size, u64::MAX);
        let copied = || self.copies.write_back(number, beyond);
        shared.may_be_extending(number, size) || self.leases.direct_of(number).any(direct) || copied()
    }

    /// The slow file is `size` long now, or could not be extended.
    pub fn on_extended(&mut self, shared: Shared<'_>, number: u32, result: Result<u64, i32>) {
        let Some(file) = self.files.get_mut(&number) else { return };
        file.extension = None;
        match result {
            Ok(size) => {
                let size = file.size.max(size);
                self.set_size(number, size);
                shared.files[number as usize].size.store(size, Ordering::Release);
            }
            Err(_) => file.extension_failed = true,
        }
        shared.end_extension(number);
        self.close_intent(number);
        self.poll(shared);
        self.forget_if_done(shared, number);
    }
}
