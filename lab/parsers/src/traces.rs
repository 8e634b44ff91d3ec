//! Traces: files of processes of any bytes, blocks that are whole and say anything, and the texts of other tools.

use headstart_trace::block::{BLOCK_BYTES, Decoder, Encoder, Entry, HEAD_BYTES, Head, PATH_BYTES_MAX, Request};
use headstart_trace::header::{HEADER_BYTES, Header, TimeLine};
use headstart_trace::{Files, Losses, Operation, Record, dxt, iolog};

use super::source::Source;

pub fn bytes(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        let mut page = vec![0; HEADER_BYTES];
        header.encode(&mut page);
        assert_eq!(Header::decode(&page), Ok(header));
    }
    // As they are, and as the entries of a block whose checksum is right: decoders look behind checksums too.
    entries(bytes);
    if let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>()
        && let Some(held) = Head::decode(head).entries(0, rest)
    {
        entries(held);
    }
}

fn entries(bytes: &[u8]) {
    let mut decoder = Decoder::default();
    let (mut count, mut last_end_ns) = (0, 0);
    while let Some(entry) = decoder.next(bytes) {
        count += 1;
        match entry {
            Entry::Request(request) => {
                assert!(request.offset.checked_add(request.length).is_some_and(|end| end <= i64::MAX as u64));
                assert!(last_end_ns <= request.start_ns && request.start_ns <= request.end_ns, "a stream has an order");
                last_end_ns = request.end_ns;
                TimeLine::new(request.file.into(), request.offset, request.length).place(request.end_ns);
            }
            Entry::Name { path, .. } => assert!(path.len() <= PATH_BYTES_MAX),
            Entry::Unseen { .. } | Entry::Impossible => {}
        }
    }
    assert!(count <= bytes.len(), "every entry takes bytes");
}

pub fn requests(bytes: &[u8]) {
    let mut source = Source(bytes);
    let mut block = vec![0; BLOCK_BYTES - HEAD_BYTES];
    let mut encoder = Encoder::new(0, 0, 0);
    let mut count = 0;
    while !source.is_empty() {
        let operation = [Operation::Read, Operation::Write, Operation::Append][source.below(3) as usize];
        let (file, offset, length) = (source.below(4), source.number(), source.number());
        let request = Request { file, operation, offset, length, start_ns: source.number(), end_ns: source.number() };
        let taken = match source.below(4) {
            0 => encoder.name(&mut block, file, offset, length, &source.path()),
            1 => encoder.unseen(&mut block, file),
            _ => encoder.request(&mut block, &request),
        };
        count += usize::from(taken.is_ok());
    }
    let used = (encoder.head() & 0xffff_ffff) as usize;
    let mut decoder = Decoder::default();
    let found = std::iter::from_fn(|| decoder.next(&block[..used]).map(drop)).count();
    assert!(found == count && decoder.is_at_end(&block[..used]), "{found} of {count} entries");
}

pub fn texts(bytes: &[u8]) {
    let words: [&[u8]; 24] = [
        b"X_POSIX",
        b"X_MPIIO",
        b"read",
        b"write",
        b"# DXT, ",
        b"file_id: 1, file_name: ",
        b"write_count: ",
        b", read_count: ",
        b"# start_time: ",
        b"# *WARNING*: incomplete",
        b"-1",
        b"0",
        b"4096",
        b"9223372036854775807",
        b"1e9",
        b"0.5",
        b"nan",
        b"/a",
        b"add",
        b"open",
        b"close",
        b"wait",
        b"\n",
        b"\n",
    ];
    let mut near = Vec::new();
    for byte in bytes {
        near.extend_from_slice(words[usize::from(*byte) % words.len()]);
        near.push(b' ');
    }
    for text in [bytes, &near] {
        for layer in [dxt::Layer::Posix, dxt::Layer::MpiIo] {
            let mut reader = dxt::Reader::new(layer);
            read(text, |line, files, losses| reader.line(line, files, losses));
            reader.finish(&mut Losses::default());
        }
        for first in ["fio version 2 iolog", "fio version 3 iolog"] {
            let mut reader = iolog::Reader::of(first.as_bytes()).expect("a version that is read");
            read(text, |line, files, losses| reader.line(line, files, losses));
            reader.finish(&mut Losses::default());
        }
        let _ = iolog::Reader::of(text);
    }
}

fn read(text: &[u8], mut take: impl FnMut(&[u8], &mut Files, &mut Losses) -> Option<Record>) {
    let (mut files, mut losses) = (Files::default(), Losses::default());
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(record) = take(line, &mut files, &mut losses) {
            assert!(record.range.end() <= i64::MAX as u64 && record.end.is_none_or(|end| end >= record.start));
            files.path(record.file);
        }
    }
}
