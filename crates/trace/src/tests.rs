use proptest::prelude::*;

use super::block::{BLOCK_BYTES, Decoder, Encoder, Entry, Full, HEAD_BYTES, Head, Request, STREAMS_MAX};
use super::header::{self, BLOCKS_OFFSET, HEADER_BYTES, Header, HeaderError, TimeLine};
use super::record::range_of;
use super::*;
use headstart_units::Nanos;
use headstart_units::request::Range;

fn count(losses: &Losses, loss: Loss) -> u64 {
    losses.iter().find(|(kind, _)| *kind == loss).map_or(0, |(_, count)| count)
}

const ROOM: usize = BLOCK_BYTES - HEAD_BYTES;

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let place = prop_oneof![
        (0..1u64 << 20).prop_map(|page| (page * 4096, 4096)),
        (0..100u64, 0..10u64),
        (0..=i64::MAX as u64).prop_flat_map(|offset| (Just(offset), 0..=i64::MAX as u64 - offset)),
    ];
    let one = (0..4u32, 0..3u8, place, 0..1u64 << 40, 0..1u64 << 30, any::<bool>());
    prop::collection::vec(one, 0..400).prop_map(|parts| {
        let (mut now, mut end) = (0u64, 0);
        let step =
            |(file, operation, (offset, length), gap, duration, goes_on): (u32, u8, (u64, u64), u64, u64, bool)| {
                let operation = [Operation::Read, Operation::Write, Operation::Append][usize::from(operation)];
                let offset = if goes_on && range_of(end, length).is_some() { end } else { offset };
                let start_ns = now + gap;
                now = start_ns + duration;
                end = offset + length;
                Request { file, operation, offset, length, start_ns, end_ns: now }
            };
        parts.into_iter().map(step).collect()
    })
}

/// A block with its head, and what its entries say.
fn block(requests: &[Request], index: u32, stream: u32, number: u32) -> (Vec<u8>, Vec<Request>) {
    let mut bytes = vec![0; BLOCK_BYTES];
    let mut encoder = Encoder::new(index, stream, number);
    let mut held = Vec::new();
    for request in requests {
        if encoder.request(&mut bytes[HEAD_BYTES..], request) == Err(Full) {
            break;
        }
        held.push(*request);
    }
    bytes[..8].copy_from_slice(&encoder.head().to_le_bytes());
    bytes[8..12].copy_from_slice(&stream.to_le_bytes());
    bytes[12..16].copy_from_slice(&number.to_le_bytes());
    (bytes, held)
}

fn head(bytes: &[u8]) -> Head {
    Head::decode(bytes[..HEAD_BYTES].try_into().unwrap())
}

fn decoded(bytes: &[u8], index: u32) -> Option<Vec<Request>> {
    let entries = head(bytes).entries(index, &bytes[HEAD_BYTES..])?;
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    while let Some(entry) = decoder.next(entries) {
        match entry {
            Entry::Request(request) => found.push(request),
            other => panic!("{other:?}"),
        }
    }
    assert!(decoder.is_at_end(entries), "an entry that was encoded is read");
    Some(found)
}

proptest! {
    #[test]
    fn requests_of_a_block_come_back(requests in requests(), index: u32, stream in 0..STREAMS_MAX, number: u32) {
        let (bytes, held) = block(&requests, index, stream, number);
        prop_assert_eq!(decoded(&bytes, index), Some(held));
    }

    #[test]
    fn a_block_with_a_flipped_bit_is_none(requests in requests(), at: prop::sample::Index, bit in 0..8u8) {
        let (mut bytes, held) = block(&requests, 3, 2, 1);
        let used = head(&bytes).length as usize;
        let at = at.index(HEAD_BYTES + used);
        bytes[at] ^= 1 << bit;
        prop_assert!(decoded(&bytes, 3).is_none(), "{} requests, byte {at}", held.len());
    }

    #[test]
    fn a_header_comes_back(
        (process, rank, has_flash) in (any::<u32>(), prop::option::of(0..u32::MAX), any::<bool>()),
        (monotonic_ns, unix_ns, boot_id) in (any::<u64>(), any::<u64>(), any::<[u8; 16]>()),
        host in prop::collection::vec(any::<u8>(), 0..64),
        root in prop::collection::vec(any::<u8>(), 0..3900),
    ) {
        let header = Header { process, rank, monotonic_ns, unix_ns, boot_id, has_flash, host: &host, root: &root };
        let mut page = vec![0; HEADER_BYTES];
        header.encode(&mut page);
        prop_assert_eq!(Header::decode(&page), Ok(header));
    }
}

fn some_requests(count: u64) -> Vec<Request> {
    let request = |k: u64| Request {
        file: 1 + (k % 2) as u32,
        operation: Operation::Write,
        offset: k * 8192,
        length: 4096 + k % 3,
        start_ns: 1000 * k,
        end_ns: 1000 * k + 500,
    };
    (0..count).map(request).collect()
}

#[test]
fn a_block_cut_at_any_byte_is_whole_or_none() {
    let (bytes, held) = block(&some_requests(40), 0, 0, 0);
    let used = HEAD_BYTES + head(&bytes).length as usize;
    for cut in HEAD_BYTES..bytes.len() {
        let found = head(&bytes).entries(0, &bytes[HEAD_BYTES..cut]);
        assert_eq!(found.is_some(), cut >= used, "cut at {cut} of {used}");
    }
    assert_eq!(decoded(&bytes, 0), Some(held));
}

#[test]
fn a_block_at_another_place_is_none() {
    let (bytes, held) = block(&some_requests(4), 5, 1, 2);
    assert_eq!(decoded(&bytes, 5), Some(held));
    assert_eq!(decoded(&bytes, 6), None);
    for at in [8, 12] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(decoded(&other, 5), None, "of another stream, or another number in it");
    }
    assert!(head(&[0; BLOCK_BYTES]).is_blank());
}

#[test]
fn each_prefix_of_a_block_that_is_being_filled_is_whole() {
    let mut bytes = vec![0; BLOCK_BYTES];
    let mut encoder = Encoder::new(0, 0, 0);
    let requests = some_requests(100);
    for (count, request) in requests.iter().enumerate() {
        encoder.request(&mut bytes[HEAD_BYTES..], request).unwrap();
        bytes[..8].copy_from_slice(&encoder.head().to_le_bytes());
        // What a killed process left behind the last whole entry.
        let used = HEAD_BYTES + head(&bytes).length as usize;
        bytes[used..used + 8].fill(0xa5);
        assert_eq!(decoded(&bytes, 0).unwrap(), requests[..=count]);
    }
}

#[test]
fn a_full_block_takes_nothing_more_and_stays_whole() {
    let (bytes, held) = block(&some_requests(100_000), 0, 0, 0);
    assert!(held.len() > ROOM / 12 && held.len() < 100_000, "{} requests", held.len());
    assert_eq!(decoded(&bytes, 0).unwrap().len(), held.len());
    let mut encoder = Encoder::new(0, 0, 0);
    let mut entries = vec![0; ROOM];
    let path = [b'x'; 4096];
    let names = (1..).take_while(|file| encoder.name(&mut entries, *file, 1, 2, &path).is_ok()).count();
    assert_eq!(names, 7, "names of 4 KiB");
    assert_eq!(encoder.request(&mut entries[..100], &held[0]), Err(Full), "memory too short is as good as full");
}

#[test]
fn requests_at_places_that_no_file_has_are_told_from_damage() {
    let (max, mut entries) = (i64::MAX as u64, vec![0; ROOM]);
    let mut encoder = Encoder::new(0, 0, 0);
    let places = [(max, 1), (u64::MAX, 0), (u64::MAX - 10, 100), (0, u64::MAX), (max, 0)];
    for (offset, length) in places {
        let request = Request { file: 1, operation: Operation::Read, offset, length, start_ns: 0, end_ns: 0 };
        encoder.request(&mut entries, &request).unwrap();
    }
    let used = &entries[..(encoder.head() & 0xffff_ffff) as usize];
    let mut decoder = Decoder::default();
    for _ in 0..4 {
        assert_eq!(decoder.next(used), Some(Entry::Impossible));
    }
    assert!(matches!(decoder.next(used), Some(Entry::Request(Request { offset, length: 0, .. })) if offset == max));
    assert!(decoder.next(used).is_none() && decoder.is_at_end(used));
}

#[test]
fn a_request_takes_few_bytes() {
    let random = |k: u64| (k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (10 << 30) / 4096 * 4096;
    for (name, offset, most) in [("random", random as fn(u64) -> u64, 14), ("sequential", |k| k * 4096, 9)] {
        let request = |k: u64| Request {
            file: 7,
            operation: Operation::Read,
            offset: offset(k),
            length: 4096,
            start_ns: k * 10_000_000,
            end_ns: k * 10_000_000 + 5_000_000,
        };
        let mut encoder = Encoder::new(0, 0, 0);
        let mut entries = vec![0; ROOM];
        (0..1000).for_each(|k| encoder.request(&mut entries, &request(k)).unwrap());
        let bytes = encoder.head() as u32 / 1000;
        assert!(bytes <= most, "{name}: {bytes} bytes a request, disks of 5 ms");
    }
}

#[test]
fn another_version_is_refused_by_name_and_anything_else_as_foreign() {
    let mut page = vec![0; HEADER_BYTES];
    let header = Header {
        process: 1,
        rank: None,
        monotonic_ns: 2,
        unix_ns: 3,
        boot_id: [4; 16],
        has_flash: true,
        host: b"n1",
        root: b"/slow",
    };
    header.encode(&mut page);
    let mut other = page.clone();
    other[7] = b'7';
    assert_eq!(Header::decode(&other), Err(HeaderError::OtherVersion(*b"07")));
    assert!(HeaderError::OtherVersion(*b"07").to_string().contains("format 07"));
    assert_eq!(Header::decode(b"HSJRNL02"), Err(HeaderError::Foreign));
    assert_eq!(Header::decode(b""), Err(HeaderError::Foreign));
    for cut in 8..HEADER_BYTES {
        assert_eq!(Header::decode(&page[..cut]), Err(HeaderError::Damaged), "cut at {cut}");
    }
    for at in 24..32 + 44 + 7 {
        let mut damaged = page.clone();
        damaged[at] ^= 0x10;
        assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged), "byte {at}");
    }
    page[BLOCKS_OFFSET] = 9;
    assert_eq!((Header::decode(&page), header::blocks(&page)), (Ok(header), 9), "counters are no part of the checksum");
}

#[test]
fn processes_of_one_boot_share_a_clock_and_boots_the_time_since_1970() {
    let origin = 5_000_000_000;
    let (first, later) = (TimeLine::new(100, origin, origin), TimeLine::new(7_000, origin + 50, origin));
    assert_eq!(first.place(100), Nanos(0));
    assert_eq!(first.place(350), Nanos(250));
    assert_eq!(later.place(7_000), Nanos(50));
    assert_eq!(later.place(6_900), Nanos(0), "nothing is before the origin");
}

#[test]
fn sources_are_merged_by_start_and_the_first_of_equal_ones_goes_first() {
    let record = |source: u32, start: u64| Record {
        rank: Some(source),
        process: None,
        file: 0,
        operation: Operation::Read,
        range: Range::new(0, 1),
        start: Nanos(start),
        end: None,
        without_flash: false,
    };
    let sources: Vec<Vec<Record>> =
        vec![vec![record(0, 1), record(0, 4), record(0, 4)], vec![], vec![record(2, 0), record(2, 4), record(2, 9)]];
    let merged = Merge::new(sources.into_iter().map(Vec::into_iter).collect());
    let found: Vec<(u32, u64)> = merged.map(|record| (record.rank.unwrap(), record.start.0)).collect();
    assert_eq!(found, [(2, 0), (0, 1), (0, 4), (0, 4), (2, 4), (2, 9)]);
}

/// Reads a text, and what was lost.
fn dxt_text(layer: dxt::Layer, text: &str) -> (Vec<Record>, Losses, Files) {
    let (mut reader, mut files, mut losses) = (dxt::Reader::new(layer), Files::default(), Losses::default());
    let records = text.lines().filter_map(|line| reader.line(line.as_bytes(), &mut files, &mut losses)).collect();
    reader.finish(&mut losses);
    (records, losses, files)
}

const DXT: &str = "# darshan log version: 3.41
# start_time: 1587455133

# ***************************************************
# DXT_POSIX module data
# ***************************************************

# DXT, file_id: 14388265063268455899, file_name: /scratch/a, b
# DXT, rank: 3, hostname: n1
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       3  write        0               0       524288      0.0029      0.0033  [ 12]  [ 13]
 X_POSIX       3  write        1          524288           10      1.5000      1.7500
 X_POSIX       3   read        0              40           64      0.0054      0.0054
";

#[test]
fn the_text_of_darshan_is_read() {
    let (records, losses, files) = dxt_text(dxt::Layer::Posix, DXT);
    assert_eq!(losses, Losses::default());
    assert_eq!(files.paths().collect::<Vec<_>>(), [b"/scratch/a, b"]);
    let second = Record {
        rank: Some(3),
        process: None,
        file: 0,
        operation: Operation::Write,
        range: Range::new(524288, 10),
        start: Nanos(1_500_000_000),
        end: Some(Nanos(1_750_000_000)),
        without_flash: false,
    };
    assert_eq!((records.len(), records[1]), (3, second));
    let (records, losses, _) = dxt_text(dxt::Layer::MpiIo, DXT);
    assert_eq!((records.len(), count(&losses, Loss::OtherLayer)), (0, 3));
}

#[test]
fn what_darshan_does_not_say_is_counted_and_not_guessed() {
    let with = |line: &str| {
        let (records, losses, _) = dxt_text(dxt::Layer::Posix, &format!("{DXT} X_POSIX 3 {line}\n"));
        (records.len(), losses.to_string())
    };
    let lost = |loss: Loss| format!("1 {}", loss.text());
    assert_eq!(with("read 1 -1 64 1.0 2.0"), (3, lost(Loss::WithoutOffset)));
    assert_eq!(with("read 1 -2 64 1.0 2.0"), (3, lost(Loss::ImpossiblePlaces)));
    assert_eq!(with("read 1 0 -64 1.0 2.0"), (3, lost(Loss::ImpossiblePlaces)));
    assert_eq!(with("read 1 9223372036854775807 64 1.0 2.0"), (3, lost(Loss::ImpossiblePlaces)));
    assert_eq!(with("read 1 9223372036854775808 64 1.0 2.0"), (3, lost(Loss::MalformedLines)));
    assert_eq!(with("read 1 0 64 1.0"), (4, lost(Loss::WithoutEnd)));
    assert_eq!(with("read 1 0 64 1.0 0.0000"), (4, lost(Loss::WithoutEnd)));
    assert_eq!(with("read 1 0 64 1.0 nan"), (4, lost(Loss::WithoutEnd)));
    assert_eq!(with("read 1 0 64 nan 2.0"), (3, lost(Loss::MalformedLines)));
    assert_eq!(with("seek 1 0 64 1.0 2.0"), (3, lost(Loss::MalformedLines)));
    assert_eq!(with("read 1"), (3, lost(Loss::MalformedLines)));
    let partial = DXT.replace("write_count: 2", "write_count: 7");
    assert_eq!(count(&dxt_text(dxt::Layer::Posix, &partial).1, Loss::MissingRecords), 5);
    let warned = format!("{DXT}\n# *WARNING*: The DXT_POSIX module contains incomplete data!\n");
    assert_eq!(count(&dxt_text(dxt::Layer::Posix, &warned).1, Loss::IncompleteModules), 1);
    let nameless = DXT.replace("/scratch/a, b", "(null)");
    assert_eq!(count(&dxt_text(dxt::Layer::Posix, &nameless).1, Loss::WithoutFile), 3);
}

fn iolog_text(text: &str) -> (Vec<Record>, Losses) {
    let mut lines = text.lines();
    let mut reader = iolog::Reader::of(lines.next().unwrap().as_bytes()).unwrap();
    let (mut files, mut losses) = (Files::default(), Losses::default());
    let records = lines.filter_map(|line| reader.line(line.as_bytes(), &mut files, &mut losses)).collect();
    reader.finish(&mut losses);
    (records, losses)
}

#[test]
fn both_versions_of_fios_log_are_read() {
    let (records, losses) = iolog_text(
        "fio version 3 iolog\n19 /a add\n98 /a open\n101 /a read 0 4096\n254 /a write 45056 512\n\
         260 /a datasync 0 0\n300 /a close\n",
    );
    assert_eq!(losses, Losses::default());
    let found: Vec<_> =
        records.iter().map(|record| (record.operation, record.range, record.start.0, record.end)).collect();
    let expected = [
        (Operation::Read, Range::new(0, 4096), 101_000, None),
        (Operation::Write, Range::new(45056, 512), 254_000, None),
    ];
    assert_eq!(found, expected);
    let (records, losses) = iolog_text(
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 150 0\n/a write 8192 512\n/a wait 100 0\n\
                    /a read 0 1\n/a wait 151 0\n/a read 0 1\n",
    );
    assert_eq!(
        records.iter().map(|record| record.start.0 / 1_000_000).collect::<Vec<_>>(),
        [0, 150, 150, 151],
        "milliseconds since the start"
    );
    assert_eq!(losses.to_string(), format!("1 {}", Loss::NeverClosed.text()));
}

#[test]
fn what_is_no_line_of_fios_log_is_counted() {
    let head = "fio version 3 iolog\n1 /a open\n5 /a close\n";
    for (line, loss) in [
        ("5 /a read -1 4096", Loss::ImpossiblePlaces),
        ("5 /a read 0 -4096", Loss::ImpossiblePlaces),
        ("5 /a read 9223372036854775807 1", Loss::ImpossiblePlaces),
        ("5 /a read 99999999999999999999 1", Loss::ImpossiblePlaces),
        ("5 /a read 0", Loss::MalformedLines),
        ("5 /a read x 1", Loss::MalformedLines),
        ("5 /a wait 1 0", Loss::MalformedLines),
        ("99999999999999999 /a read 0 1", Loss::MalformedLines),
        ("-5 /a read 0 1", Loss::MalformedLines),
        ("5 /a fly 0 1", Loss::MalformedLines),
        ("5", Loss::MalformedLines),
    ] {
        let (records, losses) = iolog_text(&format!("{head}{line}\n"));
        assert_eq!((records.len(), losses.to_string()), (0, format!("1 {}", loss.text())), "{line}");
    }
    assert!(iolog::Reader::of(b"fio version 4 iolog").unwrap_err().to_string().contains("version 4"));
}

/// The examples of docs/reference/format.md: what each entry is, and its bytes behind those before it.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut entries = vec![0; ROOM];
    let mut encoder = Encoder::new(0, 0, 0);
    let mut samples = Vec::new();
    let mut used = 0;
    let mut take = |what, encoder: &Encoder, entries: &[u8]| {
        let end = encoder.head() as u32 as usize;
        samples.push((what, entries[used..end].to_vec()));
        used = end;
    };
    encoder.name(&mut entries, 7, 48, 300, b"/slow/a").unwrap();
    take("file 7 is `/slow/a`, inode 300 of device 48", &encoder, &entries);
    let mut request = Request {
        file: 7,
        operation: Operation::Read,
        offset: 4096,
        length: 4096,
        start_ns: 1_000_000,
        end_ns: 1_000_200,
    };
    encoder.request(&mut entries, &request).unwrap();
    take("read of 4096 bytes at 4096, from 1000000 to 1000200 ns", &encoder, &entries);
    request = Request { offset: 8192, start_ns: 1_000_300, end_ns: 1_000_400, ..request };
    encoder.request(&mut entries, &request).unwrap();
    take("the next 4096 bytes, from 1000300 to 1000400 ns", &encoder, &entries);
    request = Request { operation: Operation::Write, offset: 0, length: 1, start_ns: 1_000_400, ..request };
    encoder.request(&mut entries, &request).unwrap();
    take("write of 1 byte at 0, from 1000400 to 1000400 ns", &encoder, &entries);
    encoder.unseen(&mut entries, 7).unwrap();
    take("file 7 is used unseen", &encoder, &entries);
    samples
}

#[test]
fn the_format_document_shows_the_bytes_of_each_entry_and_the_places_of_each_field() {
    let document = include_str!("../../../docs/reference/format.md");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> =
        samples().iter().map(|(what, bytes)| format!("| {what} | `{}` |", hex(bytes))).collect();
    let (bytes, _) = block(&some_requests(2), 3, 2, 1);
    let used = HEAD_BYTES + head(&bytes).length as usize;
    lines.push(format!("| block 3, the second of stream 2, with two writes | `{}` |", hex(&bytes[..used])));
    let mut page = vec![0; HEADER_BYTES];
    Header {
        process: 258,
        rank: Some(3),
        monotonic_ns: 4,
        unix_ns: 5,
        boot_id: [6; 16],
        has_flash: true,
        host: b"n1",
        root: b"/s",
    }
    .encode(&mut page);
    lines.push(format!("| header of process 258, rank 3, host `n1`, directory `/s` | `{}` |", hex(&page[..81])));
    let missing: Vec<String> = lines.into_iter().filter(|line| !document.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "docs/reference/format.md lacks\n{}", missing.join("\n"));
}
