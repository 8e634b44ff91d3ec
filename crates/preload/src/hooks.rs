//! What takes the place of libc's functions.
//!
//! ```text
//! symbols       the table: names, arguments, what to do          macros   makes hooks of its lines
//! streams       the table of what reads and writes streams       next     the definition behind ours
//! by_number     `syscall`, as the call of libc's that makes that system call
//! trampolines   variadic functions, dlopen, vfork, lists of arguments
//! lookups       `dlsym`: who looks for a hooked function finds the hook
//! loaded        the objects that the dynamic linker has loaded   objects  what they define
//! ```

mod by_number;
pub(crate) mod loaded;
mod lookups;
mod macros;
pub(crate) mod next;
mod objects;
mod streams;
mod symbols;
mod trampolines;
