//! The library's memory comes from the kernel, page by page, never from the program's `malloc`.
//!
//! A hook may be entered inside `malloc`: by an allocator that opens a file or traces itself, or by a signal handler
//! that interrupted one. A `fork` may find `malloc` locked by another library's handler while the library's own lock is
//! held. Nothing here has a lock or a state, so that none of this matters. It is slow, and used where a file is opened,
//! renamed or removed, a thread begins, or regions of a file became others; any other data call allocates nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use super::errno::Errno;
use super::raw::syscall;

/// What the kernel hands out, and the largest alignment.
const PAGE_BYTES: usize = 4096;

/// One mapping for each piece of memory.
struct Pages;

#[cfg(not(test))]
#[global_allocator]
static PAGES: Pages = Pages;

fn mapped_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// The address a system call returned, or null.
fn address(result: Result<usize, Errno>) -> *mut u8 {
    result.map_or(ptr::null_mut(), |address| address as *mut u8)
}

// SAFETY: every piece is a mapping of its own, at least as long as its layout says and aligned to a page.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE_BYTES {
            return ptr::null_mut();
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        address(unsafe { syscall!(libc::SYS_mmap, 0, mapped_bytes(layout.size()), protection, flags, -1i32, 0) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract; the kernel's pages are zero.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `alloc` or `realloc` made this mapping with this size, and the caller gives it up.
        let _ = unsafe { syscall!(libc::SYS_munmap, memory, mapped_bytes(layout.size())) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (before, after) = (mapped_bytes(layout.size()), mapped_bytes(size));
        if before == after {
            return memory;
        }
        // SAFETY: `alloc` or `realloc` made this mapping with this size; the caller uses the new address alone.
        address(unsafe { syscall!(libc::SYS_mremap, memory, before, after, libc::MREMAP_MAYMOVE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_shrink_and_keep_their_bytes() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: every piece is used within its size, and freed once.
        unsafe {
            let mut memory = Pages.alloc_zeroed(layout(100));
            assert_eq!(*memory.add(99), 0);
            *memory.add(99) = 7;
            let mut before = 100;
            for size in [4096, 4097, 1 << 20, 200] {
                memory = Pages.realloc(memory, layout(before), size);
                assert_eq!(*memory.add(99), 7);
                *memory.add(size - 1) = 1;
                before = size;
            }
            Pages.dealloc(memory, layout(before));
            assert!(Pages.alloc(Layout::from_size_align(1, 8192).unwrap()).is_null());
        }
    }
}
