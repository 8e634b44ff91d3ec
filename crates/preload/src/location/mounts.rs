//! The managed directory by other paths: bind mounts, a second mount of its file system, mount namespaces.
//! Whether a file is managed must not depend on the path it was opened by.
//!
//! The kernel tells a file's path by the mount that it was reached by. Only a file on the managed directory's
//! file system that came by another mount than that directory's can be one of its files under another path;
//! then `/proc/self/mountinfo` says which directory of the file system the mount shows, and so where the file
//! lies. What it said of a mount is kept, and holds for as long as the mount's number and the directory at
//! its place are the same.

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use libc::c_int;

use crate::kernel::{self, Facts};
use crate::settings::{served, settings};

/// File systems whose files differ in `st_dev` though they are of one: btrfs, overlayfs, bcachefs, aufs.
const MIXED: [i64; 4] = [0x9123_683e, 0x794c_7630, 0xca45_1a4e, 0x6175_6673];
/// Mounts that are remembered at a time.
const KEPT_MAX: usize = 16;

const UNKNOWN: u8 = 0;
/// It cannot be seen from here.
const MISSING: u8 = 1;
/// All its files have the device that it has.
const UNIFORM: u8 = 2;
/// They may have others.
const VARIED: u8 = 3;

/// What is known of the managed directory.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static MOUNT: AtomicU64 = AtomicU64::new(0);
/// Its path within its file system; null until it is asked for. Never freed.
static WITHIN: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());
/// What mounts show, by their numbers. Never freed: another thread may be reading.
static KEPT: [AtomicPtr<Mount>; KEPT_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; KEPT_MAX];

const NO: u8 = 1;
const YES: u8 = 2;
/// Whether what lies on the root directory's own mount lies where its path says.
static ROOT_IS_PLAIN: AtomicU8 = AtomicU8::new(UNKNOWN);

/// A mount, and what it shows.
struct Mount {
    number: u64,
    /// Device and inode of the directory at its place.
    identity: (u64, u64),
    /// Whether it is of the managed directory's file system.
    is_ours: bool,
    /// Where it is.
    point: Vec<u8>,
    /// What it shows, within its file system.
    root: Vec<u8>,
}

/// What is known is void: this process sees other mounts from now on.
pub(crate) fn forget() {
    STATE.store(UNKNOWN, Ordering::Release);
    ROOT_IS_PLAIN.store(UNKNOWN, Ordering::Release);
    WITHIN.store(ptr::null_mut(), Ordering::Release);
    KEPT.iter().for_each(|kept| kept.store(ptr::null_mut(), Ordering::Release));
}

fn state() -> u8 {
    match STATE.load(Ordering::Acquire) {
        UNKNOWN => learn(),
        known => known,
    }
}

/// Looks at the managed directory.
#[cold]
fn learn() -> u8 {
    let found = slow().and_then(|path| Some((facts_of(&path)?, kernel::file_system(&path).ok()?)));
    let state = match found {
        None => MISSING,
        Some((facts, kind)) => {
            DEVICE.store(facts.device, Ordering::Relaxed);
            MOUNT.store(facts.mount, Ordering::Relaxed);
            if MIXED.contains(&kind) { VARIED } else { UNIFORM }
        }
    };
    STATE.store(state, Ordering::Release);
    state
}

fn slow() -> Option<CString> {
    CString::new(settings().slow.as_slice()).ok()
}

fn facts_of(path: &CString) -> Option<Facts> {
    // SAFETY: a string.
    unsafe { kernel::facts_at(libc::AT_FDCWD, path.as_ptr(), 0) }.ok()
}

/// Whether the file lies on the managed directory's own file system. What another one holds that is mounted below
/// the directory is not managed: inodes tell files apart within one file system only, and device numbers differ
/// between nodes. Without an agent it is all one.
pub fn is_own(facts: &Facts) -> bool {
    let is_known = || state() == MISSING || facts.device == DEVICE.load(Ordering::Relaxed);
    !served() || is_known() || is_own_now(facts)
}

/// The same after another look at the directory, which may have been mounted anew.
#[cold]
fn is_own_now(facts: &Facts) -> bool {
    learn() == MISSING || facts.device == DEVICE.load(Ordering::Relaxed)
}

/// Whether a file may lie elsewhere than its path says: in the managed directory, reached by another mount.
#[inline]
pub(crate) fn may_mislead(facts: &Facts) -> bool {
    let same_device = || facts.device == DEVICE.load(Ordering::Relaxed);
    match state() {
        MISSING => false,
        UNIFORM if !same_device() => false,
        _ => facts.mount == 0 || facts.mount != MOUNT.load(Ordering::Relaxed),
    }
}

/// The same of an open file; also where that cannot be told.
pub(crate) fn may_mislead_open(fd: c_int) -> bool {
    kernel::facts(fd).map_or(true, |facts| may_mislead(&facts))
}

/// Whether the path of a file on the root directory's own mount tells where it lies.
pub(crate) fn is_root_plain() -> bool {
    match ROOT_IS_PLAIN.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_plain = facts_of(&c"/".to_owned()).is_some_and(|facts| !may_mislead(&facts));
            ROOT_IS_PLAIN.store(if is_plain { YES } else { NO }, Ordering::Relaxed);
            is_plain
        }
        known => known == YES,
    }
}

/// Where a file of the managed directory lies that [`may_mislead`] and has this path; nothing if it lies
/// elsewhere, or that cannot be told.
#[cold]
pub(crate) fn real_path(facts: &Facts, path: &[u8]) -> Option<Vec<u8>> {
    if let (Some(mount), Some(within)) = (kept(facts.mount).filter(|mount| mount.still_stands()), within()) {
        let found = mount.shows(path, within);
        // A directory above what it shows may have been renamed.
        if found.as_deref().is_none_or(|found| is_there(facts, found)) {
            return found;
        }
    }
    let text = mountinfo()?;
    let own = lines(&text).find(|line| line.number == MOUNT.load(Ordering::Relaxed))?;
    let now = joined(&own.root(), beneath(&settings().slow, &own.point())?);
    if within() != Some(&now) {
        WITHIN.store(Box::into_raw(Box::new(now.clone())), Ordering::Release);
    }
    // Where the kernel does not number them, the last one on the way.
    let way_to = |line: &Line<'_>| facts.mount == 0 && beneath(path, &line.point()).is_some();
    let line = lines(&text).filter(|line| line.number == facts.mount || way_to(line)).last()?;
    let (point, root) = (line.point(), line.root());
    let at = CString::new(point.as_slice()).ok().and_then(|point| facts_of(&point));
    let identity = at.filter(|at| facts.mount != 0 && at.mount == facts.mount).map(|at| (at.device, at.inode));
    let is_ours = line.device == own.device;
    let mount = Box::new(Mount { number: facts.mount, identity: identity.unwrap_or_default(), is_ours, point, root });
    let found = mount.shows(path, &now);
    if identity.is_some() {
        KEPT[facts.mount as usize % KEPT_MAX].store(Box::into_raw(mount), Ordering::Release);
    }
    found
}

fn within() -> Option<&'static Vec<u8>> {
    // SAFETY: null, or a path that is never freed.
    unsafe { WITHIN.load(Ordering::Acquire).as_ref() }
}

fn kept(number: u64) -> Option<&'static Mount> {
    // SAFETY: null, or a mount that is never freed.
    unsafe { KEPT[number as usize % KEPT_MAX].load(Ordering::Acquire).as_ref() }.filter(|mount| mount.number == number)
}

/// Whether the path names the file, as far as it has a name.
fn is_there(facts: &Facts, path: &[u8]) -> bool {
    let named = CString::new(path).ok().and_then(|path| facts_of(&path));
    facts.links == 0 || named.is_some_and(|named| (named.device, named.inode) == (facts.device, facts.inode))
}

impl Mount {
    /// Whether the number still is that of the mount it was. They are given out again.
    fn still_stands(&self) -> bool {
        let at = CString::new(self.point.as_slice()).ok().and_then(|point| facts_of(&point));
        at.is_some_and(|at| at.mount == self.number && (at.device, at.inode) == self.identity)
    }

    /// The managed directory's path of what has `path` by this mount; `within`: where that directory is in
    /// its file system.
    fn shows(&self, path: &[u8], within: &[u8]) -> Option<Vec<u8>> {
        let real = joined(&self.root, beneath(path, &self.point).filter(|_| self.is_ours)?);
        Some(joined(&settings().slow, beneath(&real, within)?))
    }
}

/// What of an absolute path lies beneath `directory`, with a slash before it; nothing of the directory itself.
fn beneath<'p>(path: &'p [u8], directory: &[u8]) -> Option<&'p [u8]> {
    if directory == b"/" {
        return Some(if path == b"/" { b"" } else { path });
    }
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

fn joined(directory: &[u8], rest: &[u8]) -> Vec<u8> {
    if directory == b"/" && !rest.is_empty() { rest.to_vec() } else { [directory, rest].concat() }
}

/// One line of `mountinfo`, in its own writing.
struct Line<'t> {
    number: u64,
    device: &'t [u8],
    root: &'t [u8],
    point: &'t [u8],
}

impl Line<'_> {
    fn root(&self) -> Vec<u8> {
        plain(self.root)
    }

    fn point(&self) -> Vec<u8> {
        plain(self.point)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let device = fields.nth(1)?;
        Some(Line { number, device, root: fields.next()?, point: fields.next()? })
    })
}

/// Blanks and backslashes are written as three octal digits behind a backslash.
fn plain(mut written: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(written.len());
    while let Some((first, rest)) = written.split_first() {
        let digits = rest.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) => {
                path.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                written = &rest[3..];
            }
            None => {
                path.push(*first);
                written = rest;
            }
        }
    }
    path
}

fn mountinfo() -> Option<Vec<u8>> {
    let fd = kernel::openat(libc::AT_FDCWD, c"/proc/self/mountinfo", libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
    let (mut text, mut length) = (vec![0; 32 << 10], 0);
    let read = loop {
        match kernel::read(fd, &mut text[length..]) {
            Ok(0) => break Some(()),
            Ok(count) => length += count,
            Err(libc::EINTR) => {}
            Err(_) => break None,
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    };
    let _ = kernel::close(fd);
    text.truncate(length);
    read.map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_number_device_and_both_paths_whatever_bytes_they_have() {
        let text =
            b"27 1 254:0 / / rw - ext4 /dev/vda rw\n36 27 254:0 /a\\040b /mnt/c\\134d rw shared:1 - ext4 /dev/vda rw\n";
        let found: Vec<_> =
            lines(text).map(|line| (line.number, line.device.to_vec(), line.root(), line.point())).collect();
        assert_eq!(found[0], (27, b"254:0".to_vec(), b"/".to_vec(), b"/".to_vec()));
        assert_eq!(found[1], (36, b"254:0".to_vec(), b"/a b".to_vec(), b"/mnt/c\\d".to_vec()));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_path_is_beneath_a_directory_by_whole_names() {
        assert_eq!(beneath(b"/a/b", b"/a"), Some(&b"/b"[..]));
        assert_eq!(beneath(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(beneath(b"/ab", b"/a"), None);
        assert_eq!(beneath(b"/ab", b"/"), Some(&b"/ab"[..]));
        assert_eq!(joined(b"/", b"/a"), b"/a");
        assert_eq!(joined(b"/a", b""), b"/a");
        assert_eq!(joined(b"/", b""), b"/");
    }
}
