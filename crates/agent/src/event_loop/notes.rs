//! Notes between this agent and those of other nodes ([`headstart_cluster::Notes`]): what programs did to names, where
//! files are, programs that the library is not in.
//!
//! | what happened here | who is told | what follows there |
//! |---|---|---|
//! | a file was renamed | all | the next agent finds it |
//! | a directory was renamed | all | it finds what lies below |
//! | a file got or loses one of several names | all | it finds it by another one |
//! | the last name of a file is gone, nobody here has it open | its home, which passes it on to the owner | its flash is free |
//! | a file with dirty bytes is not where the journal says | all | who has it says where it is |
//! | a file's time of last write was set | all | it is no stranger's change |
//! | a file cannot leave flash that others ask for | all | their threads fail, and do not wait for ever |
//! | how much flash is needed here has changed | all | each takes its share of the capacity (`capacity.rs`) |
//! | a program starts that the library is not in | all | all leaves flash (`strangers/elsewhere.rs`) |
//!
//! That a file is gone that no other node has bytes of is not told. Where one is lost, the next agent of a node may not
//! find a file: it names it, asks the others, and nobody reads older bytes meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use headstart_cluster::{Concerned, FileId, MemberId, Note, Notes, Seat, View, wire};
use headstart_overlay::journal::Identity;
use headstart_protocol::message::Envelope;

use crate::error::Result;
use crate::identity::{birth_ns, is_same};
use crate::slow_file::SlowFile;
use crate::storage::Access;
use crate::store::{self, as_path};

use super::capacity::SharedCapacity;
use super::{EventLoop, NO_SLOT};

/// How often what was not answered is said again; assumed: some round trips on a busy network.
const AGAIN_PERIOD: Duration = Duration::from_millis(100);
/// How often the others are asked for a file that somebody waits for; assumed: a part of what a program's start takes.
const ASK_PERIOD: Duration = Duration::from_secs(1);
/// Files asked for at once, and named in a status; assumed: one message.
const MISSING_MAX: usize = 64;

/// See the module.
pub(super) struct Telling {
    notes: Notes,
    /// When something was last said, while an answer is awaited.
    said: Option<Instant>,
    /// Files without a name that programs here have open: others hear of it when they are closed.
    open_unlinked: BTreeMap<u32, FileId>,
    /// Files with dirty bytes that are not where the journal said, by number.
    missing: BTreeSet<u32>,
    /// When the others were last asked for them.
    asked: Instant,
    capacity: SharedCapacity,
}

impl Telling {
    pub(super) fn new(seat: Seat) -> Telling {
        Telling {
            notes: Notes::new(seat),
            said: None,
            open_unlinked: BTreeMap::new(),
            missing: BTreeSet::new(),
            asked: Instant::now(),
            capacity: SharedCapacity::default(),
        }
    }

    /// What of the directory's capacity is this node's.
    pub(super) fn capacity_mut(&mut self) -> &mut SharedCapacity {
        &mut self.capacity
    }

    /// How long until something is to be said.
    pub(super) fn left(&self) -> Option<Duration> {
        let again = self.said.map(|said| AGAIN_PERIOD.saturating_sub(said.elapsed()));
        let ask = (!self.missing.is_empty()).then(|| ASK_PERIOD.saturating_sub(self.asked.elapsed()));
        [again, ask, self.capacity.left()].into_iter().flatten().min()
    }
}

impl EventLoop<'_> {
    /// Tells another member.
    pub(super) fn tell_member(&mut self, to: MemberId, note: Note) {
        if let Some(telling) = self.cluster.telling_mut()
            && !telling.notes.tell(to, note)
        {
            tracing::warn!(node = to.node, "a node that answers nothing is not told of a name that changed");
        }
    }

    /// Tells all other members.
    pub(super) fn tell_all(&mut self, note: &Note) {
        let members = self.other_members();
        members.into_iter().for_each(|member| self.tell_member(member, note.clone()));
    }

    /// The other members.
    pub(super) fn other_members(&self) -> BTreeSet<MemberId> {
        self.cluster.telling().map(|telling| telling.notes.members().collect()).unwrap_or_default()
    }

    /// Sends what is to be said. What notes that came led to is appended by now.
    pub(super) fn say_notes(&mut self) {
        for (file, errno) in self.tiers.overlay.take_stuck() {
            if !self.is_listed_as_missing(file) {
                self.tell_all(&stuck(file, errno.unwrap_or(0)));
            }
        }
        let Some(telling) = self.cluster.telling_mut() else { return };
        let letters = telling.notes.take(telling.said.is_some_and(|said| said.elapsed() >= AGAIN_PERIOD));
        if !telling.notes.wait() {
            telling.said = None;
        } else if !letters.is_empty() {
            telling.said = Some(Instant::now());
        }
        letters.iter().for_each(|letter| self.send_notes(letter));
    }

    /// The overlay has a view.
    pub(super) fn notes_on_view(&mut self, view: &View) {
        let Some(telling) = self.cluster.telling_mut() else { return };
        let new = telling.notes.on_view(view);
        telling.capacity.on_view(telling.notes.me(), view);
        let need = telling.capacity.told();
        let all = self.other_members();
        self.strangers_and_members(&new, &all);
        for member in new {
            need.iter().for_each(|need| self.tell_member(member, need.clone()));
            self.missing_identities().into_iter().for_each(|identity| self.tell_member(member, where_is(identity)));
            for (file, errno) in self.tiers.overlay.stuck_files() {
                if !self.is_listed_as_missing(file) {
                    self.tell_member(member, stuck(file, errno));
                }
            }
        }
    }

    /// Notes of the member that its connection says.
    pub(super) fn on_notes(&mut self, from: Option<MemberId>, bytes: &[u8]) -> Result<()> {
        let Some(told) = wire::decode_told(bytes) else {
            tracing::warn!("notes of another node cannot be understood");
            return Ok(());
        };
        let (seat, member) = (told.from, told.from.member);
        let known = from == Some(member);
        let notes = self.cluster.telling_mut().filter(|_| known).and_then(|telling| telling.notes.on_told(told));
        let Some(notes) = notes else {
            // One of the two has an older view.
            self.cluster.look();
            return Ok(());
        };
        self.heard_of(member);
        for note in notes {
            self.take_note(seat, note);
            // Before the next: a file's number may be given to another file in it.
            self.end_event()?;
        }
        Ok(())
    }

    fn take_note(&mut self, seat: Seat, note: Note) {
        let (view, from) = (self.tiers.shared.view(), seat.member);
        match note {
            Note::Unlinked { file, passed } => {
                let is_named = |number| self.tiers.store.slow(number).is_some_and(|slow| slow.has_name());
                self.tiers.overlay.unlinked_elsewhere(view, file, is_named);
                if !passed {
                    self.tell_of_removal(file);
                }
            }
            Note::Renamed { old, new, exchanged } => {
                self.tiers.overlay.renamed_elsewhere(view, &old, &new, exchanged);
            }
            Note::At { file, birth_ns, path } => self.is_at(Identity { inode: file.0, birth_ns }, &path),
            Note::Named { file, stays, path } => {
                if let Some(number) = self.tiers.overlay.named_elsewhere(view, file, stays, &path) {
                    let seq = self.commands.number(1);
                    self.tiers.overlay.take_off(view, Envelope { slot: NO_SLOT, seq }, number);
                }
            }
            Note::WhereIs { file, birth_ns } => self.say_where(from, Identity { inode: file.0, birth_ns }),
            Note::TimesSet { file, birth_ns } => {
                let meant = self.known_identity(Identity { inode: file.0, birth_ns });
                meant.map(|identity| self.times_set(identity));
            }
            Note::Stuck { file, errno } => {
                let errno = i32::try_from(errno).ok().filter(|errno| *errno != 0);
                self.tiers.overlay.stuck_elsewhere(view, seat, file, errno);
            }
            Note::Needs { bytes } => {
                if let Some(telling) = self.cluster.telling_mut() {
                    telling.capacity.heard(from, bytes);
                }
            }
            Note::KeepOff { on, question } => self.keep_off_for(from, on, question),
            Note::Off { question, problem } => self.is_off(from, question, &problem),
        }
    }

    /// A thread has set a file's time of last write; whether it was the time that this agent had shown.
    pub(super) fn times_set_here(&mut self, identity: Identity) -> bool {
        let file = FileId(identity.inode);
        if self.cluster.telling().is_some() && !self.tiers.overlay.is_nobody_elses(file) {
            self.tell_all(&Note::TimesSet { file, birth_ns: identity.birth_ns });
        }
        self.times_set(identity)
    }

    /// The last name of a file is gone, says a thread.
    pub(super) fn unlinked(&mut self, envelope: Envelope, inode: u64) {
        let file = FileId(inode);
        let is_told = self.cluster.telling().is_some() && !self.tiers.overlay.is_nobody_elses(file);
        let open = self.tiers.overlay.named(file).filter(|number| self.tiers.overlay.is_open(*number));
        let is_named = |number| self.tiers.store.slow(number).is_some_and(|slow| slow.has_name());
        self.tiers.overlay.on_unlinked(self.tiers.shared.view(), envelope, inode, is_named);
        // One that has another name after all is not told of.
        let open = open.filter(|number| self.tiers.overlay.named(file) != Some(*number));
        match (is_told, open) {
            (true, Some(number)) => {
                self.cluster.telling_mut().map(|telling| telling.open_unlinked.insert(number, file));
            }
            (true, None) => self.tell_of_removal(file),
            (false, _) => {}
        }
    }

    /// The file's number is free: nobody here has it open any more.
    pub(super) fn tell_of_closed(&mut self, number: u32) {
        if let Some(file) = self.cluster.telling_mut().and_then(|telling| telling.open_unlinked.remove(&number)) {
            self.tell_of_removal(file);
        }
    }

    /// Tells whom it concerns that a file has no name any more.
    fn tell_of_removal(&mut self, file: FileId) {
        match self.tiers.overlay.concerned(file) {
            Concerned::Home(member) => self.tell_member(member, Note::Unlinked { file, passed: false }),
            Concerned::Owner(member) if self.other_members().contains(&member) => {
                self.tell_member(member, Note::Unlinked { file, passed: true });
            }
            Concerned::All => self.tell_all(&Note::Unlinked { file, passed: true }),
            Concerned::Owner(_) | Concerned::Nobody => {}
        }
    }

    /// A thread has renamed something: what it was the slow directory says.
    pub(super) fn tell_of_rename(&mut self, old_length: u32, exchanged: bool, paths: &[u8]) {
        let Some((old, new)) = paths.split_at_checked(old_length as usize) else { return };
        if self.cluster.telling().is_none() {
            return;
        }
        let found = |path: &[u8]| as_path(path).symlink_metadata().ok();
        let moved: Vec<_> = [(new, true), (old, exchanged)]
            .into_iter()
            .filter(|(_, moved)| *moved)
            .map(|(path, _)| (path, found(path)))
            .collect();
        let is_file = |found: &Option<std::fs::Metadata>| found.as_ref().is_some_and(std::fs::Metadata::is_file);
        if !moved.iter().all(|(_, found)| is_file(found)) {
            return self.tell_all(&Note::Renamed { old: old.to_vec(), new: new.to_vec(), exchanged });
        }
        for (path, found) in moved {
            if let Some(found) = found.filter(|found| self.tiers.store.storage().is_managed(found.dev())) {
                let (file, birth_ns) = (FileId(found.ino()), birth_ns(&found));
                self.tell_all(&Note::At { file, birth_ns, path: path.to_vec() });
            }
        }
    }

    /// The identity by which this agent knows a file of another one's.
    fn known_identity(&self, told: Identity) -> Option<Identity> {
        let number = self.tiers.overlay.named(FileId(told.inode))?;
        self.tiers.overlay.identity(number).filter(|known| told.birth_ns == 0 || is_same(told, *known))
    }

    /// A file lies there, says another agent.
    fn is_at(&mut self, found: Identity, path: &[u8]) {
        let Some(number) = self.tiers.overlay.named(FileId(found.inode)) else { return };
        let meant = self.tiers.overlay.identity(number).unwrap_or_default();
        if found.birth_ns != 0 && !is_same(found, meant) {
            // The number of the inode is another file's by now.
            return;
        }
        let view = self.tiers.shared.view();
        if self.tiers.store.slow(number).is_some() {
            return self.tiers.overlay.is_at(view, number, path);
        }
        match store::open_slow(&**self.tiers.store.storage(), path, meant, Access::Slow) {
            Ok(opened) => {
                tracing::info!(path = %as_path(path).display(), "a file is found again");
                self.tiers.store.put_slow(number, SlowFile::new(opened, None));
                self.tiers.overlay.is_at(view, number, path);
                self.tiers.overlay.found_again(view, number);
            }
            Err(error) => tracing::warn!(%error, path = %as_path(path).display(), "a file is not there either"),
        }
    }

    fn say_where(&mut self, to: MemberId, meant: Identity) {
        let Some(number) = self.tiers.overlay.named(FileId(meant.inode)) else { return };
        let (Some(found), Some(path)) = (self.tiers.overlay.identity(number), self.tiers.overlay.path(number)) else {
            return;
        };
        if self.tiers.store.slow(number).is_some() && is_same(found, meant) {
            let note = Note::At { file: FileId(found.inode), birth_ns: found.birth_ns, path: path.to_vec() };
            self.tell_member(to, note);
        }
    }

    /// Names the files with dirty bytes that this agent did not find when it began.
    pub(super) fn name_missing_files(&mut self) {
        let is_not_open = |file: u32| self.tiers.store.slow(file).is_none();
        let missing: Vec<(u32, String, u64)> = self
            .tiers
            .overlay
            .file_list()
            .filter(|(file, _, dirty_bytes, _)| *dirty_bytes > 0 && is_not_open(*file))
            .map(|(file, path, dirty_bytes, _)| (file, as_path(path).display().to_string(), dirty_bytes))
            .collect();
        for (_, path, dirty_bytes) in &missing {
            tracing::error!(
                path,
                dirty_bytes,
                "a file is not there any more, and this node's flash has bytes that the disks have not: nodes that use it \
                 wait. It is found again when a program opens it; 'headstart drain --discard FILE' gives its bytes up"
            );
        }
        if let Some(telling) = self.cluster.telling_mut() {
            telling.missing = missing.into_iter().map(|(file, ..)| file).collect();
        }
    }

    /// Asks the others where files are that somebody waits for.
    pub(super) fn ask_for_missing_files(&mut self) {
        let is_not_found =
            |file: &u32| self.tiers.store.slow(*file).is_none() && self.tiers.overlay.path(*file).is_some();
        let Some(telling) = self.cluster.telling_mut() else { return };
        if telling.missing.is_empty() || telling.asked.elapsed() < ASK_PERIOD {
            return;
        }
        telling.asked = Instant::now();
        telling.missing.retain(is_not_found);
        for identity in self.missing_identities() {
            let number = self.tiers.overlay.named(FileId(identity.inode));
            if number.is_some_and(|number| self.tiers.overlay.is_awaited_elsewhere(number)) {
                self.tell_all(&where_is(identity));
            }
        }
    }

    /// Whether the file is one of those with dirty bytes that are not where they were: who asks for it waits, as it may be
    /// found.
    fn is_listed_as_missing(&self, file: FileId) -> bool {
        let missing = self.cluster.telling().map(|telling| &telling.missing);
        let mut inodes = missing.into_iter().flatten().filter_map(|number| self.tiers.overlay.identity(*number));
        inodes.any(|identity| identity.inode == file.0)
    }

    fn missing_identities(&self) -> Vec<Identity> {
        let missing = self.cluster.telling().map(|telling| &telling.missing);
        let numbers = missing.into_iter().flatten().take(MISSING_MAX);
        numbers.filter_map(|number| self.tiers.overlay.identity(*number)).collect()
    }

    /// Paths of the files that are missing.
    pub(super) fn missing_files(&self) -> Vec<String> {
        let missing = self.cluster.telling().map(|telling| &telling.missing);
        let still = missing.into_iter().flatten().filter(|number| self.tiers.store.slow(**number).is_none());
        let paths = still.filter_map(|number| self.tiers.overlay.path(*number));
        paths.take(MISSING_MAX).map(|path| as_path(path).display().to_string()).collect()
    }
}

fn stuck(file: FileId, errno: i32) -> Note {
    Note::Stuck { file, errno: errno.unsigned_abs() }
}

fn where_is(identity: Identity) -> Note {
    Note::WhereIs { file: FileId(identity.inode), birth_ns: identity.birth_ns }
}
