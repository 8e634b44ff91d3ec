//! The files known: identity, openers, size.

use std::sync::atomic::Ordering;

use crate::errno;
use crate::extent_map::Mapped;
use crate::file::File;
use crate::file::length::Extended;
use crate::file::names::NameChange;
use crate::fingerprint::Fingerprint;
use crate::journal::{Identity, Record};
use crate::output::{Answer, Growth, Output};
use crate::overlay::Overlay;
use crate::parts::leases::Direct;
use crate::process::Process;
use crate::requests::held_up::HELD_UP_NS;
use crate::requests::opening::Opening;
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;

impl Overlay {
    /// The file a process is about to open: its number if it is known.
    pub fn find(&self, identity: Identity) -> Option<u32> {
        self.files.of_identity(identity)
    }

    /// Path of a known file.
    pub fn path(&self, file: u32) -> Option<&[u8]> {
        self.files.get(&file).map(|file| file.names.path())
    }

    /// Identity of a known file.
    pub fn identity(&self, file: u32) -> Option<Identity> {
        self.files.get(&file).map(|file| file.identity())
    }

    /// Names of a known file that were told.
    pub fn known_names(&self, file: u32) -> u64 {
        self.files.get(&file).map_or(0, |file| file.names.count())
    }

    /// The known files: number, path, bytes dirty, the error their last write-back ended with.
    pub fn file_list(&self) -> impl Iterator<Item = (u32, &[u8], u64, Option<i32>)> + '_ {
        let lost = |number| self.has_untrusted(number, Range::new(0, u64::MAX)).then_some(errno::EIO);
        self.files.iter().map(move |(&number, file)| {
            let error = file.write_back_error.or_else(|| lost(number));
            (number, file.names.path(), file.dirty_bytes, error)
        })
    }

    /// Whether a process has the file open for writing.
    pub fn is_open_for_writing(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| file.users.may_write())
    }

    /// Whether the slow file is to be written, or may be at any moment: a process has it open for writing,
    /// bytes wait on flash, or its size is to grow.
    pub fn may_write_slow(&self, file: u32) -> bool {
        let busy = |file: &File| file.users.may_write() || file.dirty_bytes > 0 || file.length.is_extending();
        self.files.get(&file).is_some_and(busy)
    }

    /// Whether nothing of ours changes how the slow file looks: no process has it open, and it is not about
    /// to be made longer.
    pub fn is_at_rest(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| !file.users.are_there() && !file.length.is_extending())
    }

    /// Whether a process has the file open.
    pub fn is_open(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| file.users.are_there())
    }

    /// The slow file's size and modification time while nobody has it open; our own write-backs are no foreign change.
    pub fn set_fingerprint(&mut self, file: u32, fingerprint: Fingerprint) {
        if self.files.get_mut(&file).is_some_and(|known| known.looks.look(fingerprint)) {
            let Fingerprint { size, modified_ns } = fingerprint;
            self.append(&Record::Fingerprint { file, size, modified_ns });
        }
    }

    pub(crate) fn open(&mut self, shared: Shared<'_>, slot: u32, opening: Opening<'_>) -> Result<u32, Answer> {
        let Opening { identity, observed, writable, path } = opening;
        if path.len() > PATH_BYTES_MAX {
            return Err(Answer::protocol_error("no path is that long"));
        }
        let process = self.threads.process(slot);
        let number = self.find_or_add(shared, identity, path, observed)?;
        let file = self.file(number);
        if !file.users.are_there() {
            file.placed.forget_end();
            file.looks.forget();
        }
        if file.names.found_at(path) {
            self.append(&Record::File { file: number, identity, path: path.to_vec() });
        }
        self.files.reopen(number);
        let held = &shared.open_files[slot as usize];
        held.open.insert(number);
        if writable {
            held.writable.insert(number);
        }
        let file = self.file(number);
        file.users.open(process);
        if writable {
            file.users.write(process);
        }
        let begins_writing = writable && file.looks.begin_writing();
        let size = file.length.size();
        shared.files[number as usize].size.store(size, Ordering::Release);
        self.show_left_alone(shared, number);
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
        let earlier = self.files.of_identity(identity).filter(gone);
        if let Some(earlier) = earlier {
            // The file system has given the identity to a new file. What the journal says of the old one must
            // not be taken for the new one's: the open waits for the barrier that covers its removal.
            self.drop_all(earlier, Dropped::Unlink);
            self.files.release_identity(identity);
        }
        let number = match self.files.of_identity(identity) {
            // What others use they change.
            Some(number) if self.commits() && !self.sharing.is_alone(number) => number,
            Some(number) => {
                self.check_unchanged(number, observed)?;
                number
            }
            None => self.add_file(shared, identity, path, observed.size)?,
        };
        if earlier.is_some() {
            self.file(number).open_barrier = self.wanted_barrier();
        }
        if !self.file(number).users.are_there() {
            // An extension under way for a thread that died may yet cut off what a dead thread appended.
            if !self.file(number).length.is_extending() {
                self.settle_size(shared, number, observed.size);
                // Where it could not be found at the start, power loss may have cut it: bytes on flash lie
                // beyond its end.
                if !self.is_logged(number) {
                    self.complete_size(shared, number, self.files[&number].map.end());
                }
            }
            self.file(number).looks.see();
        }
        Ok(number)
    }

    fn check_unchanged(&mut self, number: u32, observed: Fingerprint) -> Result<(), Answer> {
        let file = self.file(number);
        let Some(known) = file.looks.fingerprint().filter(|known| *known != observed) else { return Ok(()) };
        // As at a start: the time alone may be that of a write-back of the agent before.
        let own = file.looks.is_unseen() && known.size == observed.size;
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
                    file.names.shown(),
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
            clean.into_iter().for_each(|mapped| self.mapping.evicted().remember(number, mapped));
        } else {
            self.mapping.evicted().forget_file(number);
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
        let expected = file.length.set_size(size);
        self.expect_size(number, expected);
    }

    /// The size it has, as long as nobody writes it.
    pub(crate) fn settle_size(&mut self, shared: Shared<'_>, number: u32, size: u64) {
        shared.files[number as usize].refused_end.store(0, Ordering::Relaxed);
        self.set_size(number, size);
        self.expect_size(number, size);
    }

    fn expect_size(&mut self, number: u32, size: u64) {
        let before = self.file(number).length.expect(size);
        self.files.resized(before, size);
        self.update_capacity();
    }

    /// A write up to `end` is about to happen, on flash or on disk: a share of what is being written has to
    /// grow with it.
    pub(crate) fn expect_write(&mut self, number: u32, end: u64) {
        if self.files[&number].length.expected() < end {
            self.expect_size(number, end);
        }
    }

    /// The same of the writes that found no space, and were not asked for.
    pub(crate) fn expect_refused(&mut self, shared: Shared<'_>) {
        let end = |number: &u32| shared.files[*number as usize].refused_end_bytes();
        let longer = self.files.iter().filter(|(number, file)| file.length.expected() < end(number));
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
        let was_writer = file.users.close(process);
        if !file.users.are_there() {
            self.files.close(number);
        }
        if was_writer {
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
        if file.looks.has_intent() && !file.users.may_write() && !file.length.is_extending() && !quarantined {
            file.looks.end_writing();
            self.append(&Record::Closed { file: number });
        }
    }

    /// The last name of the file is gone. Others that had the inode's number before or have it since are told
    /// apart by `is_named`: the file system may have given it to a new file, and that may have been opened
    /// before this is heard.
    pub fn on_unlinked(&mut self, shared: Shared<'_>, envelope: Envelope, inode: u64, is_named: impl Fn(u32) -> bool) {
        self.unlinked(shared, inode, is_named);
        self.outbox.reply(envelope, Answer::Done);
        self.progress(shared);
    }

    pub(crate) fn unlinked(&mut self, shared: Shared<'_>, inode: u64, is_named: impl Fn(u32) -> bool) {
        let found: Vec<u32> = self.numbers_of(inode).filter(|number| !is_named(*number)).collect();
        for number in found {
            self.unlink(number);
            self.forget_if_done(shared, number);
        }
    }

    /// Whether a process may have the file open that never said so: one that inherited it, or one of another node's.
    /// What is not found on the slow directory nobody has open.
    fn may_have_heirs(&self, shared: Shared<'_>, number: u32) -> bool {
        let is_inherited = shared.files[number as usize].is_inherited();
        !self.files[&number].looks.is_unseen() && (is_inherited || self.may_be_open_elsewhere())
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
        for number in self.files.left_to_heirs() {
            let all = Range::new(0, u64::MAX);
            let is_left = |file: &File| file.is_gone() && file.write_back_error.is_none() && file.dirty_bytes > 0;
            if !self.files.get(&number).is_some_and(is_left) {
                self.files.end_leave_to_heirs(number);
                continue;
            }
            while self.copies.may_begin() && self.write_back_in(shared, number, all) {}
        }
    }

    /// The file has no name any more. The next agent must know: it could not tell such a file from one that
    /// was renamed.
    pub(crate) fn unlink(&mut self, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        if file.names.unlink() {
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
        let files = self.files.iter().filter_map(|(&number, file)| Some((number, moved(file.names.path())?)));
        let files: Vec<(u32, Vec<u8>)> = files.collect();
        self.files.values_mut().for_each(|file| file.names.move_others(moved));
        files.into_iter().for_each(|(number, path)| self.is_now_at(number, path));
    }

    fn is_now_at(&mut self, number: u32, path: Vec<u8>) {
        let file = self.file(number);
        let identity = file.identity();
        file.names.move_to(path.clone());
        self.append(&Record::File { file: number, identity, path });
        // Bytes that outlast the power are written back where the journal says the file is.
        self.barrier.want_if(self.barrier.is_asked(number) && self.files[&number].dirty_bytes > 0);
    }

    /// The files that have or had the inode's number, the youngest last.
    pub(crate) fn numbers_of(&self, inode: u64) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let born = |birth_ns| Identity { inode, birth_ns };
        self.files.between(born(0), born(u64::MAX))
    }

    /// A file has got another name, or is about to lose one of several. The file, if no other name of it is known then.
    pub(crate) fn name_changed(&mut self, shared: Shared<'_>, inode: u64, stays: bool, path: &[u8]) -> Option<u32> {
        if stays && path.len() > PATH_BYTES_MAX {
            return None;
        }
        let number = self.numbers_of(inode).rfind(|number| !self.files[number].names.is_unlinked())?;
        let change = self.file(number).names.change(path, stays);
        self.show_left_alone(shared, number);
        match change {
            NameChange::None => None,
            NameChange::At(path) => {
                self.is_now_at(number, path);
                None
            }
            NameChange::Nameless => Some(number),
        }
    }

    pub(crate) fn update_capacity(&mut self) {
        self.space.set_capacity(self.files.capacity_bytes());
    }

    /// Brings the file's size to at least `size`, with the size bit set meanwhile. True once it is; none if it failed.
    pub(crate) fn extend(&mut self, shared: Shared<'_>, number: u32, size: u64) -> Option<bool> {
        let now_ns = self.measured_ns;
        match self.file(number).length.extend(size, now_ns) {
            Extended::Already => return Some(true),
            Extended::Failed => return None,
            Extended::Announced => self.announce_extension(shared, number),
            Extended::Waits => {}
        }
        self.start_extensions(shared);
        Some(false)
    }

    fn announce_extension(&mut self, shared: Shared<'_>, number: u32) {
        self.files.await_extension(number);
        shared.announce_extension(number);
    }

    /// Whether the file can be made longer as soon as a commit up to `end` is applied, if it has to be. From
    /// here on writes that extend it ask first, so that one that does not end keeps a commit from being
    /// applied, not from being answered.
    pub(crate) fn may_be_extended(&mut self, shared: Shared<'_>, number: u32, end: u64) -> bool {
        let now_ns = self.measured_ns;
        let length = &mut self.file(number).length;
        let size = length.size();
        // Its own extension comes next.
        if end <= size || length.extension_runs() {
            return true;
        }
        if length.announce(0, now_ns) == Extended::Announced {
            self.announce_extension(shared, number);
        }
        !self.may_be_extending(shared, number, size)
    }

    /// A commit up to `end` is applied: what was announced is for it too.
    pub(crate) fn extend_to(&mut self, number: u32, end: u64) {
        self.file(number).length.raise(end);
    }

    /// At a start or first open: begins to make the file at least `size` long, if it is not.
    pub(crate) fn complete_size(&mut self, shared: Shared<'_>, number: u32, size: u64) {
        // Nobody was told of one that failed before for nobody.
        if self.extend(shared, number, size).is_none() {
            self.extend(shared, number, size);
        }
    }

    /// Starts the extensions of files that no thread may be extending itself, or that living threads have held up for
    /// too long; true if one turned out not to be needed.
    pub(crate) fn start_extensions(&mut self, shared: Shared<'_>) -> bool {
        let mut ended = false;
        for number in self.files.extending() {
            let length = &self.files[&number].length;
            let size = length.size();
            let (announced, since_ns) = length.announced().expect("an extending file has an extension");
            if announced <= size {
                if self.pending.await_length_beyond(number, size) {
                    continue;
                }
                // A truncation made it long enough meanwhile, or the commit was refused.
                let now_ns = self.measured_ns;
                self.file(number).length.end_extension(now_ns);
                self.extension_ended(shared, number);
                self.files.end_wait_for_extension(number);
                ended = true;
            } else if let Some(growth) = self.growth(shared, number, announced, since_ns) {
                self.run_extension(number, announced, growth);
            }
        }
        ended
    }

    /// How the file can be made `announced` long now, which it is to be `since_ns`; none while that has to wait. What
    /// the dead may still write is not waited for, but may land behind the look at the file's size.
    fn growth(&mut self, shared: Shared<'_>, number: u32, announced: u64, since_ns: u64) -> Option<Growth> {
        let size = self.files[&number].length.size();
        if self.may_be_extending(shared, number, size) {
            let held_up = self.measured_ns.saturating_sub(since_ns) >= HELD_UP_NS;
            return held_up.then(|| self.growth_beside_others(number, announced)).flatten();
        }
        if self.leases.quarantines(number, Range::between(size, u64::MAX)) {
            return self.growth_beside_others(number, announced);
        }
        Some(Growth::Sized)
    }

    fn run_extension(&mut self, file: u32, size: u64, growth: Growth) {
        self.file(file).length.run_extension();
        self.outbox.push(Output::Extend { file, size, growth });
        self.files.end_wait_for_extension(file);
    }

    /// How the file can be made `size` long while others may be making it longer: with its last byte, if that is dirty
    /// on flash and nobody writes it to the disk, so that nobody sees what it is there. None while a copy under way
    /// does, which ends. A truncation is none of those others: it is granted while no extension is announced alone.
    fn growth_beside_others(&self, number: u32, size: u64) -> Option<Growth> {
        let last = Range::new(size - 1, 1);
        debug_assert!(self.leases.cut_of(number).is_none(), "a truncation waits for extensions, and is waited for");
        if self.copies.write_back(number, last) {
            return None;
        }
        let hidden = self.is_dirty(number, last) && !self.leases.direct_overlaps(number, last);
        Some(if hidden { Growth::LastByte } else { Growth::Found })
    }

    fn extension_ended(&mut self, shared: Shared<'_>, number: u32) {
        self.clear_size_bit(shared, number);
        self.close_intent(number);
        self.pending.leaving().stir(number);
    }

    /// Whether a thread may be at a call that makes the file longer.
    fn may_be_extending(&mut self, shared: Shared<'_>, number: u32, size: u64) -> bool {
        if self.files.are_extended_unasked(shared, number, size) {
            return true;
        }
        let direct = |direct: &Direct| direct.extends() || direct.range.end() > size;
        // A truncation whose thread died leaves dirty bytes beyond the known size: their write-back makes the
        // file longer too.
        let beyond = Range::new(size, u64::MAX);
        let copied = || self.copies.write_back(number, beyond);
        self.leases.direct_of(number).any(direct) || copied()
    }

    /// The slow file is `size` long now, or could not be extended.
    pub fn on_extended(&mut self, shared: Shared<'_>, number: u32, result: Result<u64, i32>) {
        if self.on_lengthened(shared, number, result.is_ok()) {
            return;
        }
        let Some(file) = self.files.get_mut(&number) else { return };
        match result {
            Ok(size) => {
                let size = file.length.size().max(size);
                self.set_size(number, size);
                shared.files[number as usize].size.store(size, Ordering::Release);
                let now_ns = self.measured_ns;
                if self.file(number).length.end_extension(now_ns) {
                    self.files.await_extension(number);
                } else {
                    self.extension_ended(shared, number);
                }
            }
            Err(_) => {
                file.length.fail_extension();
                self.extension_ended(shared, number);
            }
        }
        self.progress(shared);
        self.forget_if_done(shared, number);
    }
}
