//! Start, stop, kill: what is answered, and what is still there.

use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::server::{Handle, Server, StopError, Stopped};
use headstart_volume::settings::{PolicyName, Settings};

use crate::bench::{Files, UUID, backing, filled, flash_bytes, memory, serve, settings};

const MIB: u64 = 1 << 20;

fn write(handle: &Handle, offset: u64, bytes: usize, value: u8) {
    handle.call(Request::Write { offset, data: filled(bytes, value), fua: false }).unwrap();
}

fn reads_as(handle: &Handle, offset: u64, bytes: u64, value: u8) -> bool {
    let read = handle.call(Request::Read(Range::new(offset, bytes))).unwrap();
    read.len() as u64 == bytes && read.iter().all(|byte| *byte == value)
}

#[test]
fn what_was_written_is_read_and_a_stop_leaves_it_on_the_disk_alone() {
    let (media, given) = memory(vec![7; MIB as usize], flash_bytes(64));
    let server = serve(&media, given);
    let handle = server.handle();
    assert_eq!((handle.size_bytes(), handle.uuid()), (MIB, &UUID));
    write(&handle, 0, 4096, 1);
    write(&handle, 9 * 512, 512, 2);
    write(&handle, MIB - 1024, 1024, 3);
    handle.call(Request::Zero { range: Range::new(512, 1024), fua: true }).unwrap();
    handle.call(Request::Flush).unwrap();
    assert!(reads_as(&handle, 0, 512, 1) && reads_as(&handle, 512, 1024, 0) && reads_as(&handle, 1536, 2560, 1));
    assert!(reads_as(&handle, 4096, 512, 7) && reads_as(&handle, 9 * 512, 512, 2));
    let status = handle.status().unwrap();
    assert_eq!(status.dirty_bytes, 4096 + 512 + 1024);
    assert_eq!((status.requests.write.requests_total, status.counters.absorbed_writes_total), (3, 4));
    assert_eq!(status.storage, "memory");
    let stopped = server.stop(false).unwrap();
    let clean = Stopped { dirty_bytes: 0, is_released: true, disk_failed: false, flash_failed: false };
    assert_eq!(stopped, clean);
    let mut expected = vec![7; MIB as usize];
    expected[..4096].fill(1);
    expected[512..1536].fill(0);
    expected[9 * 512..10 * 512].fill(2);
    expected[MIB as usize - 1024..].fill(3);
    assert!(media.bytes(headstart_block::devices::Device::Disk) == expected);
}

#[test]
fn a_stop_under_itransformer_writes_everything_back() {
    let (media, given) = memory(vec![7; 256 * MIB as usize], flash_bytes(8192));
    let settings = Settings { policy: PolicyName::ITransformer, ..settings() };
    let server = Server::start_on(backing(&media, given), settings).unwrap();
    let handle = server.handle();
    for block in 0..2000 {
        write(&handle, block * 7 * 4096, 4096, block as u8);
    }
    // Longer than a batch, and of no place on flash.
    handle.call(Request::Zero { range: Range::new(60 * MIB, 196 * MIB), fua: false }).unwrap();
    let stopped = server.stop(false).unwrap();
    assert_eq!((stopped.dirty_bytes, stopped.is_released), (0, true));
    let disk = media.bytes(headstart_block::devices::Device::Disk);
    assert!(disk[60 * MIB as usize..].iter().all(|byte| *byte == 0));
    assert!((0..2000u64).all(|block| disk[(block * 7 * 4096) as usize] == block as u8));
}

#[test]
fn a_volume_on_files_is_killed_and_served_again_with_everything_that_was_written() {
    let files = Files::new(16 * MIB, flash_bytes(1024));
    let server = files.serve();
    let handle = server.handle();
    for block in 0..200 {
        write(&handle, block * 9 * 4096, 4096, block as u8);
    }
    handle.call(Request::Flush).unwrap();
    server.kill();
    assert_eq!(handle.call(Request::Flush).unwrap_err().raw_os_error(), Some(libc::EIO));
    let server = files.serve();
    let handle = server.handle();
    for block in 0..200 {
        assert!(reads_as(&handle, block * 9 * 4096, 4096, block as u8), "block {block}");
    }
    assert!(reads_as(&handle, 4096, 8 * 4096, 0));
    assert_eq!(handle.drain(), Ok(0));
    assert_eq!(server.stop(true).map(|stopped| stopped.dirty_bytes).unwrap(), 0);
    assert_eq!(handle.call(Request::Flush).unwrap_err().raw_os_error(), Some(libc::ESHUTDOWN));
    let disk = std::fs::read(files.disk()).unwrap();
    assert!((0..200u64).all(|block| disk[(block * 9 * 4096) as usize] == block as u8), "the ends are plain again");
}

#[test]
fn a_stop_that_keeps_dirty_bytes_says_how_many_and_the_next_start_has_them() {
    let (media, given) = memory(vec![0; MIB as usize], flash_bytes(64));
    let server = serve(&media, given);
    write(&server.handle(), 65536, 8192, 5);
    let stopped = server.stop(true).unwrap();
    assert_eq!((stopped.dirty_bytes, stopped.is_released), (8192, false));
    let server = serve(&media, given);
    assert!(reads_as(&server.handle(), 65536, 8192, 5));
    assert!(server.detach().unwrap().is_released);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let (media, given) = memory(vec![0; MIB as usize], flash_bytes(64));
    let server = serve(&media, given);
    let handle = server.handle();
    let errno = |request| handle.call(request).unwrap_err().raw_os_error();
    assert_eq!(errno(Request::Read(Range::new(MIB, 512))), Some(libc::EINVAL));
    assert_eq!(errno(Request::Read(Range::new(0, 1 << 40))), Some(libc::EINVAL));
    assert_eq!(errno(Request::Write { offset: 3, data: filled(512, 0), fua: false }), Some(libc::EINVAL));
    assert_eq!(handle.call(Request::Read(Range::new(0, 0))).unwrap().len(), 0);
}

#[test]
fn a_server_whose_storage_panics_answers_with_eio() {
    let (media, given) = memory(vec![0; MIB as usize], flash_bytes(64));
    let mut backing = crate::bench::backing(&media, given);
    struct Panics;
    impl headstart_volume::storage::Storage for Panics {
        fn submit(&mut self, _: headstart_volume::storage::Operation) {
            panic!("a device driver went mad (this is the test)");
        }
        fn wait(&mut self, timeout: Option<std::time::Duration>) {
            std::thread::sleep(timeout.unwrap_or(std::time::Duration::from_millis(1)));
        }
        fn reap(&mut self, _: &mut Vec<headstart_volume::storage::Completion>) {}
        fn description(&self) -> String {
            String::new()
        }
    }
    backing.open = Box::new(|_| Ok(Box::new(Panics)));
    let server = headstart_volume::server::Server::start_on(backing, crate::bench::settings()).unwrap();
    let handle = server.handle();
    for _ in 0..3 {
        let failed = handle.call(Request::Read(Range::new(0, 512))).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
    }
    assert!(handle.status().is_err());
    assert!(matches!(server.stop(false), Err(StopError::Died)));
}
