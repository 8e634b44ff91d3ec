//! Names and attributes: what POSIX promises to programs that create, list, link, rename and ask.

#[path = "support/testbed.rs"]
mod testbed;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::Testbed;

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn errno_of<T>(result: std::io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

#[test]
fn directories_list_every_entry_once() {
    let Some(testbed) = Testbed::start() else { return };
    let names: BTreeSet<String> = (0..700).map(|i| format!("file with a rather long name {i}")).collect();
    names.iter().for_each(|name| drop(File::create(testbed.slow.join(name)).unwrap()));
    let list = || fs::read_dir(&testbed.slow).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(list().count(), 700);
    assert_eq!(list().collect::<BTreeSet<_>>(), names);
}

#[test]
fn directories_are_made_and_removed_only_when_empty() {
    let Some(testbed) = Testbed::start() else { return };
    let directory = testbed.slow.join("a");
    fs::create_dir_all(directory.join("b/c")).unwrap();
    assert_eq!(errno_of(fs::create_dir(&directory)), libc::EEXIST);
    assert_eq!(errno_of(fs::remove_dir(&directory)), libc::ENOTEMPTY);
    assert_eq!(
        fs::metadata(directory.join("b")).unwrap().nlink(),
        fs::metadata(testbed.backing.join("slow/a/b")).unwrap().nlink()
    );
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(errno_of(fs::metadata(&directory)), libc::ENOENT);
}

#[test]
fn inode_numbers_are_the_backing_ones_and_hard_links_share_them() {
    let Some(testbed) = Testbed::start() else { return };
    let (a, b) = (testbed.slow.join("a"), testbed.slow.join("b"));
    fs::write(&a, "text").unwrap();
    fs::hard_link(&a, &b).unwrap();
    let number = fs::metadata(&a).unwrap().ino();
    assert_eq!(number, fs::metadata(&b).unwrap().ino());
    assert_eq!(number, fs::metadata(testbed.backing.join("slow/a")).unwrap().ino());
    assert_eq!(fs::metadata(&b).unwrap().nlink(), 2);
    fs::remove_file(&a).unwrap();
    assert_eq!((fs::read_to_string(&b).unwrap().as_str(), fs::metadata(&b).unwrap().nlink()), ("text", 1));
}

#[test]
fn symbolic_links_point_where_they_say() {
    let Some(testbed) = Testbed::start() else { return };
    fs::write(testbed.slow.join("target"), "text").unwrap();
    symlink("target", testbed.slow.join("link")).unwrap();
    symlink("nowhere", testbed.slow.join("broken")).unwrap();
    assert_eq!(fs::read_link(testbed.slow.join("link")).unwrap(), Path::new("target"));
    assert_eq!(fs::read_to_string(testbed.slow.join("link")).unwrap(), "text");
    assert_eq!(errno_of(fs::read(testbed.slow.join("broken"))), libc::ENOENT);
    assert!(fs::symlink_metadata(testbed.slow.join("broken")).unwrap().is_symlink());
}

#[test]
fn renames_can_refuse_to_replace_and_can_exchange() {
    let Some(testbed) = Testbed::start() else { return };
    let (a, b) = (testbed.slow.join("a"), testbed.slow.join("b"));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    let rename = |flags| {
        let (from, to) = (c_path(&a), c_path(&b));
        // SAFETY: both paths live across the call.
        let code = unsafe { libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags) };
        if code == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() }
    };
    assert_eq!(rename(libc::RENAME_NOREPLACE), libc::EEXIST);
    assert_eq!(rename(libc::RENAME_EXCHANGE), 0);
    assert_eq!((fs::read_to_string(&a).unwrap().as_str(), fs::read_to_string(&b).unwrap().as_str()), ("b", "a"));
    let directory = testbed.slow.join("d");
    fs::create_dir(&directory).unwrap();
    fs::rename(&a, directory.join("c")).unwrap();
    assert_eq!(fs::read_to_string(directory.join("c")).unwrap(), "b");
    assert!(!a.exists());
}

#[test]
fn modes_and_times_are_kept_and_a_write_changes_the_modification_time() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("a");
    let file = File::create(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    let long_ago = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(long_ago).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
    let before = SystemTime::now() - Duration::from_secs(1);
    fs::write(&path, "text").unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > before);
}

#[test]
fn new_files_have_the_mode_that_the_callers_umask_leaves() {
    let Some(testbed) = Testbed::start() else { return };
    let script = "umask 027; echo x > \"$0/file\"; mkdir \"$0/directory\"; mkfifo \"$0/pipe\"";
    assert!(std::process::Command::new("sh").args(["-c", script]).arg(&testbed.slow).status().unwrap().success());
    for (name, mode) in [("file", 0o640), ("directory", 0o750), ("pipe", 0o640)] {
        assert_eq!(fs::metadata(testbed.slow.join(name)).unwrap().mode() & 0o7777, mode, "{name}");
    }
    assert!(fs::metadata(testbed.slow.join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn the_file_system_reports_space() {
    let Some(testbed) = Testbed::start() else { return };
    // SAFETY: all-zero bytes are a valid statvfs, which the call overwrites.
    let mut statistics: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path and the structure live across the call.
    assert_eq!(unsafe { libc::statvfs(c_path(&testbed.slow).as_ptr(), &mut statistics) }, 0);
    assert!(statistics.f_blocks > 0 && statistics.f_bavail > 0 && statistics.f_namemax >= 255);
}

#[test]
fn extended_attributes_are_set_listed_read_and_removed() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("a");
    fs::write(&path, "").unwrap();
    let (path, name) = (c_path(&path), c"user.headstart.test");
    // SAFETY: all strings and buffers live across the calls.
    unsafe {
        if libc::setxattr(path.as_ptr(), name.as_ptr(), b"value".as_ptr().cast(), 5, 0) != 0 {
            println!("SKIPPED: the backing file system keeps no user attributes");
            return;
        }
        let mut buffer = [0u8; 64];
        assert_eq!(libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0), 5);
        assert_eq!(libc::getxattr(path.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), 64), 5);
        assert_eq!(&buffer[..5], b"value");
        assert!(libc::listxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), 64) >= 20);
        assert_eq!(libc::removexattr(path.as_ptr(), name.as_ptr()), 0);
        assert_eq!(libc::getxattr(path.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), 64), -1);
    }
}
