//! `detach --force`: without the flash.

use std::fs;

use crate::volume::{failed, said};
use crate::{contents, created};

#[test]
fn where_nothing_is_recognised_somebody_has_to_say() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
    let hidden = fs::read(&volume.disk).unwrap();
    assert!(hidden != contents());
    failed(&volume.force(&volume.disk, &["--yes"]), 125, &["looks hidden", "--guard on|off"]);
    assert!(said(&volume.force(&volume.disk, &["--guard", "off"])).contains("nothing was written"));
    failed(&volume.force(&volume.disk, &["--guard", "on"]), 125, &["lost for good", "--yes"]);
    assert!(fs::read(&volume.disk).unwrap() == hidden);
    let output = volume.force(&volume.disk, &["--guard", "on", "--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(&volume.disk).unwrap() == contents(), "what only flash held is lost, and nothing else");
    failed(&volume.force(&volume.disk, &["--yes"]), 125, &["does not look hidden"]);
    failed(&volume.force(&volume.disk, &["--guard", "on", "--yes"]), 125, &["nothing in its ends shows"]);
    assert!(fs::read(&volume.disk).unwrap() == contents());
    // Its flash comes back: it is not taken.
    failed(&volume.run("check", &[]), 77, &["the ends of the disk are not what they were"]);
    failed(&volume.run("detach", &[]), 125, &["the ends of the disk are not what they were"]);
}

#[test]
fn a_disk_that_is_half_hidden_is_left_to_its_flash() {
    use std::os::unix::fs::FileExt;
    let volume = created();
    volume.write_and_die(&[], &[]);
    let disk = fs::File::options().write(true).open(&volume.disk).unwrap();
    disk.write_all_at(&contents()[..512], 0).unwrap();
    let before = fs::read(&volume.disk).unwrap();
    for options in [&["--yes"][..], &["--yes", "--guard", "on"]] {
        failed(&volume.force(&volume.disk, options), 125, &["some of its ends is hidden and some is not", "--ssd"]);
    }
    assert!(fs::read(&volume.disk).unwrap() == before);
}
