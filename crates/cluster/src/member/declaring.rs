//! What homes of slots that moved are told of the files there, until they have heard it.

use std::collections::BTreeMap;

use crate::files::Beside;
use crate::guest::Guest;
use crate::member::Member;
use crate::message::{Declared, Message};
use crate::names::Seat;
use crate::owner::Packed;

impl Member {
    /// There is a newer view than that: the files whose homes have to be told. A walk, which looks at no more than the
    /// files' names.
    pub(super) fn find_moved(&mut self, before: u64) {
        self.guests.index_mut().take_new();
        self.undeclared.extend(self.view.moved_since(before));
        if self.undeclared.is_empty() {
            self.moved = Beside::default();
            return;
        }
        let is_meant = self.view.for_each_slot(|slot| self.undeclared.contains(&slot));
        // An owner's file has a guest's side too.
        let logged = self.log.files();
        let files = self.guests.names().chain(logged).filter(|file| is_meant[usize::from(self.view.slot(*file))]);
        self.moved = Beside(files.collect());
    }

    /// Files of which nothing was known before may have to be declared too.
    pub(super) fn note_new(&mut self) {
        for file in self.guests.index_mut().take_new() {
            if !self.undeclared.is_empty() && self.undeclared.contains(&self.view.slot(file)) {
                self.moved.0.push(file);
            }
        }
    }

    /// Tells homes of slots that moved what this member has there: each file is looked at once, whatever the homes.
    pub(super) fn declare(&mut self) {
        let mut homes: BTreeMap<Seat, (Vec<u16>, Vec<Declared>)> = BTreeMap::new();
        for slot in &self.undeclared {
            homes.entry(self.view.holder(*slot)).or_default().0.push(*slot);
        }
        let files = if homes.is_empty() { Vec::new() } else { self.declared() };
        for declared in files {
            homes.entry(self.view.home(declared.file)).or_default().1.push(declared);
        }
        for (home, (slots, files)) in homes {
            self.send(home, Message::Declare(slots, files));
        }
    }

    fn declared(&mut self) -> Vec<Declared> {
        self.note_new();
        let is_meant = self.view.for_each_slot(|slot| self.undeclared.contains(&slot));
        let Beside(moved) = &mut self.moved;
        moved.retain(|file| is_meant[usize::from(self.view.slot(*file))]);
        moved.sort_unstable();
        moved.dedup();
        let declared = self.moved.0.iter().map(|file| Declared {
            file: *file,
            holds: self.guests.get(*file).is_some_and(Guest::holds_alone),
            owns: self.owners.get(*file).map(Packed::epoch),
            logged: self.log.speaks_of(*file),
        });
        declared.filter(|declared| declared.holds || declared.owns.is_some() || declared.logged).collect()
    }
}
