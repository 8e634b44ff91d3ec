//! What is known of each file, by its name, beside an index of the files that are at work: so what happens now and then
//! looks at those alone, however many there are that nobody uses.
//!
//! Whether a file is at work follows from what is known of it, and from nothing else. It is asked whenever that was
//! changed, here and nowhere else: a file is given out to be changed in a [`Changing`], which asks when it is dropped.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use crate::names::FileId;

/// What can be known of a file.
pub(crate) trait Listed {
    /// What the index goes by.
    type Work: Clone + PartialEq;
    /// The index.
    type Index: Clone + Debug + Default + PartialEq + Eq + Hash;
    /// What it says of the file.
    fn work(&self) -> Self::Work;
    /// Puts it where it belongs; nothing is said of a file that is not known.
    fn list(index: &mut Self::Index, file: FileId, before: Option<Self::Work>, now: Option<Self::Work>);
    /// Takes no more room than it needs: what says the same is the same.
    fn pack(&mut self);
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Files<T: Listed> {
    all: BTreeMap<FileId, T>,
    index: T::Index,
}

impl<T: Listed> Default for Files<T> {
    fn default() -> Files<T> {
        Files { all: BTreeMap::new(), index: T::Index::default() }
    }
}

impl<T: Listed> Files<T> {
    /// What is at work.
    pub(crate) fn index(&self) -> &T::Index {
        &self.index
    }

    /// The same, of which something is taken.
    pub(crate) fn index_mut(&mut self) -> &mut T::Index {
        &mut self.index
    }

    /// What is known of a file.
    pub(crate) fn get(&self, file: FileId) -> Option<&T> {
        visits::count();
        self.all.get(&file)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, file: FileId) -> Option<Changing<'_, T>> {
        visits::count();
        let known = self.all.get_mut(&file)?;
        Some(Changing { file, before: Some(known.work()), known, index: &mut self.index })
    }

    /// The same, of one of which nothing was known too.
    pub(crate) fn at(&mut self, file: FileId) -> Changing<'_, T>
    where
        T: Default,
    {
        visits::count();
        let (known, before) = match self.all.entry(file) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                let before = known.work();
                (known, Some(before))
            }
            Entry::Vacant(place) => (place.insert(T::default()), None),
        };
        Changing { file, before, known, index: &mut self.index }
    }

    /// This is known of a file, and nothing else.
    pub(crate) fn insert(&mut self, file: FileId, mut known: T) {
        known.pack();
        let now = known.work();
        let before = self.all.insert(file, known).map(|before| before.work());
        T::list(&mut self.index, file, before, Some(now));
    }

    /// Nothing is known of a file any more.
    pub(crate) fn remove(&mut self, file: FileId) -> Option<T> {
        let known = self.all.remove(&file)?;
        T::list(&mut self.index, file, Some(known.work()), None);
        Some(known)
    }

    /// All files that are known: a walk.
    pub(crate) fn names(&self) -> impl Iterator<Item = FileId> + '_ {
        self.all.keys().copied().inspect(|_| visits::count())
    }

    /// Changes those of all that `meant` says: a walk.
    pub(crate) fn change_where(&mut self, meant: impl Fn(FileId, &T) -> bool, mut act: impl FnMut(&mut T)) {
        for (file, known) in &mut self.all {
            visits::count();
            if meant(*file, known) {
                let before = Some(known.work());
                act(&mut Changing { file: *file, before, known, index: &mut self.index });
            }
        }
    }

    /// For tests: whether the index is as a walk finds it.
    #[cfg(test)]
    pub(crate) fn are_in_step(&self) -> bool {
        let mut index = T::Index::default();
        self.all.iter().for_each(|(file, known)| T::list(&mut index, *file, None, Some(known.work())));
        index == self.index
    }
}

/// What makes no difference between two states: where to look, and no more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside<T>(pub(crate) T);

impl<T> PartialEq for Beside<T> {
    fn eq(&self, _: &Beside<T>) -> bool {
        true
    }
}

impl<T> Eq for Beside<T> {}

impl<T> Hash for Beside<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A file that is changed.
pub(crate) struct Changing<'a, T: Listed> {
    file: FileId,
    before: Option<T::Work>,
    known: &'a mut T,
    index: &'a mut T::Index,
}

impl<T: Listed> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.known
    }
}

impl<T: Listed> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.known
    }
}

impl<T: Listed> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        self.known.pack();
        let now = Some(self.known.work());
        if self.before != now {
            T::list(self.index, self.file, self.before.take(), now);
        }
    }
}

/// Puts a file into a list, or takes it out.
pub(crate) fn place(list: &mut BTreeSet<FileId>, file: FileId, (was, is): (bool, bool)) {
    match (was, is) {
        (false, true) => list.insert(file),
        (true, false) => list.remove(&file),
        _ => return,
    };
}

/// How often a file was looked at, for tests.
#[cfg(not(test))]
mod visits {
    #[inline(always)]
    pub(super) fn count() {}
}

#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// On this thread, since this was last asked.
    pub(crate) fn take() -> usize {
        COUNT.take()
    }
}
