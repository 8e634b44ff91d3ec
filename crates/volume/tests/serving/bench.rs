//! Devices and servers for the tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_block::devices::Devices;
use headstart_block::layout::Layout;
use headstart_block::recovery;
use headstart_block::recovery::Given;
use headstart_block::superblock::Serving;
use headstart_policy::server::segments::Segments;
use headstart_units::BLOCK_BYTES;
use headstart_volume::block::Buffer;
use headstart_volume::device::DeviceName;
use headstart_volume::pair::Pair;
use headstart_volume::server::{Backing, Server};
use headstart_volume::settings::Settings;
use headstart_volume::status::DeviceStatus;
use headstart_volume::storage::buffers::zeroed;
use headstart_volume::storage::memory::{Media, Memory};

pub const UUID: [u8; 16] = *b"volume under tst";
pub const GUARD_BLOCKS: u64 = 1;

/// Settings without a control socket, so that tests do not meet.
pub fn settings() -> Settings {
    Settings { control: None, idle: Duration::from_secs(3600), ..Settings::default() }
}

/// Bytes of the least flash with a log of so many blocks.
pub fn flash_bytes(ring_blocks: u64) -> u64 {
    let ring = |blocks: &u64| Layout::new(blocks * BLOCK_BYTES, GUARD_BLOCKS).map_or(0, |layout| layout.ring_blocks);
    (ring_blocks..).find(|blocks| ring(blocks) >= ring_blocks).expect("some flash is large enough") * BLOCK_BYTES
}

pub fn given(disk_bytes: u64, flash_bytes: u64) -> Given {
    Given { disk: [0; 32], disk_bytes, flash_bytes, uuid: Some(UUID), absorbs: true }
}

/// Makes an empty volume.
pub fn create(devices: &mut impl Devices, given: &Given) {
    assert_eq!(recovery::create(devices, given, UUID, GUARD_BLOCKS, Serving::default()), Ok(true));
}

/// Short segments, so that a small disk has many, and fewer slots than that.
pub const SEGMENTS: Segments = Segments { segment_blocks: 8, head_blocks: 2, slots: 3 };

/// Devices in memory with a volume that has room for heads.
pub fn memory_with_heads(disk: Vec<u8>, flash_bytes: u64) -> (Media, Given) {
    let flash_bytes = flash_bytes + (SEGMENTS.area_blocks() + 2) * BLOCK_BYTES;
    let given = given(disk.len() as u64, flash_bytes);
    let mut media = Media::new(disk, vec![0; flash_bytes as usize]);
    let serving = Serving { segments: SEGMENTS, ..Serving::default() };
    assert_eq!(recovery::create(&mut media, &given, UUID, GUARD_BLOCKS, serving), Ok(true));
    (media, given)
}

/// Devices in memory with a volume on them; the disk holds `disk`.
pub fn memory(disk: Vec<u8>, flash_bytes: u64) -> (Media, Given) {
    let given = given(disk.len() as u64, flash_bytes);
    let mut media = Media::new(disk, vec![0; flash_bytes as usize]);
    create(&mut media, &given);
    (media, given)
}

pub fn names() -> [DeviceStatus; 2] {
    ["disk", "flash"].map(|name| DeviceStatus { name: name.to_owned(), ..DeviceStatus::default() })
}

/// Serves from memory.
pub fn backing(media: &Media, given: Given) -> Backing<Media> {
    let storage = media.clone();
    Backing {
        devices: media.clone(),
        given,
        open: Box::new(move |bell| Ok(Box::new(Memory::new(storage, bell)))),
        names: names(),
    }
}

pub fn serve(media: &Media, given: Given) -> Server {
    Server::start_on(backing(media, given), settings()).expect("the volume is served")
}

/// Two files with a volume on them.
pub struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    pub fn new(disk_bytes: u64, flash_bytes: u64) -> Files {
        let files = Files { directory: tempfile::tempdir().unwrap() };
        for (path, bytes) in [(files.disk(), disk_bytes), (files.flash(), flash_bytes)] {
            std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
        }
        let mut pair = files.open();
        let given = Given { disk: pair.disk.identity, ..given(disk_bytes, flash_bytes) };
        create(&mut pair, &given);
        files
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn disk(&self) -> PathBuf {
        self.path().join("disk")
    }

    pub fn flash(&self) -> PathBuf {
        self.path().join("flash")
    }

    pub fn open(&self) -> Pair {
        Pair::open(&DeviceName::Path(self.disk()), &DeviceName::Path(self.flash())).expect("the files can be opened")
    }

    pub fn serve(&self) -> Server {
        Server::start(self.open(), settings()).expect("the volume is served")
    }
}

/// A buffer of one value.
pub fn filled(bytes: usize, value: u8) -> Buffer {
    let mut buffer = zeroed(bytes);
    buffer.fill(value);
    buffer
}
