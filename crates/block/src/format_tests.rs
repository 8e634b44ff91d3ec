//! docs/reference/format.md shows the bytes that are written.

use super::checkpoint::{Extent, Stored};
use super::guard;
use super::layout::Layout;
use super::record::{Entry, Header, Kind};
use super::superblock::{Found, Guard, GuardState, Serving, Superblock};
use headstart_policy::server::liu::{Basis, Origin};
use headstart_policy::server::segments::Segments;
use headstart_units::request::Range;

/// The bytes up to the last that is not zero; runs of eight and more zeros are named by their number.
fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut words: Vec<String> = Vec::new();
    let mut at = 0;
    while at < end {
        let zeros = bytes[at..end].iter().take_while(|byte| **byte == 0).count();
        if zeros >= 8 {
            words.push(format!("({zeros} x 00)"));
            at += zeros;
        } else {
            words.push(format!("{:02x}", bytes[at]));
            at += 1;
        }
    }
    words.join(" ")
}

fn uuid() -> [u8; 16] {
    std::array::from_fn(|index| 0x10 + index as u8)
}

fn superblock() -> Superblock {
    let segments = Segments { segment_blocks: 16, head_blocks: 4, slots: 5 };
    let basis = Basis {
        origin: Origin::Disk,
        positioning_p80_us: 12_000,
        positioning_mean_us: 9_500,
        disk_bytes_per_s: 70_000_000,
        flash_bytes_per_s: 125_000_000,
    };
    Superblock {
        uuid: uuid(),
        number: 5,
        disk_bytes: 1 << 30,
        flash_bytes: 1 << 20,
        disk: *b"WDC_WD1602ABKS-1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        epoch: 3,
        start_seq: 258,
        start_block: 7,
        area: 1,
        checkpoint_crc: 0x0403_0201,
        checkpoint_bytes: 56,
        detached: false,
        serving: Serving { write_through: true, policy: 2, segments, basis },
        guard: Guard { state: GuardState::On, session: 9, changed: [1, 0, 0, 0, 0, 0, 0, 0], crcs: vec![6, 7] },
    }
}

fn head() -> Header {
    let entries = vec![Entry { kind: Kind::Head { slot: 2 }, range: Range::new(1 << 20, 8192) }];
    Header { uuid: uuid(), epoch: 3, seq: 259, durable_to: 258, superblock: 5, entries, crcs: vec![1, 2] }
}

fn record() -> Header {
    let entries = vec![
        Entry { kind: Kind::Data, range: Range::new(8192, 512) },
        Entry { kind: Kind::Zero, range: Range::new(65536, 1 << 20) },
        Entry { kind: Kind::Clean { upto: 257 }, range: Range::new(12288, 4096) },
    ];
    Header { uuid: uuid(), epoch: 3, seq: 258, durable_to: 256, superblock: 5, entries, crcs: vec![0x0a0b_0c0d] }
}

#[test]
fn the_format_document_shows_the_bytes_of_a_volume() {
    let document = include_str!("../../../docs/reference/format.md");
    let mut extents = Vec::new();
    let payload = Stored::Payload { block: 4 };
    Extent { range: Range::new(8192, 512), seq: 258, content: payload }.encode(&[0x0a0b_0c0d], &mut extents);
    Extent { range: Range::new(65536, 1 << 20), seq: 258, content: Stored::Zeros }.encode(&[], &mut extents);
    let head_extent = Stored::Head { slot: 2 };
    Extent { range: Range::new(1 << 20, 8192), seq: 0, content: head_extent }.encode(&[1, 2], &mut extents);
    let mut stream = [0; 16];
    guard::transform(9, 4096, &mut stream);
    let layout = Layout::new(1 << 30, 256).unwrap();
    let places = format!(
        "{:#x} | {:#x} | {:#x} | {:#x} | {} | {}",
        layout.guard_offset(),
        layout.checkpoint_offset(0),
        layout.checkpoint_offset(1),
        layout.ring_offset(0),
        layout.ring_blocks,
        layout.staging_blocks
    );
    let blocks: Vec<String> =
        guard::Regions::new(1 << 30, 256).iter().map(|region| (region.range.offset / 4096).to_string()).collect();
    let copies = blocks[1..blocks.len() - 1].join(", ");
    let lines = [
        format!("| superblock | `{}` |", hex(&superblock().encode())),
        format!("| record | `{}` |", hex(&record().encode())),
        format!("| record of a head | `{}` |", hex(&head().encode())),
        format!("| checkpoint | `{}` |", hex(&extents)),
        format!("| keystream of session 9 at 4096 | `{}` |", hex(&stream)),
        format!("| 1 GiB | {places} |"),
        format!("| copies in a disk of 1 GiB | {copies} |"),
    ];
    let missing: Vec<String> = lines.into_iter().filter(|line| !document.contains(line)).collect();
    assert!(missing.is_empty(), "docs/reference/format.md lacks\n{}", missing.join("\n"));
}

#[test]
fn what_is_written_comes_back() {
    assert_eq!(Superblock::decode(&superblock().encode()), Found::Valid(Box::new(superblock())));
    assert_eq!(Header::decode(&record().encode()), Some(record()));
    assert_eq!(Header::decode(&head().encode()), Some(head()));
    for bit in 0..8 * 4096 {
        let (mut one, mut other) = (superblock().encode(), record().encode());
        one[bit / 8] ^= 1 << (bit % 8);
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!matches!(Superblock::decode(&one), Found::Valid(_)), "bit {bit} of a superblock");
        assert_eq!(Header::decode(&other), None, "bit {bit} of a record");
    }
}
