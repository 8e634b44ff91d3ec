//! What takes the place of libc's functions.
//!
//! ```text
//! symbols       the table: names, arguments, what to do
//! trampolines   variadic functions, dlopen, vfork, lists of arguments
//! by_number     `syscall`, as the call of libc's that makes that system call
//! lookups       `dlsym`: who looks for a hooked function finds the hook
//! loaded        the objects that the dynamic linker has loaded
//! ```

pub(crate) mod by_number;
pub(crate) mod loaded;
pub(crate) mod lookups;
pub(crate) mod symbols;
pub(crate) mod trampolines;
