use super::encoding::Writer;
use super::*;
use headstart_units::request::Range;
use proptest::prelude::*;

fn stamp(view: u64, count: u64) -> Stamp {
    Stamp { view, count }
}

fn samples() -> Vec<Record> {
    let identity = Identity { inode: u64::MAX, birth_ns: 3 };
    let (file, data_file) = (300, 9);
    let extents = vec![
        Extent { offset: 5, length: 3, place: 3 * 4096 + 5, dirty: true },
        Extent { offset: 8, length: 4088, place: 2 * 4096 + 8, dirty: false },
        Extent { offset: 8192, length: 4096, place: 4096 << 20, dirty: true },
    ];
    vec![
        Record::File { file, identity, path: b"/slow/a\xff".to_vec() },
        Record::DataFile { file, data_file },
        Record::Map { file, offset: 8192, length: 4096, data_file, place: 4096, slot: 6, seq: 7 },
        Record::Fetched { file, offset: 8195, length: 10, data_file, place: 3 },
        Record::Clean { file, offset: 8195, length: 10, data_file, place: 3 },
        Record::Drop { file, offset: 0, length: u64::MAX },
        Record::Truncate { file, size: u64::MAX },
        Record::Intent { file },
        Record::Closed { file },
        Record::Remove { file },
        Record::Barrier { end: 99 },
        Record::LastCommit { slot: 4, seq: 5 },
        Record::Fingerprint { file, size: 2, modified_ns: 3 },
        Record::Extents { file, data_file, extents },
        Record::Unlinked { file },
        Record::Untrusted { data_file, page: 300, pages: 2 },
        Record::Wanted { file, region: Wanted { range: Range::new(8192, 65536), benefit_ns: 5, gain_ns: 700 } },
        Record::Unwanted { file, offset: 8192, length: 4097 },
        Record::Epoch { file, epoch: stamp(3, 200) },
        Record::Ordered { seq: 5 },
        Record::Copying {
            file,
            copy: Order { epoch: stamp(3, 4), seq: 9 },
            order: Order { epoch: stamp(0, 1), seq: 300 },
            range: Range::new(8192, 4096),
        },
        Record::Copied { file, copy: Order { epoch: stamp(3, 4), seq: 9 } },
        Record::Gone { file, order: Order { epoch: stamp(3, 4), seq: 8 } },
        Record::Origin { member: MemberId { node: 1023, life: 2 }, before: 1 << 40 },
    ]
}

#[test]
fn every_record_comes_back_with_its_position() {
    let mut journal = Journal::at(HEADER_BYTES as u64);
    for record in samples() {
        journal.append(&record);
    }
    let bytes = journal.take();
    let read: Vec<(Record, u64)> = records(&bytes).collect();
    assert_eq!(read.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>(), samples());
    assert_eq!(read.last().map(|(_, end)| *end), Some(journal.end()));
}

#[test]
fn a_page_that_no_data_file_has_makes_no_extent() {
    for page in [1 << 32, 1 << 52, u64::MAX / 2, u64::MAX] {
        let mut payload = Vec::new();
        let mut out = Writer(&mut payload);
        [300u64, 9].into_iter().for_each(|number| out.number(number));
        [0, 4096].into_iter().for_each(|bytes| out.position(bytes));
        out.number(page);
        assert_eq!(Record::parse(4, &payload), None, "page {page}");
    }
}

/// Numbers of every length.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

/// Offset, length, place.
fn placed() -> impl Strategy<Value = (u64, u64, u64)> {
    let lengths = prop_oneof![Just(4096), 1u64..100_000, number().prop_map(|length| length % (1 << 40) + 1)];
    let offsets = prop_oneof![0..1u64 << 63, (0..1u64 << 40).prop_map(|page| page * 4096), 0u64..1 << 20];
    (offsets, lengths, 0u64..1 << 31).prop_map(|(offset, length, page)| (offset, length, page * 4096 + offset % 4096))
}

fn order() -> impl Strategy<Value = Order> {
    (number(), number(), number()).prop_map(|(view, count, seq)| Order { epoch: stamp(view, count), seq })
}

/// Records that other members have a part in.
fn shared() -> impl Strategy<Value = Record> {
    let word = || number().prop_map(|number| number as u32);
    prop_oneof![
        (word(), order()).prop_map(|(file, Order { epoch, .. })| Record::Epoch { file, epoch }),
        number().prop_map(|seq| Record::Ordered { seq }),
        (word(), order(), order(), placed()).prop_map(|(file, copy, order, (offset, length, _))| Record::Copying {
            file,
            copy,
            order,
            range: Range::new(offset, length)
        }),
        (word(), order()).prop_map(|(file, copy)| Record::Copied { file, copy }),
        (word(), order()).prop_map(|(file, order)| Record::Gone { file, order }),
        (any::<u16>(), any::<u16>(), number())
            .prop_map(|(node, life, before)| Record::Origin { member: MemberId { node, life }, before }),
    ]
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let one = (number().prop_map(|gap| gap >> 10), placed(), any::<bool>());
    prop::collection::vec(one, 0..EXTENTS_MAX).prop_map(|parts| {
        let mut end = 0;
        let placed = parts.into_iter().map(|(gap, (_, length, place), dirty)| {
            let offset: u64 = end + gap;
            end = offset + length;
            Extent { offset, length, place: place - place % 4096 + offset % 4096, dirty }
        });
        placed.collect()
    })
}

fn record() -> impl Strategy<Value = Record> {
    let path = prop::collection::vec(any::<u8>(), 0..4096);
    let word = || number().prop_map(|number| number as u32);
    prop_oneof![
        (word(), number(), number(), path).prop_map(|(file, inode, birth_ns, path)| Record::File {
            file,
            identity: Identity { inode, birth_ns },
            path
        }),
        (word(), word()).prop_map(|(file, data_file)| Record::DataFile { file, data_file }),
        (word(), word(), placed(), word(), number()).prop_map(
            |(file, data_file, (offset, length, place), slot, seq)| {
                Record::Map { file, offset, length, data_file, place, slot, seq }
            }
        ),
        (word(), word(), placed(), any::<bool>()).prop_map(|(file, data_file, (offset, length, place), fetched)| {
            match fetched {
                true => Record::Fetched { file, offset, length, data_file, place },
                false => Record::Clean { file, offset, length, data_file, place },
            }
        }),
        (word(), number(), number()).prop_map(|(file, offset, length)| Record::Drop { file, offset, length }),
        (word(), number()).prop_map(|(file, size)| Record::Truncate { file, size }),
        (word(), 0..4).prop_map(|(file, which)| match which {
            0 => Record::Intent { file },
            1 => Record::Closed { file },
            2 => Record::Unlinked { file },
            _ => Record::Remove { file },
        }),
        number().prop_map(|end| Record::Barrier { end }),
        (word(), number()).prop_map(|(slot, seq)| Record::LastCommit { slot, seq }),
        (word(), number(), number()).prop_map(|(file, size, modified_ns)| Record::Fingerprint {
            file,
            size,
            modified_ns
        }),
        (word(), placed(), number(), number()).prop_map(|(file, (offset, length, _), benefit_ns, gain_ns)| {
            Record::Wanted { file, region: Wanted { range: Range::new(offset, length), benefit_ns, gain_ns } }
        }),
        (word(), number(), number()).prop_map(|(file, offset, length)| Record::Unwanted { file, offset, length }),
        (word(), word(), extents()).prop_map(|(file, data_file, extents)| Record::Extents { file, data_file, extents }),
        shared(),
    ]
}

proptest! {
    #[test]
    fn any_records_come_back_and_a_cut_or_a_flipped_bit_leaves_a_prefix(
        written in prop::collection::vec(record(), 1..12),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..8),
    ) {
        let mut journal = Journal::default();
        written.iter().for_each(|record| journal.append(record));
        let bytes = journal.take();
        let read = |bytes: &[u8]| records(bytes).map(|(record, _)| record).collect::<Vec<_>>();
        prop_assert_eq!(&read(&bytes), &written);
        let prefix = read(&bytes[..cut.index(bytes.len())]);
        prop_assert!(prefix.len() < written.len() && written.starts_with(&prefix));
        for (at, bit) in flips {
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1 << bit;
            let prefix = read(&damaged);
            prop_assert!(prefix.len() < written.len() && written.starts_with(&prefix));
        }
    }

    #[test]
    fn payloads_of_any_bytes_are_refused_or_read_back_as_they_are(kind in 0u8..26, payload in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Some(record) = Record::parse(kind, &payload) {
            let mut again = Vec::new();
            record.write(&mut Writer(&mut again));
            prop_assert_eq!(again, payload);
        }
    }
}

#[test]
fn a_journal_cut_or_flipped_anywhere_yields_a_prefix() {
    let mut journal = Journal::default();
    samples().iter().for_each(|record| journal.append(record));
    let bytes = journal.take();
    let prefix = |damaged: &[u8]| {
        let read: Vec<Record> = records(damaged).map(|(record, _)| record).collect();
        assert!(samples().starts_with(&read), "{read:?}");
        read.len()
    };
    for cut in 0..bytes.len() {
        assert!(prefix(&bytes[..cut]) < samples().len());
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(prefix(&damaged) < samples().len());
        }
    }
}

#[test]
fn a_damaged_header_is_refused() {
    let header = Header { boot_id: [7; 16], epoch: 3 };
    let bytes = header.encode();
    assert_eq!(Header::decode(&bytes), Ok(header));
    assert_eq!(Header::decode(&bytes[..30]), Err(HeaderError::NotAJournal));
    let mut damaged = bytes;
    damaged[25] ^= 1;
    assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged));
}

#[test]
fn a_journal_of_another_format_is_told_from_a_damaged_one() {
    let mut bytes = Header { boot_id: [7; 16], epoch: 3 }.encode();
    bytes[..8].copy_from_slice(b"HSJRNL01");
    let error = Header::decode(&bytes).unwrap_err();
    assert_eq!(error, HeaderError::OtherFormat { found: Format(*b"01") });
    let text = error.to_string();
    assert!(text.contains("format 01") && text.contains("reads 05") && text.contains("headstart drain"), "{text}");
}

#[test]
fn a_journal_of_format_04_is_read_as_it_is() {
    let header = Header { boot_id: [7; 16], epoch: 3 };
    let mut bytes = header.encode();
    assert_eq!(&bytes[..8], b"HSJRNL05");
    bytes[..8].copy_from_slice(b"HSJRNL04");
    assert_eq!(Header::decode(&bytes), Err(HeaderError::Damaged), "the checksum covers the format");
    let crc = crc32c::crc32c(&bytes[..32]);
    bytes[32..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&bytes), Ok(header));
    assert_eq!(Header::decode(&bytes[..30]), Err(HeaderError::NotAJournal));
}

/// The examples of docs/reference/format.md are the bytes that the code writes.
#[test]
fn the_format_document_shows_the_bytes_of_each_record() {
    let document = include_str!("../../../../docs/reference/format.md");
    let mut missing = Vec::new();
    for record in samples() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let debug = format!("{record:?}");
        let line = format!("| {} | `{}` | `{}` |", record.kind(), debug.split(' ').next().unwrap(), hex.join(" "));
        missing.extend((!document.contains(&line)).then_some(line));
    }
    assert!(missing.is_empty(), "docs/reference/format.md lacks\n{}", missing.join("\n"));
}
