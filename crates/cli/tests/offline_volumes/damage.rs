//! What rotted, and devices that are not those of the volume.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use serde_json::json;

use crate::volume::{TestVolume, failed, said};
use crate::{DISK_BYTES, FLASH_BYTES, contents, created};

/// Every offline command refuses, says why, and writes to neither device.
fn refuses(volume: &TestVolume, status: i32, words: &[&str]) {
    let (disk, flash) = (fs::read(&volume.disk).unwrap(), fs::read(&volume.flash).unwrap());
    for (verb, status) in [("check", status), ("inspect", status), ("detach", 125)] {
        failed(&volume.run(verb, &[]), status, words);
    }
    assert!(fs::read(&volume.disk).unwrap() == disk && fs::read(&volume.flash).unwrap() == flash);
}

#[test]
fn lost_bytes_are_named_and_keep_the_volume_attached() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 8192]), (4 << 20, vec![8; 4096])], &[]);
    // The next start puts them below its checkpoint.
    volume.write_and_die(&[], &[]);
    let (_, found) = volume.look("inspect");
    let first = found["extents"][0]["flash_offset"].as_u64().unwrap();
    volume.damage(&volume.flash, first + 4096);
    let (status, found) = volume.look("inspect");
    assert_eq!((status, &found["verdict"]), (77, &json!("damaged")));
    assert_eq!((&found["lost"], &found["lost_bytes"]), (&json!([[(2 << 20) + 4096, 4096]]), &json!(4096)));
    assert_eq!((&found["extents"][0]["sound"], &found["extents"][1]["sound"]), (&json!(false), &json!(true)));
    failed(&volume.run("check", &[]), 77, &["lost", "2101248-2105344"]);

    failed(&volume.run("detach", &[]), 77, &["could not be written back", "--force"]);
    // What was sound is on the disk, guarded still.
    let (status, found) = volume.look("check");
    assert_eq!(status, 77, "{found:#}");
    let dirty = found["dirty"].as_array().unwrap();
    assert!(dirty.iter().all(|range| range[0] != 4 << 20), "{found:#}");
}

#[test]
fn a_record_that_rotted_is_named_with_what_later_ones_say() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
    let (_, found) = volume.look("inspect");
    let record = found["extents"][0]["flash_offset"].as_u64().unwrap() - 4096;
    // Written and flushed one after the other, the last says that the first was durable.
    let mut pair = volume.pair();
    let flash = File::open(&volume.flash).unwrap();
    let mut header = vec![0; 4096];
    flash.read_exact_at(&mut header, record).unwrap();
    assert!(header.starts_with(b"HSVLOG01"));
    let given = pair.given(true, None);
    let recovered = headstart_block::recovery::attach(&mut pair, &given).unwrap();
    let place = recovered.superblock.layout().ring_offset(recovered.superblock.start_block);
    let engine = headstart_block::engine::Engine::new(
        recovered,
        headstart_policy::server::AddressOrder::default(),
        headstart_block::engine::Settings::default(),
    );
    let mut served = headstart_volume::synchronous::Synchronous::new(&mut pair, engine);
    for offset in [3 << 20, 4 << 20, 5 << 20] {
        let request = headstart_block::order::Request::Write { offset, data: &[1; 4096], fua: true };
        served.request(request).unwrap();
    }
    drop(pair);
    volume.damage(&volume.flash, place + 200);
    let (status, found) = volume.look("check");
    assert_eq!((status, &found["doubted"]), (77, &json!([[4 << 20, 4096], [5 << 20, 4096]])), "{found:#}");
    failed(&volume.run("detach", &[]), 125, &["is damaged although it was durable"]);
}

#[test]
fn flash_of_another_disk_is_refused() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
    // A copy is another disk.
    let mut other = created();
    fs::copy(&volume.disk, other.path("copy")).unwrap();
    other.disk = other.path("copy");
    fs::copy(&volume.flash, &other.flash).unwrap();
    refuses(&other, 78, &["belongs to another disk"]);
    assert_eq!(volume.look("check").0, 75);
}

#[test]
fn a_disk_or_a_slice_of_another_size_is_refused() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
    File::options().write(true).open(&volume.disk).unwrap().set_len(DISK_BYTES + 4096).unwrap();
    refuses(&volume, 78, &["the disk has 8392704 bytes, the volume was created with 8388608"]);
    File::options().write(true).open(&volume.disk).unwrap().set_len(DISK_BYTES).unwrap();
    assert_eq!(volume.look("check").0, 75);
    File::options().write(true).open(&volume.flash).unwrap().set_len(FLASH_BYTES - 4096).unwrap();
    refuses(&volume, 78, &["the flash slice has 8384512 bytes, the volume needs 8388608"]);
}

#[test]
fn flash_without_a_volume_and_with_a_damaged_one_are_refused() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    refuses(&volume, 78, &["holds no Headstart volume"]);
    volume.succeed("create", &[]);
    [0, 4096].into_iter().for_each(|place| volume.damage(&volume.flash, place + 500));
    refuses(&volume, 77, &["both superblocks are damaged"]);
    failed(&volume.run("create", &[]), 125, &["a damaged volume", "--force"]);
}

#[test]
fn a_format_of_another_version_is_refused_and_named() {
    let volume = created();
    let flash = File::options().read(true).write(true).open(&volume.flash).unwrap();
    for place in [0, 4096] {
        let mut block = vec![0; 4096];
        flash.read_exact_at(&mut block, place).unwrap();
        block[6..8].copy_from_slice(b"77");
        block[136..140].fill(0);
        let crc = crc32c(&block).to_le_bytes();
        block[136..140].copy_from_slice(&crc);
        flash.write_all_at(&block, place).unwrap();
    }
    refuses(&volume, 78, &["format 77"]);
    failed(&volume.run("create", &[]), 125, &["another version", "--force"]);
}

/// CRC32C by the polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

#[test]
fn a_disk_that_somebody_wrote_past_the_guard_is_refused() {
    let volume = created();
    volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
    volume.damage(&volume.disk, 8192);
    refuses(&volume, 77, &["the ends of the disk are not what they were"]);
    let (_, found) = volume.look("check");
    assert_eq!(found["dirty"], json!([[2 << 20, 4096]]), "what flash holds is named all the same");
    assert!(said(&volume.run("detach", &[])).contains("detach --force"));
    assert!(fs::read(&volume.disk).unwrap() != contents());
}
