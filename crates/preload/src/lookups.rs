//! `dlsym` and `dlvsym`: whoever looks for one of libc's functions in libc itself gets the hook in its place, as one who is linked with
//! it does.
//!
//! A look-up from here on (RTLD_NEXT) or by the usual order (RTLD_DEFAULT) goes by who asks, so that it is left to libc with the
//! program's return address; the hooks stand in that order anyway. A library that defines the function itself stands in front of libc's, or
//! behind the hook: it means libc's, and would call itself without end if it got the hook.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int};

use crate::settings;

/// Files whose functions the hooks take the place of.
const HOOKED: [&[u8]; 5] = [b"libc.so.6", b"libpthread.so.0", b"librt.so.1", b"libaio.so.1", b"liburing.so.2"];

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// Of a version: not the one that a reference without a version means.
const HIDDEN: u16 = 0x8000;

static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The definition of `dlsym` behind ours.
extern "C" fn dlsym_address() -> *mut c_void {
    next(&DLSYM, c"dlsym")
}

extern "C" fn dlvsym_address() -> *mut c_void {
    next(&DLVSYM, c"dlvsym")
}

fn next(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = known.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    let mut walk = Walk { own: false, name, address: 0, found: ptr::null_mut(), named: false };
    walk.all(behind_ours);
    assert!(!walk.found.is_null(), "nothing loaded has {name:?}");
    known.store(walk.found, Ordering::Relaxed);
    walk.found
}

/// libc's `dlsym`, on behalf of this library.
pub fn dlsym_real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: it is `dlsym`, and the name a string.
    unsafe { real_dlsym()(handle, name.as_ptr()) }
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

fn real_dlsym() -> Dlsym {
    // SAFETY: what is called `dlsym` takes and returns this.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(dlsym_address()) }
}

/// What the objects that are loaded are asked for, one after the other.
struct Walk<'n> {
    /// Whether this library was passed.
    own: bool,
    name: &'n CStr,
    /// An address that one of them has.
    address: usize,
    found: *mut c_void,
    /// Whether it is a file of [`HOOKED`].
    named: bool,
}

type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

impl Walk<'_> {
    fn all(&mut self, visit: Visit) {
        // SAFETY: `visit` is called during this call alone, with this.
        unsafe { libc::dl_iterate_phdr(Some(visit), ptr::from_mut(self).cast()) };
    }
}

/// An object that is loaded.
struct Loaded<'o>(&'o libc::dl_phdr_info);

impl Loaded<'_> {
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        // SAFETY: the dynamic linker describes as many headers.
        unsafe { std::slice::from_raw_parts(self.0.dlpi_phdr, self.0.dlpi_phnum.into()) }
    }

    fn holds(&self, address: usize) -> bool {
        self.headers().iter().any(|header| {
            let start = (self.0.dlpi_addr + header.p_vaddr) as usize;
            header.p_type == libc::PT_LOAD && address >= start && address - start < header.p_memsz as usize
        })
    }

    fn is_hooked(&self) -> bool {
        // SAFETY: a string.
        let name = unsafe { CStr::from_ptr(self.0.dlpi_name) }.to_bytes();
        let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        HOOKED.contains(&file)
    }

    /// A table of its dynamic section.
    fn table(&self, which: u64) -> Option<usize> {
        let dynamic = self.headers().iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let address = (self.0.dlpi_addr + dynamic.p_vaddr) as usize;
        let count = dynamic.p_memsz as usize / size_of::<[u64; 2]>();
        // SAFETY: the dynamic section is mapped as long as the object is.
        let entries = unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance::<[u64; 2]>(address), count) };
        let entry = entries.iter().take_while(|entry| entry[0] != 0).find(|entry| entry[0] == which)?;
        // Of some objects, such as the kernel's own, the linker leaves it as it stands in the file.
        let base = self.0.dlpi_addr;
        Some((if entry[1] < base { entry[1] + base } else { entry[1] }) as usize)
    }

    /// Where it defines `name`, as a reference without a version means it.
    fn defines(&self, name: &CStr) -> Option<*mut c_void> {
        let (symbols, strings) = (self.table(DT_SYMTAB)?, self.table(DT_STRTAB)?);
        let versions = self.table(DT_VERSYM);
        let mut hidden = None;
        let mut fits = |index: usize| {
            // SAFETY: whoever asks found the index in the object's own table of hashes.
            let symbol = unsafe { &*ptr::with_exposed_provenance::<libc::Elf64_Sym>(symbols).add(index) };
            // SAFETY: the name is a string of its table.
            let named = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(strings + symbol.st_name as usize)) };
            if symbol.st_shndx == 0 || symbol.st_value == 0 || named != name {
                return None;
            }
            let found = ptr::with_exposed_provenance_mut((self.0.dlpi_addr + symbol.st_value) as usize);
            // SAFETY: there is a version for each symbol.
            let version = versions.map_or(0, |at| unsafe { *ptr::with_exposed_provenance::<u16>(at).add(index) });
            if version & HIDDEN == 0 {
                return Some(found);
            }
            hidden = hidden.or(Some(found));
            None
        };
        let found = match (self.table(DT_GNU_HASH), self.table(DT_HASH)) {
            // SAFETY: the object's own table.
            (Some(table), _) => unsafe { by_gnu_hash(table, name, &mut fits) },
            (None, Some(table)) => {
                // SAFETY: the second word says how many symbols there are.
                let count = unsafe { *ptr::with_exposed_provenance::<u32>(table).add(1) };
                (0..count as usize).find_map(&mut fits)
            }
            (None, None) => None,
        };
        found.or(hidden)
    }
}

/// Goes through the symbols of a name's bucket.
///
/// # Safety
/// `table` is an object's DT_GNU_HASH.
unsafe fn by_gnu_hash<R>(table: usize, name: &CStr, mut fits: impl FnMut(usize) -> Option<R>) -> Option<R> {
    let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    let words = ptr::with_exposed_provenance::<u32>(table);
    // SAFETY: the table's header, behind it a filter of 64-bit words, the buckets, and a hash for each symbol from the first on.
    unsafe {
        let (buckets, first, filter) = (*words, *words.add(1), *words.add(2));
        if buckets == 0 {
            return None;
        }
        let bucket = words.add(4 + 2 * filter as usize);
        let hashes = bucket.add(buckets as usize);
        let mut index = *bucket.add((hash % buckets) as usize);
        while index >= first {
            let found = *hashes.add((index - first) as usize);
            if found | 1 == hash | 1
                && let Some(result) = fits(index as usize)
            {
                return Some(result);
            }
            if found & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }
    None
}

/// # Safety
/// `walk` is a [`Walk`], `object` describes what is loaded.
unsafe fn parts<'a>(object: *mut libc::dl_phdr_info, walk: *mut c_void) -> (Loaded<'a>, &'a mut Walk<'a>) {
    // SAFETY: the caller's contract.
    unsafe { (Loaded(&*object), &mut *walk.cast()) }
}

fn is_ours(object: &Loaded) -> bool {
    object.holds(dlsym_address as *const () as usize)
}

unsafe extern "C" fn behind_ours(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !walk.own {
        walk.own = is_ours(&object);
    } else if let Some(found) = object.defines(walk.name) {
        walk.found = found;
        return 1;
    }
    0
}

unsafe extern "C" fn in_ours(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !is_ours(&object) {
        return 0;
    }
    walk.found = object.defines(walk.name).unwrap_or(ptr::null_mut());
    1
}

/// What the object that has an address defines, and whether it is a file whose functions are hooked.
unsafe extern "C" fn at_address(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !object.holds(walk.address) {
        return 0;
    }
    walk.found = object.defines(walk.name).unwrap_or(ptr::null_mut());
    walk.named = object.is_hooked();
    1
}

/// What a look-up that found `found` returns to `caller`.
fn seen(found: *mut c_void, name: &CStr, caller: usize) -> *mut c_void {
    if found.is_null() || !settings::active() {
        return found;
    }
    let walk = |address, visit| {
        let mut walk = Walk { own: false, name, address, found: ptr::null_mut(), named: false };
        walk.all(visit);
        walk
    };
    let ours = walk(0, in_ours).found;
    if ours.is_null() || ours == found || !walk(found.addr(), at_address).named {
        return found;
    }
    if walk(caller, at_address).found.is_null() { ours } else { found }
}

unsafe extern "C" fn dlsym_seen(handle: *mut c_void, name: *const c_char, caller: usize) -> *mut c_void {
    // SAFETY: the program's own arguments.
    let found = unsafe { real_dlsym()(handle, name) };
    // SAFETY: a name that was found is a string.
    if found.is_null() { found } else { seen(found, unsafe { CStr::from_ptr(name) }, caller) }
}

unsafe extern "C" fn dlvsym_seen(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> *mut c_void {
    // SAFETY: what is called `dlvsym` takes and returns this; the arguments are the program's own.
    let found = unsafe { std::mem::transmute::<*mut c_void, Dlvsym>(dlvsym_address())(handle, name, version) };
    if found.is_null() {
        return found;
    }
    // SAFETY: a name that was found is a string.
    let name = unsafe { CStr::from_ptr(name) };
    // The hooks are what the newest version does.
    if dlsym_real(handle, name) == found { seen(found, name, caller) } else { found }
}

/// A look-up that goes by who asks goes on with the program's return address; another is looked at.
#[cfg(target_arch = "x86_64")]
macro_rules! look_up {
    ($name:ident, $address:path, $seen:path, $caller:literal) => {
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                // RTLD_NEXT is -1, RTLD_DEFAULT 0.
                "lea rax, [rdi + 1]",
                "cmp rax, 1",
                "jbe 2f",
                concat!("mov ", $caller, ", [rsp]"),
                "jmp {seen}",
                "2:",
                "push rdi",
                "push rsi",
                "push rdx",
                "call {address}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                seen = sym $seen,
                address = sym $address,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! look_up {
    ($name:ident, $address:path, $seen:path, $caller:literal) => {
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                // RTLD_NEXT is -1, RTLD_DEFAULT 0.
                "add x9, x0, #1",
                "cmp x9, #1",
                "b.ls 2f",
                concat!("mov ", $caller, ", x30"),
                "b {seen}",
                "2:",
                "stp x29, x30, [sp, #-48]!",
                "stp x0, x1, [sp, #16]",
                "str x2, [sp, #32]",
                "bl {address}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldr x2, [sp, #32]",
                "ldp x29, x30, [sp], #48",
                "br x16",
                seen = sym $seen,
                address = sym $address,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod hooks {
    look_up!(dlsym, super::dlsym_address, super::dlsym_seen, "rdx");
    look_up!(dlvsym, super::dlvsym_address, super::dlvsym_seen, "rcx");
}

#[cfg(target_arch = "aarch64")]
mod hooks {
    look_up!(dlsym, super::dlsym_address, super::dlsym_seen, "x2");
    look_up!(dlvsym, super::dlvsym_address, super::dlvsym_seen, "x3");
}
