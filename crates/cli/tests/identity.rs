//! Files are known by what they are, not by where their directory lies, which device it has, or which inode
//! is used again.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use site::{TestSite, managed, role, said, text, verb_and_generation, wait_for, whole, write_whole};

/// Role `write N`: the whole of `a` at generation N, in pieces. `read N` expects it.
fn play() {
    let (verb, generation) = verb_and_generation();
    let path = managed().join("a");
    if verb == "read" {
        assert!(fs::read(path).unwrap() == whole(generation), "wrong bytes");
        return;
    }
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    write_whole(&file, generation);
}

#[test]
fn dirty_bytes_are_found_again_after_the_slow_directory_was_moved() {
    let test = "dirty_bytes_are_found_again_after_the_slow_directory_was_moved";
    if role().is_some() {
        return play();
    }
    let mut site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    site.played(&["--keep-dirty"], test, "write 1");
    site.succeed(&["stop", "--keep-dirty"]);
    let moved = site.path("moved");
    fs::rename(&site.slow, &moved).unwrap();
    site.slow = moved;
    site.write_site("64MiB");
    let output = site.headstart(&["check"]);
    assert_eq!(output.status.code(), Some(75), "{}", said(&output));
    site.played(&["--keep-dirty"], test, "read 1");
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(0));
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(1));
}

#[test]
fn a_file_that_was_renamed_while_no_agent_ran_gets_its_bytes_under_its_new_name() {
    let test = "a_file_that_was_renamed_while_no_agent_ran_gets_its_bytes_under_its_new_name";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    site.played(&["--keep-dirty"], test, "write 1");
    site.succeed(&["stop", "--keep-dirty"]);
    fs::rename(site.slow.join("a"), site.slow.join("b")).unwrap();
    // Neither a new file under the old name nor a copy of the file is taken for it.
    fs::write(site.slow.join("a"), whole(2)).unwrap();
    fs::copy(site.slow.join("b"), site.slow.join("c")).unwrap();
    assert_eq!(site.headstart(&["check"]).status.code(), Some(75));
    site.succeed(&["drain"]);
    for (name, generation) in [("a", 2), ("b", 1), ("c", 0)] {
        assert!(fs::read(site.slow.join(name)).unwrap() == whole(generation), "{name}");
    }
}

#[test]
fn a_rename_that_power_loss_takes_from_the_journal_takes_no_byte_that_was_synced() {
    let test = "a_rename_that_power_loss_takes_from_the_journal_takes_no_byte_that_was_synced";
    if role().is_some() {
        let (new, name) = (managed().join("below/new"), managed().join("name"));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&new).unwrap();
        file.write_all_at(&whole(1), 0).unwrap();
        file.sync_all().unwrap();
        fs::write(managed().with_file_name("synced"), b"").unwrap();
        wait_for("go", || managed().with_file_name("go").exists());
        return fs::rename(new, name).unwrap();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::create_dir(site.slow.join("below")).unwrap();
    let program = site.play(&["--keep-dirty"], test, "program").spawn().unwrap();
    wait_for("the program has synced", || site.path("synced").exists());
    let journal = site.fast.join(".headstart/journal");
    let before = fs::read(&journal).unwrap();
    fs::write(site.path("go"), b"").unwrap();
    assert!({ program }.wait().unwrap().success());
    // As if the power had failed before the barrier that the rename wants.
    site.kill_agent();
    fs::remove_dir_all(site.runtime_base()).unwrap();
    fs::write(&journal, before).unwrap();
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("name")).unwrap() == whole(1));
}

#[test]
fn bytes_are_found_by_the_name_that_stays_when_a_file_with_several_loses_one_and_its_agent() {
    let test = "bytes_are_found_by_the_name_that_stays_when_a_file_with_several_loses_one_and_its_agent";
    if role().is_some() {
        // As mail is delivered; the first name goes, or another takes its place; the new one goes; and one of
        // which the agent heard nothing stays.
        let (here, below) = (|name: &str| managed().join(name), |name: &str| managed().join("below").join(name));
        let write = |name: &str| fs::write(here(name), whole(name.len() as u64)).unwrap();
        ["1", "22", "333", "4444", "55555"].into_iter().for_each(write);
        for name in ["1", "22", "333"] {
            fs::hard_link(here(name), below(name)).unwrap();
        }
        fs::remove_file(here("1")).unwrap();
        fs::rename(here("55555"), here("22")).unwrap();
        fs::remove_file(below("333")).unwrap();
        let foreign = Command::new("ln").env("HEADSTART", "off").arg(here("4444")).arg(below("4444")).status();
        assert!(foreign.unwrap().success());
        let open = fs::OpenOptions::new().write(true).open(here("4444")).unwrap();
        fs::remove_file(here("4444")).unwrap();
        return open.write_all_at(b"later", 0).unwrap();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::create_dir(site.slow.join("below")).unwrap();
    site.played(&["--keep-dirty"], test, "program");
    assert_eq!(site.figure("/dirty_bytes"), 4 * whole(0).len() as u64, "all but the one of which one name was known");
    site.kill_agent();
    site.succeed(&["drain"]);
    for (name, generation) in [("below/1", 1), ("below/22", 2), ("22", 5), ("333", 3)] {
        assert!(fs::read(site.slow.join(name)).unwrap() == whole(generation), "{name}");
    }
    let seen = fs::read(site.slow.join("below/4444")).unwrap();
    assert!(seen[..5] == *b"later" && seen[5..] == whole(4)[5..]);
}

#[test]
fn a_file_with_a_name_outside_is_the_same_by_either_and_one_whose_names_were_told_uses_flash() {
    let test = "a_file_with_a_name_outside_is_the_same_by_either_and_one_whose_names_were_told_uses_flash";
    let (here, there) = (|name: &str| managed().join(name), |name: &str| managed().parent().unwrap().join(name));
    if role().is_some() {
        let open = |path| fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (inside, outside) = (open(here("a")), open(there("a")));
        for generation in 1..4 {
            let (writer, reader) = if generation % 2 == 1 { (&inside, &outside) } else { (&outside, &inside) };
            write_whole(writer, generation);
            let mut seen = vec![0; whole(generation).len()];
            reader.read_exact_at(&mut seen, 0).unwrap();
            assert!(seen == whole(generation), "{generation}");
        }
        fs::write(here("b"), whole(0)).unwrap();
        fs::hard_link(here("b"), here("c")).unwrap();
        return write_whole(&open(here("c")), 5);
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    fs::hard_link(site.slow.join("a"), site.slow.parent().unwrap().join("a")).unwrap();
    site.played(&["--keep-dirty"], test, "program");
    assert_eq!(site.figure("/dirty_bytes"), whole(5).len() as u64, "of the one whose names were told");
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(3));
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("b")).unwrap() == whole(5));
}

/// An ext4 file system of its own in a file, mounted through a loop device.
struct Loop<'a> {
    image: std::path::PathBuf,
    directory: &'a Path,
    device: String,
}

impl<'a> Loop<'a> {
    fn mount(image: &Path, directory: &'a Path) -> Option<Loop<'a>> {
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        if !image.exists() {
            fs::File::create(image).unwrap().set_len(32 << 20).unwrap();
            run("mkfs.ext4", &["-q", text(image)])?;
        }
        let device = run("losetup", &["--find", "--show", text(image)])?;
        let mounted = Loop { image: image.to_path_buf(), directory, device };
        run("mount", &["-t", "ext4", &mounted.device, text(directory)])?;
        Some(mounted)
    }

    fn device_number(&self) -> u64 {
        fs::metadata(self.directory).unwrap().dev()
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.directory, MntFlags::MNT_DETACH);
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

#[test]
fn dirty_bytes_are_found_again_after_the_slow_file_system_was_mounted_as_another_device() {
    let test = "dirty_bytes_are_found_again_after_the_slow_file_system_was_mounted_as_another_device";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let Some(mounted) = Loop::mount(&site.path("image"), &site.slow) else {
        return println!("SKIPPED: a file system of its own needs root, mkfs.ext4 and a loop device");
    };
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    site.played(&["--keep-dirty"], test, "write 1");
    site.succeed(&["stop", "--keep-dirty"]);
    let before = mounted.device_number();
    let image = mounted.image.clone();
    drop(mounted);
    // Another file system takes the device that this one had.
    let other = site.path("other");
    fs::create_dir(&other).unwrap();
    let _other = Loop::mount(&site.path("other-image"), &other);
    let Some(mounted) = Loop::mount(&image, &site.slow) else { return println!("SKIPPED: no second loop device") };
    if mounted.device_number() == before {
        return println!("SKIPPED: the file system got its device back");
    }
    site.played(&["--keep-dirty"], test, "read 1");
    site.succeed(&["drain"]);
    site.succeed(&["stop"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(1));
}

/// A tmpfs of its own, below.
struct Below<'a>(&'a Path);

impl Drop for Below<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn files_of_another_file_system_below_the_managed_directory_are_used_on_their_own_disk_alone() {
    let test = "files_of_another_file_system_below_the_managed_directory_are_used_on_their_own_disk_alone";
    if role().is_some() {
        let open =
            |path| fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let (own, below) = (managed().join("a"), managed().join("below/a"));
        for (path, generation) in [(&own, 1), (&below, 2)] {
            let (file, mut seen) = (open(path), vec![0; whole(0).len()]);
            write_whole(&file, generation);
            file.read_exact_at(&mut seen, 0).unwrap();
            assert!(seen == whole(generation));
        }
        // None of this is told of the file that is managed, which may have the same inode.
        let (name, other) = (below.with_file_name("name"), below.with_file_name("other"));
        fs::hard_link(&below, &name).unwrap();
        fs::rename(&below, &other).unwrap();
        fs::remove_file(&name).unwrap();
        fs::OpenOptions::new().write(true).truncate(true).open(&other).unwrap();
        open(&other).set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::remove_file(&other).unwrap();
        write_whole(&open(&below), 3);
        assert!(fs::rename(&below, managed().join("b")).is_err(), "it is another file system");
        return assert!(fs::read(&own).unwrap() == whole(1) && fs::read(&below).unwrap() == whole(3));
    }
    let site = TestSite::with_capacity("64MiB");
    let below = site.slow.join("below");
    fs::create_dir(&below).unwrap();
    if mount(Some("tmpfs"), &below, Some("tmpfs"), MsFlags::empty(), None::<&str>).is_err() {
        return println!("SKIPPED: a file system of its own needs root");
    }
    let _below = Below(&below);
    site.played(&["--keep-dirty"], test, "program");
    assert_eq!(site.figure("/dirty_bytes"), whole(1).len() as u64, "of the one that is managed");
    assert!(fs::read(below.join("a")).unwrap() == whole(3), "it was never anywhere else");
    site.succeed(&["drain"]);
    site.succeed(&["stop"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(1));
}

#[test]
fn a_new_file_under_an_inode_used_before_gets_nothing_of_the_old_one() {
    let test = "a_new_file_under_an_inode_used_before_gets_nothing_of_the_old_one";
    if role().is_some() {
        return play();
    }
    let mut site = TestSite::with_capacity("64MiB");
    // A file system that uses inodes again at once, unlike a tmpfs.
    let slow = tempfile::Builder::new().prefix("headstart-test-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    site.slow = slow.path().canonicalize().unwrap();
    site.write_site("64MiB");
    let path = site.slow.join("a");
    for agent_lives in [false, true] {
        fs::write(&path, whole(0)).unwrap();
        site.played(&["--keep-dirty"], test, "write 1");
        let inode = fs::metadata(&path).unwrap().ino();
        if !agent_lives {
            site.succeed(&["stop", "--keep-dirty"]);
        }
        fs::remove_file(&path).unwrap();
        if agent_lives {
            // It holds the file open, so that its inode is not used again before it lets go.
            fs::write(&path, whole(2)).unwrap();
        } else {
            let mut strangers = Vec::new();
            for number in 0..100 {
                fs::write(&path, whole(2)).unwrap();
                if fs::metadata(&path).unwrap().ino() == inode {
                    break;
                }
                let stranger = site.slow.join(format!("stranger-{number}"));
                fs::rename(&path, &stranger).unwrap();
                strangers.push(stranger);
            }
            strangers.into_iter().for_each(|stranger| fs::remove_file(stranger).unwrap());
            if fs::metadata(&path).map_or(0, |found| found.ino()) != inode {
                println!("SKIPPED: the file system does not use inodes again");
                fs::write(&path, whole(2)).unwrap();
            }
            let output = site.headstart(&["check"]);
            assert_eq!(output.status.code(), Some(76), "{}", said(&output));
            assert!(said(&output).contains("another file has its name"), "{}", said(&output));
        }
        site.played(&["--keep-dirty"], test, "read 2");
        let output = site.headstart(&["drain"]);
        assert!(fs::read(&path).unwrap() == whole(2), "{}", said(&output));
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(75), "{}", said(&output));
            site.succeed(&["drain", "--discard", "--yes"]);
        }
        site.played(&[], test, "read 2");
        assert!(fs::read(&path).unwrap() == whole(2));
    }
    site.succeed(&["stop"]);
}

#[test]
fn a_file_replaced_from_outside_keeps_what_it_was_replaced_with() {
    let test = "a_file_replaced_from_outside_keeps_what_it_was_replaced_with";
    if role().is_some() {
        return play();
    }
    for agent_lives in [true, false] {
        let site = TestSite::with_capacity("64MiB");
        fs::write(site.slow.join("a"), whole(0)).unwrap();
        site.played(&["--keep-dirty"], test, "write 1");
        if !agent_lives {
            site.succeed(&["stop", "--keep-dirty"]);
        }
        fs::write(site.slow.join("new"), whole(2)).unwrap();
        fs::rename(site.slow.join("new"), site.slow.join("a")).unwrap();
        site.played(&["--keep-dirty"], test, "read 2");
        let output = site.headstart(&["drain"]);
        assert!(matches!(output.status.code(), Some(0 | 75)), "{}", said(&output));
        assert!(fs::read(site.slow.join("a")).unwrap() == whole(2));
        site.succeed(&["drain", "--discard", "--yes"]);
        assert_eq!(site.figure("/dirty_bytes"), 0);
        assert_eq!(site.headstart(&["check"]).status.code(), Some(0));
    }
}
