//! Lists made between `vfork` and `execve`. A short one lies on the stack: memory from the kernel would stay
//! allocated in the parent.

use std::mem::MaybeUninit;

/// Elements that lie on the stack if there are not too many.
pub(crate) struct Room<T, const COUNT: usize> {
    few: [MaybeUninit<T>; COUNT],
    many: Vec<T>,
    length: usize,
    is_large: bool,
}

impl<T: Copy, const COUNT: usize> Room<T, COUNT> {
    /// Room for so many elements.
    pub(crate) fn of(count: usize) -> Room<T, COUNT> {
        let is_large = count > COUNT;
        let many = if is_large { Vec::with_capacity(count) } else { Vec::new() };
        Room { few: [const { MaybeUninit::uninit() }; COUNT], many, length: 0, is_large }
    }

    /// Adds one.
    pub(crate) fn push(&mut self, element: T) {
        if self.is_large {
            return self.many.push(element);
        }
        self.few[self.length].write(element);
        self.length += 1;
    }

    /// The first of those there are.
    pub(crate) fn as_ptr(&self) -> *const T {
        if self.is_large { self.many.as_ptr() } else { self.few.as_ptr().cast() }
    }
}
