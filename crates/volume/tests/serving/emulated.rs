//! A volume on emulated devices: everything as on real ones, only later.

use std::time::{Duration, Instant};

use headstart_model::profile::Profile;
use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::device::DeviceName;
use headstart_volume::pair::Pair;
use headstart_volume::server::Server;

use crate::bench::{Files, filled, flash_bytes, settings};

#[test]
fn a_write_to_an_emulated_volume_waits_for_its_flash_and_a_read_for_its_disk() {
    let files = Files::new(1 << 30, flash_bytes(2000));
    let emulated = |profile, file| DeviceName::Emulated { profile, file };
    let names = [emulated(Profile::Wd1602, files.disk()), emulated(Profile::Pm9a3, files.flash())];
    let pair = Pair::open(&names[0], &names[1]).unwrap();
    let server = Server::start(pair, settings()).unwrap();
    let handle = server.handle();
    let begun = Instant::now();
    for index in 0..20 {
        // No disk of this kind answers reads of far places at 200 a second.
        let read = handle.call(Request::Read(Range::new((index * 7 % 20) << 25, 4096))).unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
    }
    assert!(begun.elapsed() > Duration::from_millis(20 * 5), "{:?}", begun.elapsed());
    for index in 0..100 {
        handle.call(Request::Write { offset: index << 22, data: filled(4096, index as u8), fua: true }).unwrap();
    }
    let status = handle.status().unwrap();
    assert_eq!((status.storage.as_str(), status.dirty_bytes), ("emulated", 100 * 4096));
    assert_eq!(status.counters.absorbed_writes_total, 100);
    assert_eq!(handle.drain(), Ok(0));
    assert!(server.stop(false).unwrap().is_released);
    let disk = std::fs::File::open(files.disk()).unwrap();
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&disk, &mut byte, 99 << 22).unwrap();
    assert_eq!(byte, [99]);
}

#[test]
fn an_emulated_disk_stands_beside_a_real_flash() {
    let files = Files::new(16 << 20, flash_bytes(2000));
    let disk = DeviceName::Emulated { profile: Profile::Nearline24t, file: files.disk() };
    let pair = Pair::open(&disk, &DeviceName::Path(files.flash())).unwrap();
    let server = Server::start(pair, settings()).unwrap();
    let handle = server.handle();
    handle.call(Request::Write { offset: 4 << 20, data: filled(8192, 3), fua: true }).unwrap();
    let read = handle.call(Request::Read(Range::new((4 << 20) - 4096, 16384))).unwrap();
    assert!(read[4096..12288].iter().all(|byte| *byte == 3) && read[..4096].iter().all(|byte| *byte == 0));
    let status = handle.status().unwrap();
    assert!(status.storage.starts_with("emulated disk, ") && status.counters.mixed_reads_total == 1, "{status:?}");
    server.stop(false).unwrap();
}
