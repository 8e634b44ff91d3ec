//! Regions that belong on flash: commands that say which, and programs that ask.
//!
//! A plan may have more regions than a packet holds, and reading it takes a while: the command line reads it,
//! looks at the files and sends the regions of one file after another, in as many packets as it takes; those
//! of a file count with the last of them.
//!
//! Regions belong to a file, and are in the journal. A run may also want them for a name, as many programs
//! make their files anew: they are then given to whatever file is opened by that name and has none, as long
//! as this agent lives.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_insight::plan::REGIONS_MAX;
use headstart_overlay::{Answer, Placement};
use headstart_policy::client::carl::{Regions, Wanted};
use headstart_protocol::message::{Envelope, REGIONS_PER_REPLY, Reply, encode_regions};
use headstart_units::request::Range;

use crate::status::{self, FilePlacement, PlacementStatus, RegionsOfFile};
use crate::store::as_path;

use super::{EventLoop, STATUS_FILES_MAX, STATUS_PATHS_MAX};

/// Regions that a connection has sent of a file; the others follow.
pub(super) type Incomplete = (String, Vec<Wanted>);

impl EventLoop<'_> {
    /// Regions of a file, the last of them if no `more` are to come.
    pub(super) fn want(&mut self, token: u64, wanted: RegionsOfFile) -> status::Answer {
        let RegionsOfFile { path, inode, by_name, regions, more } = wanted;
        let (of, mut all) = self.incomplete.remove(&token).unwrap_or_default();
        if of != path {
            all.clear();
        }
        all.extend(regions.into_iter().map(|[offset, length, benefit_ns, gain_ns]| Wanted {
            range: Range { offset, length },
            benefit_ns,
            gain_ns,
        }));
        if all.len() as u64 > REGIONS_MAX {
            return status::Answer::Error { error: format!("{path}: no plan has more than {REGIONS_MAX} regions") };
        }
        if more {
            self.incomplete.insert(token, (path, all));
            return self.short_status();
        }
        match checked(all).and_then(|regions| self.set_regions(&path, inode, by_name, regions)) {
            Ok(()) => self.short_status(),
            Err(problem) => status::Answer::Error { error: format!("{path}: {problem}") },
        }
    }

    fn set_regions(&mut self, path: &str, inode: Option<u64>, by_name: bool, regions: Regions) -> Result<(), String> {
        let Ok(below) = Path::new(path).strip_prefix(&self.options.site.slow) else {
            return Err(format!("it does not lie in the slow directory {}", self.options.site.slow.display()));
        };
        if self.selection.excludes(below) {
            return Err("patterns keep it off flash: see include and exclude of the site file".into());
        }
        if let Some(problem) = self.managed_elsewhere(Path::new(path)) {
            return Err(problem);
        }
        self.named_regions.remove(path.as_bytes());
        if by_name && regions != Regions::NONE {
            self.named_regions.insert(path.into(), regions.clone());
        }
        let found = match std::fs::metadata(path) {
            Err(error) if by_name && error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(|error| error.to_string())?,
        };
        if !found.is_file() {
            return Err("it is no regular file".into());
        }
        if inode.is_some_and(|inode| inode != found.ino()) {
            return Err("another file has its name by now".into());
        }
        if !self.store.storage().is_managed(found.dev()) {
            return Err("it lies on another file system than the slow directory, and is not managed".into());
        }
        let identity = self.identity_of(path).ok_or("it is gone")?;
        let known = self.overlay.find(identity);
        if regions == Regions::NONE && known.is_none() {
            return Ok(());
        }
        if self.overlay.awaits_number(self.shared.view(), identity) {
            return Err("too many files are known; try again when programs have closed some".into());
        }
        self.make_room(identity, path.as_bytes()).map_err(in_words)?;
        let file = self.tiers().know(identity, path.as_bytes()).map_err(in_words)?;
        self.change_regions(file, regions);
        Ok(())
    }

    /// Programs that have the file open ask anew, and all that follow.
    fn change_regions(&mut self, file: u32, regions: Regions) {
        if self.overlay.regions(file).unwrap_or(&Regions::NONE) == &regions {
            return self.show_regions(file);
        }
        self.overlay.set_regions(self.shared.view(), file, regions);
        self.shared().files[file as usize].regions.fetch_add(1, Ordering::Release);
    }

    /// A program opens the file: it gets the regions of its name, if it has none.
    pub(super) fn give_named_regions(&mut self, file: u32, path: &[u8]) {
        let Some(regions) = self.named_regions.get(path) else { return self.show_regions(file) };
        if self.overlay.regions(file).is_none_or(|own| *own == Regions::NONE) {
            self.change_regions(file, regions.clone());
        } else {
            self.show_regions(file);
        }
    }

    /// The shared table says that the file has regions; a new one does not know.
    fn show_regions(&self, file: u32) {
        let cell = &self.shared().files[file as usize].regions;
        let known = self.overlay.regions(file).is_some_and(|regions| *regions != Regions::NONE);
        if known && !self.overlay.is_following() {
            // Nobody else writes it.
            cell.store(cell.load(Ordering::Relaxed).max(1), Ordering::Release);
        }
    }

    /// Copies regions to flash until all that fits is there, or the connection ends.
    pub(super) fn place(&mut self, token: u64, on: bool) -> status::Answer {
        self.placed_for = on.then_some(token);
        self.overlay.place(self.shared.view(), on);
        self.status()
    }

    /// Regions follow what programs read until the last connection that asked for it ends, or a plan's become known.
    pub(super) fn follow(&mut self, token: u64) -> status::Answer {
        let planned = !self.named_regions.is_empty() || self.overlay.placements().next().is_some();
        if !self.overlay.is_following() && !planned {
            self.overlay.follow(self.shared.view(), Some(self.options.site.region_costs()));
        }
        self.followed_for.insert(token);
        self.short_status()
    }

    /// A connection has ended: what it wanted copied is not copied further.
    pub(super) fn stop_placing_for(&mut self, token: u64) {
        if self.followed_for.remove(&token) && self.followed_for.is_empty() {
            self.overlay.follow(self.shared.view(), None);
        }
        self.incomplete.remove(&token);
        if self.placed_for == Some(token) {
            self.placed_for = None;
            self.overlay.place(self.shared.view(), false);
        }
    }

    /// No region of the file belongs on flash any more, or of any file.
    pub(super) fn unplace(&mut self, path: Option<&str>) -> status::Answer {
        match path {
            None => self.named_regions.clear(),
            Some(path) => drop(self.named_regions.remove(path.as_bytes())),
        }
        let identity = path.and_then(|path| self.identity_of(path));
        let named = |file: u32| match path {
            None => true,
            Some(path) => {
                identity.is_some() && self.overlay.identity(file) == identity
                    || self.overlay.path(file) == Some(path.as_bytes())
            }
        };
        let files: Vec<u32> = self.overlay.placements().map(|of| of.file).filter(|file| named(*file)).collect();
        files.into_iter().for_each(|file| self.change_regions(file, Regions::NONE));
        self.overlay.request_barrier();
        self.overlay.poll(self.shared.view());
        self.status()
    }

    /// A program asks which regions of a file belong on flash.
    pub(super) fn tell_regions(&mut self, token: u64, envelope: Envelope, file: u32, from: u64) {
        let rest = self.overlay.regions(file).map_or(&[][..], |regions| regions.beginning_from(from));
        let part = &rest[..rest.len().min(REGIONS_PER_REPLY)];
        let (last, packed) = (part.len() == rest.len(), encode_regions(part));
        self.send(token, envelope, &Reply::Regions { last, packed: &packed });
    }

    /// How far regions are on flash.
    pub(super) fn placement_status(&self) -> PlacementStatus {
        let (running, following) = (self.overlay.is_placing(), self.overlay.is_following());
        let names = self.named_regions.len() as u64;
        let mut sum = PlacementStatus { running, following, names, ..PlacementStatus::default() };
        for Placement { wanted_bytes, placed_bytes, error, .. } in self.overlay.placements() {
            sum.files += 1;
            sum.wanted_bytes += wanted_bytes;
            sum.placed_bytes += placed_bytes;
            sum.failed += u64::from(error.is_some());
        }
        sum
    }

    /// The files with regions: first those that could not be copied, then those that are not whole on flash.
    pub(super) fn file_placements(&self) -> Vec<FilePlacement> {
        let mut all: Vec<Placement> = self.overlay.placements().collect();
        all.sort_by_key(|of| (of.error.is_none(), of.placed_bytes >= of.wanted_bytes));
        let mut room = STATUS_PATHS_MAX;
        let named = all.into_iter().take(STATUS_FILES_MAX).map_while(|of| {
            let path = as_path(self.overlay.path(of.file).unwrap_or_default()).display().to_string();
            room = room.checked_sub(path.len())?;
            let Placement { wanted_bytes, placed_bytes, error, .. } = of;
            let error = error.map(|errno| std::io::Error::from_raw_os_error(errno).to_string());
            Some(FilePlacement { path, wanted_bytes, placed_bytes, error })
        });
        named.collect()
    }
}

/// What a client sends is not trusted to make sense.
fn checked(mut regions: Vec<Wanted>) -> Result<Regions, String> {
    let possible = |range: Range| range.length > 0 && range.offset.checked_add(range.length).is_some_and(in_a_file);
    if let Some(wrong) = regions.iter().find(|region| !possible(region.range)) {
        return Err(format!("a region of {} bytes at {} is impossible", wrong.range.length, wrong.range.offset));
    }
    regions.sort_unstable_by_key(|region| region.range);
    match regions.windows(2).find(|pair| pair[0].range.end() > pair[1].range.offset) {
        Some(pair) => Err(format!("two regions share byte {}", pair[1].range.offset)),
        None => Ok(Regions::new(regions)),
    }
}

fn in_a_file(end: u64) -> bool {
    i64::try_from(end).is_ok()
}

fn in_words(answer: Answer) -> String {
    match answer {
        Answer::Error { text, .. } => text,
        other => format!("it cannot be known: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_that_make_no_sense_are_refused() {
        let region = |offset, length| Wanted { range: Range { offset, length }, benefit_ns: 1, gain_ns: 1 };
        assert_eq!(checked(vec![region(10, 5), region(0, 10)]).unwrap().iter().count(), 2);
        for wrong in [
            vec![region(0, 0)],
            vec![region(u64::MAX, 2)],
            vec![region(1 << 63, 1)],
            vec![region(0, 10), region(20, 1), region(9, 2)],
        ] {
            assert!(checked(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
