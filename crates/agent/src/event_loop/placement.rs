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

impl EventLoop<'_> {
    /// Regions of a file, the last of them if no `more` are to come.
    pub(super) fn want(&mut self, token: u64, wanted: RegionsOfFile) -> status::Answer {
        let RegionsOfFile { path, inode, by_name, regions, more } = wanted;
        let mut all = self.regions.take_incomplete(token, &path);
        all.extend(regions.into_iter().map(|[offset, length, benefit_ns, gain_ns]| Wanted {
            range: Range { offset, length },
            benefit_ns,
            gain_ns,
        }));
        if all.len() as u64 > REGIONS_MAX {
            return status::Answer::Error { error: format!("{path}: no plan has more than {REGIONS_MAX} regions") };
        }
        if more {
            self.regions.keep_incomplete(token, path, all);
            return self.short_status();
        }
        match checked(all).and_then(|regions| self.set_regions(&path, inode, by_name, regions)) {
            Ok(()) => self.short_status(),
            Err(problem) => status::Answer::Error { error: format!("{path}: {problem}") },
        }
    }

    fn set_regions(&mut self, path: &str, inode: Option<u64>, by_name: bool, regions: Regions) -> Result<(), String> {
        if !Path::new(path).starts_with(self.site.slow()) {
            return Err(format!("it does not lie in the slow directory {}", self.site.slow().display()));
        }
        if self.site.excludes(path.as_bytes()) {
            return Err("patterns keep it off flash: see include and exclude of the site file".into());
        }
        if let Some(problem) = self.managed_elsewhere(Path::new(path)) {
            return Err(problem);
        }
        self.regions.set(path.as_bytes(), Some(&regions).filter(|_| by_name));
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
        if !self.tiers.store.storage().is_managed(found.dev()) {
            return Err("it lies on another file system than the slow directory, and is not managed".into());
        }
        let identity = self.identity_of(path).ok_or("it is gone")?;
        let known = self.tiers.overlay.find(identity);
        if regions == Regions::NONE && known.is_none() {
            return Ok(());
        }
        if self.tiers.overlay.awaits_number(self.tiers.shared.view(), identity) {
            return Err("too many files are known; try again when programs have closed some".into());
        }
        self.make_room(identity, path.as_bytes()).map_err(in_words)?;
        let file = self.tiers.know(identity, path.as_bytes()).map_err(in_words)?;
        self.change_regions(file, regions);
        Ok(())
    }

    /// Programs that have the file open ask anew, and all that follow.
    fn change_regions(&mut self, file: u32, regions: Regions) {
        if self.tiers.overlay.regions(file).unwrap_or(&Regions::NONE) == &regions {
            return self.show_regions(file);
        }
        self.tiers.overlay.set_regions(self.tiers.shared.view(), file, regions);
        self.shared().files[file as usize].regions.fetch_add(1, Ordering::Release);
    }

    /// A program opens the file: it gets the regions of its name, if it has none.
    pub(super) fn give_named_regions(&mut self, file: u32, path: &[u8]) {
        let Some(regions) = self.regions.of(path).cloned() else { return self.show_regions(file) };
        if self.tiers.overlay.regions(file).is_none_or(|own| *own == Regions::NONE) {
            self.change_regions(file, regions);
        } else {
            self.show_regions(file);
        }
    }

    /// The shared table says that the file has regions; a new one does not know.
    fn show_regions(&self, file: u32) {
        let cell = &self.shared().files[file as usize].regions;
        let known = self.tiers.overlay.regions(file).is_some_and(|regions| *regions != Regions::NONE);
        if known && !self.tiers.overlay.is_following() {
            // Nobody else writes it.
            cell.store(cell.load(Ordering::Relaxed).max(1), Ordering::Release);
        }
    }

    /// Copies regions to flash until all that fits is there, or the connection ends.
    pub(super) fn place(&mut self, token: u64, on: bool) -> status::Answer {
        self.regions.place_for(on.then_some(token));
        self.tiers.overlay.place(self.tiers.shared.view(), on);
        self.status()
    }

    /// Regions follow what programs read until the last connection that asked for it ends, or a plan's become known.
    pub(super) fn follow(&mut self, token: u64) -> status::Answer {
        let planned = self.regions.count() > 0 || self.tiers.overlay.placements().next().is_some();
        if !self.tiers.overlay.is_following() && !planned {
            self.tiers.overlay.follow(self.tiers.shared.view(), Some(self.site.site().region_costs()));
        }
        self.regions.follow_for(token);
        self.short_status()
    }

    /// A connection has ended: what it wanted copied is not copied further.
    pub(super) fn stop_placing_for(&mut self, token: u64) {
        let ended = self.regions.forget(token);
        if ended.following {
            self.tiers.overlay.follow(self.tiers.shared.view(), None);
        }
        if ended.placing {
            self.tiers.overlay.place(self.tiers.shared.view(), false);
        }
    }

    /// No region of the file belongs on flash any more, or of any file.
    pub(super) fn unplace(&mut self, path: Option<&str>) -> status::Answer {
        match path {
            None => self.regions.clear(),
            Some(path) => self.regions.set(path.as_bytes(), None),
        }
        let identity = path.and_then(|path| self.identity_of(path));
        let named = |file: u32| match path {
            None => true,
            Some(path) => {
                identity.is_some() && self.tiers.overlay.identity(file) == identity
                    || self.tiers.overlay.path(file) == Some(path.as_bytes())
            }
        };
        let files: Vec<u32> = self.tiers.overlay.placements().map(|of| of.file).filter(|file| named(*file)).collect();
        files.into_iter().for_each(|file| self.change_regions(file, Regions::NONE));
        self.tiers.overlay.request_barrier();
        self.tiers.poll();
        self.status()
    }

    /// A program asks which regions of a file belong on flash.
    pub(super) fn tell_regions(&mut self, token: u64, envelope: Envelope, file: u32, from: u64) {
        let rest = self.tiers.overlay.regions(file).map_or(&[][..], |regions| regions.beginning_from(from));
        let part = &rest[..rest.len().min(REGIONS_PER_REPLY)];
        let (last, packed) = (part.len() == rest.len(), encode_regions(part));
        self.send(token, envelope, &Reply::Regions { last, packed: &packed });
    }

    /// How far regions are on flash.
    pub(super) fn placement_status(&self) -> PlacementStatus {
        let (running, following) = (self.tiers.overlay.is_placing(), self.tiers.overlay.is_following());
        let names = self.regions.count() as u64;
        let mut sum = PlacementStatus { running, following, names, ..PlacementStatus::default() };
        for Placement { wanted_bytes, placed_bytes, error, .. } in self.tiers.overlay.placements() {
            sum.files += 1;
            sum.wanted_bytes += wanted_bytes;
            sum.placed_bytes += placed_bytes;
            sum.failed += u64::from(error.is_some());
        }
        sum
    }

    /// The files with regions: first those that could not be copied, then those that are not whole on flash.
    pub(super) fn file_placements(&self) -> Vec<FilePlacement> {
        let mut all: Vec<Placement> = self.tiers.overlay.placements().collect();
        all.sort_by_key(|of| (of.error.is_none(), of.placed_bytes >= of.wanted_bytes));
        let mut room = STATUS_PATHS_MAX;
        let named = all.into_iter().take(STATUS_FILES_MAX).map_while(|of| {
            let path = as_path(self.tiers.overlay.path(of.file).unwrap_or_default()).display().to_string();
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
