//! Objects that are loaded, as the dynamic linker describes them: what they say of directories, and the
//! functions that they define.
//!
//! They are listed by libc's own `dl_iterate_phdr`. A sanitizer's runtime stands in front of it, and calls
//! its own `dlsym`, which is ours, before it has found what it stands in front of.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Files whose functions the hooks take the place of.
const HOOKED: [&[u8]; 5] = [LIBC, b"libpthread.so.0", b"librt.so.1", b"libaio.so.1", b"liburing.so.2"];

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const LIBC: &[u8] = b"libc.so.6";
/// Of a version: not the one that a reference without a version means.
const HIDDEN: u16 = 0x8000;

/// What `dl_iterate_phdr` calls.
pub(crate) type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;
type Iterate = unsafe extern "C" fn(Option<Visit>, *mut c_void) -> c_int;

/// libc's `dl_iterate_phdr`.
static ITERATE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// An entry of the dynamic linker's list (link.h).
#[repr(C)]
struct LinkMap {
    address: u64,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// How the dynamic linker shows debuggers its list (link.h).
#[repr(C)]
struct Debugged {
    version: c_int,
    list: *const LinkMap,
}

unsafe extern "C" {
    static _r_debug: Debugged;
}

/// Calls `visit` with each object that is loaded, until it returns something else than zero.
///
/// # Safety
/// `visit` may be called with `data`.
pub(crate) unsafe fn each(visit: Visit, data: *mut c_void) {
    let mut iterate = ITERATE.load(Ordering::Relaxed);
    if iterate.is_null() {
        iterate = in_libc(c"dl_iterate_phdr").expect("libc has dl_iterate_phdr");
        ITERATE.store(iterate, Ordering::Relaxed);
    }
    // SAFETY: it is that function; the caller's contract.
    unsafe { std::mem::transmute::<*mut c_void, Iterate>(iterate)(Some(visit), data) };
}

/// Where libc defines `name`. Asked for the first time while the library starts, when no other thread loads anything.
fn in_libc(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the dynamic linker's list, which changes only where something is loaded or unloaded.
    let mut at = unsafe { _r_debug.list.as_ref() };
    while let Some(object) = at {
        // SAFETY: its name is a string.
        let path = unsafe { CStr::from_ptr(object.name) }.to_bytes();
        if path.rsplit(|&byte| byte == b'/').next() == Some(LIBC) {
            // SAFETY: a shared library lies in memory from its first byte on.
            let head = unsafe { &*ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(object.address as usize) };
            // SAFETY: a structure of numbers and pointers.
            let mut found: libc::dl_phdr_info = unsafe { std::mem::zeroed() };
            (found.dlpi_addr, found.dlpi_name) = (object.address, object.name);
            found.dlpi_phdr = ptr::with_exposed_provenance((object.address + head.e_phoff) as usize);
            found.dlpi_phnum = head.e_phnum;
            return Loaded(&found).defines(name);
        }
        // SAFETY: as above.
        at = unsafe { object.next.as_ref() };
    }
    None
}

/// An object that is loaded.
pub(crate) struct Loaded<'o>(&'o libc::dl_phdr_info);

impl<'o> Loaded<'o> {
    /// What `dl_iterate_phdr` tells of.
    ///
    /// # Safety
    /// It describes an object that stays loaded.
    pub(crate) unsafe fn of(object: *const libc::dl_phdr_info) -> Loaded<'o> {
        // SAFETY: the caller's contract.
        Loaded(unsafe { &*object })
    }

    /// How many objects have been loaded so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.dlpi_adds
    }

    /// The path it was loaded from; empty for the program.
    pub(crate) fn path(&self) -> &[u8] {
        // SAFETY: a string.
        unsafe { CStr::from_ptr(self.0.dlpi_name) }.to_bytes()
    }

    fn headers(&self) -> &[libc::Elf64_Phdr] {
        // SAFETY: the dynamic linker describes as many headers.
        unsafe { std::slice::from_raw_parts(self.0.dlpi_phdr, self.0.dlpi_phnum.into()) }
    }

    /// Whether an address lies in it.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.headers().iter().any(|header| {
            let start = (self.0.dlpi_addr + header.p_vaddr) as usize;
            header.p_type == libc::PT_LOAD && address >= start && address - start < header.p_memsz as usize
        })
    }

    /// Whether it is a file whose functions the hooks take the place of.
    pub(crate) fn is_hooked(&self) -> bool {
        let name = self.path();
        let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        HOOKED.contains(&file)
    }

    /// Entries of its dynamic section: what, and a number.
    fn entries(&self) -> &[[u64; 2]] {
        let Some(dynamic) = self.headers().iter().find(|header| header.p_type == libc::PT_DYNAMIC) else { return &[] };
        let address = (self.0.dlpi_addr + dynamic.p_vaddr) as usize;
        let count = dynamic.p_memsz as usize / size_of::<[u64; 2]>();
        // SAFETY: the dynamic section is mapped as long as the object is.
        unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance::<[u64; 2]>(address), count) }
    }

    fn entry(&self, which: u64) -> Option<u64> {
        let known = self.entries().iter().take_while(|entry| entry[0] != 0);
        known.filter(|entry| entry[0] == which).map(|entry| entry[1]).next()
    }

    /// A table that its dynamic section tells of.
    fn table(&self, which: u64) -> Option<usize> {
        let (at, base) = (self.entry(which)?, self.0.dlpi_addr);
        // Of some objects, such as the kernel's own, the linker leaves it as it stands in the file.
        Some((if at < base { at + base } else { at }) as usize)
    }

    /// A string that its dynamic section tells of.
    pub(crate) fn string(&self, which: u64) -> Option<&[u8]> {
        let (table, at) = (self.table(DT_STRTAB)?, self.entry(which)? as usize);
        // SAFETY: a string of the object's table.
        Some(unsafe { CStr::from_ptr(ptr::with_exposed_provenance(table + at)) }.to_bytes())
    }

    /// Where it defines `name`, as a reference without a version means it.
    pub(crate) fn defines(&self, name: &CStr) -> Option<*mut c_void> {
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
    // SAFETY: the table's header, behind it a filter of 64-bit words, the buckets, and a hash for each symbol
    // from the first on.
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
