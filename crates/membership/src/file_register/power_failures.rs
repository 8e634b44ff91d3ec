//! The register over a real file system whose power fails: XFS on a loop device, shut down without its log.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;

/// A file system of its own, mounted until it is dropped.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    /// None, and says so, where it cannot be made.
    fn new() -> Option<Disk> {
        let disk = Disk { directory: tempfile::tempdir_in("/var/tmp").unwrap() };
        File::create(disk.path("image")).unwrap().set_len(512 << 20).unwrap();
        std::fs::create_dir(disk.path("mounted")).unwrap();
        let image = disk.path("image");
        let is_made = run("mkfs.xfs", &["-q", path(&image)]) && disk.mount() && run("xfs_io", &["-V"]);
        if !is_made {
            println!("SKIPPED: it takes root, mkfs.xfs, xfs_io and a loop device");
        }
        is_made.then_some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn mount(&self) -> bool {
        run("mount", &["-o", "loop", path(&self.path("image")), path(&self.path("mounted"))])
    }

    /// The power fails and comes back: what was not synced is gone.
    fn fail(&self) {
        let mounted = self.path("mounted");
        assert!(run("xfs_io", &["-x", "-c", "shutdown", path(&mounted)]));
        crate::until(|| run("umount", &[path(&mounted)]));
        assert!(self.mount());
    }

    fn register(&self) -> FileRegister {
        FileRegister::open(&self.path("mounted").join("views")).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy", path(&self.path("mounted"))]);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_view_that_was_swapped_in_is_there_whole_after_a_power_failure() {
    let Some(disk) = Disk::new() else { return };
    for version in 0..3 {
        let view = vec![b'0' + version as u8; 50_000];
        assert!(matches!(disk.register().swap(Version(version), &view).unwrap(), Swap::Done(_)));
        disk.fail();
        let read = disk.register().read().unwrap();
        assert_eq!((read.version, &read.bytes[..]), (Version(version + 1), &view[..]));
    }
}

#[test]
fn a_view_that_was_read_is_not_taken_back_though_its_writer_died_before_it_synced_the_name() {
    let Some(disk) = Disk::new() else { return };
    let register = disk.register();
    directory::sync(&register.directory).unwrap();
    let proposal = register.propose(&[7; 16], b"one").unwrap();
    std::fs::hard_link(&proposal, register.view(1)).unwrap();
    // The writer is killed here.
    let read = disk.register().read().unwrap();
    assert_eq!((read.version, &read.bytes[..]), (Version(1), &b"one"[..]));
    disk.fail();
    assert_eq!(disk.register().read().unwrap().version, Version(1));
}

#[test]
fn a_name_that_outlives_the_power_names_a_whole_view() {
    let Some(disk) = Disk::new() else { return };
    let register = disk.register();
    directory::sync(&register.directory).unwrap();
    let proposal = register.propose(&[7; 16], &[9; 50_000]).unwrap();
    std::fs::hard_link(&proposal, register.view(1)).unwrap();
    // Somebody else's sync makes the name durable.
    directory::sync(&register.directory).unwrap();
    disk.fail();
    assert_eq!(&disk.register().read().unwrap().bytes[..], &[9; 50_000]);
}
