//! Names with any byte, and paths longer than a path may be.

use std::ffi::{CStr, CString, OsString};
use std::fs::{self, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::opened;
use super::site::{TestSite, content, managed, role, wait_for};

const LENGTH: usize = 9000;

/// Every byte a name may have, alone and together, and names as long as they can be.
fn names() -> Vec<OsString> {
    let mut names: Vec<Vec<u8>> = (1..=255u8).filter(|byte| *byte != b'/').map(|byte| vec![b'n', byte, b'x']).collect();
    names.push([b"line\n\"quoted\"\\ \t\x1b[31mred {}".as_slice(), &[0xff, 0xfe]].concat());
    names.extend([vec![b'a'; 255], vec![0xff; 255], b" ".to_vec(), b"...".to_vec(), b"x (deleted)".to_vec()]);
    names.into_iter().map(OsString::from_vec).collect()
}

fn play() {
    let (verb, generation) = role().map(|role| role.split_at(1).0.to_string()).zip(Some(1)).unwrap();
    for (number, name) in names().iter().enumerate() {
        let file = opened(&managed().join(name));
        let expected = content(generation, number as u64, LENGTH);
        if verb == "w" {
            file.write_all_at(&expected, 0).unwrap();
        }
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == expected, "wrong bytes in {}", name.as_bytes().escape_ascii());
    }
}

#[test]
fn names_may_have_any_byte() {
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let test = "names::names_may_have_any_byte";
    site.played(&["--keep-dirty"], test, "write");
    // A new agent learns the names from the journal.
    site.kill_agent();
    site.played(&["--keep-dirty"], test, "read");
    let status = site.status();
    assert_eq!(status["files_dirty"].as_u64(), Some(names().len() as u64));
    let listed = status["files"].as_array().unwrap();
    assert!(!listed.is_empty());
    for file in listed {
        let bytes = match file.get("path_bytes") {
            Some(bytes) => serde_json::from_value(bytes.clone()).unwrap(),
            None => file["path"].as_str().unwrap().as_bytes().to_vec(),
        };
        let path = PathBuf::from(OsString::from_vec(bytes));
        assert!(path.exists(), "{} is none of the names", path.as_os_str().as_bytes().escape_ascii());
    }
    let text = site.succeed(&["status"]);
    let lines = text.lines().filter(|line| line.starts_with("dirty ")).count();
    assert_eq!(lines, listed.len(), "each name is one line:\n{text}");
    assert!(text.bytes().all(|byte| byte == b'\n' || byte >= b' '), "nothing that a terminal obeys:\n{text}");
    let log = fs::read(site.runtime().join("log")).unwrap();
    assert!(log.iter().all(|byte| *byte == b'\n' || *byte >= b' '), "{}", log.escape_ascii());
    site.succeed(&["drain"]);
    for (number, name) in names().iter().enumerate() {
        let found = fs::read(site.slow.join(name)).unwrap();
        assert!(found == content(1, number as u64, LENGTH), "{}", name.as_bytes().escape_ascii());
    }
}

/// Directories that nest until the path of the last has more than PATH_MAX bytes; the last one, opened.
fn deep() -> OwnedFd {
    let root = CString::new(managed().as_os_str().as_bytes()).unwrap();
    let open = |dir: i32, name: &CString| {
        // SAFETY: the name is a string; a descriptor that openat returned is ours.
        let fd = unsafe { libc::openat(dir, name.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: as above.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let name = CString::new(vec![b'd'; 200]).unwrap();
    (0..25).fold(open(libc::AT_FDCWD, &root), |parent, _| {
        // SAFETY: the name is a string.
        unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), 0o700) };
        open(parent.as_raw_fd(), &name)
    })
}

#[test]
fn a_file_whose_path_is_too_long_to_be_told_has_the_right_bytes() {
    if role().is_some() {
        let (directory, name) = (deep(), c"file");
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: the name is a string; a descriptor that openat returned is ours.
        let file = unsafe { fs::File::from_raw_fd(libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600)) };
        let expected = content(1, 0, LENGTH);
        if role().unwrap() == "write" {
            file.write_all_at(&expected, 0).unwrap();
        }
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == expected);
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    let test = "names::a_file_whose_path_is_too_long_to_be_told_has_the_right_bytes";
    site.played(&["--keep-dirty"], test, "write");
    site.played(&[], test, "read");
    // Without Headstart: one directory down at a time.
    let mut command = std::process::Command::new("sh");
    let script = "for _ in $(seq 25); do cd -P d*/ || exit 1; done; exec cat file";
    let output = command.args(["-c", script]).current_dir(&site.slow).output().unwrap();
    assert!(output.stdout == content(1, 0, LENGTH), "{}", site.say(&output));
    wait_for("nothing is dirty", || site.figure("/dirty_bytes") == 0);
}

#[test]
fn a_file_with_bytes_on_flash_whose_path_became_too_long_is_refused_and_never_read_from_disk_alone() {
    let test = "names::a_file_with_bytes_on_flash_whose_path_became_too_long_is_refused_and_never_read_from_disk_alone";
    if role().is_some() {
        let (short, directory, name) = (managed().join("short"), deep(), c"file");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&short).unwrap();
        file.write_all_at(&content(1, 0, LENGTH), 0).unwrap();
        // As a directory above it moves: no call names the file itself.
        fs::create_dir(managed().join("box")).unwrap();
        fs::rename(&short, managed().join("box/file")).unwrap();
        let from = CString::new(managed().join("box").as_os_str().as_bytes()).unwrap();
        // SAFETY: the names are strings.
        let moved = unsafe { libc::renameat(libc::AT_FDCWD, from.as_ptr(), directory.as_raw_fd(), c"box".as_ptr()) };
        assert_eq!(moved, 0);
        // SAFETY: the name is a string; a descriptor that openat returned is ours.
        let inner = unsafe { libc::openat(directory.as_raw_fd(), c"box".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) };
        for flags in [libc::O_RDONLY, libc::O_RDWR | libc::O_TRUNC] {
            // The descriptor that is open already knows the file; another process does not.
            assert_eq!(other_open(inner, name, flags), libc::ENAMETOOLONG);
        }
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == content(1, 0, LENGTH));
        // SAFETY: the names are strings.
        let back = unsafe { libc::renameat(directory.as_raw_fd(), c"box".as_ptr(), libc::AT_FDCWD, from.as_ptr()) };
        assert_eq!(back, 0);
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&[], test, "write");
    assert!(fs::read(site.slow.join("box/file")).unwrap() == content(1, 0, LENGTH));
}

/// The error with which another process opens a file.
fn other_open(dir: i32, name: &CStr, flags: i32) -> i32 {
    let script = "import os, sys\ntry: os.open(sys.argv[1], int(sys.argv[2]), dir_fd=int(sys.argv[3]))\n\
                  except OSError as e: sys.exit(e.errno)";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", script, name.to_str().unwrap(), &flags.to_string(), &dir.to_string()]);
    command.status().unwrap().code().unwrap()
}
