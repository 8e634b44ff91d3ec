//! Parts of a state that most steps leave alone: cheap to copy, hashed once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A value with its hash.
#[derive(Clone, Debug)]
pub(super) struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

/// The hash of anything, the same in every run.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T: Hash + Clone> Shared<T> {
    pub(super) fn new(value: T) -> Shared<T> {
        Shared { hash: hash_of(&value), value: Arc::new(value) }
    }

    pub(super) fn get(&self) -> &T {
        &self.value
    }

    pub(super) fn key(&self) -> u64 {
        self.hash
    }

    /// Changes it.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(Arc::make_mut(&mut self.value));
        self.hash = hash_of(&*self.value);
        result
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
