//! Journals: of any bytes, and of whole records that say anything.

use std::collections::BTreeMap;

use headstart_cluster::{MemberId, Order, Stamp};
use headstart_overlay::journal::{HEADER_BYTES, Header, Identity, Record, records as records_of};
use headstart_overlay::member_log::{durable_bytes, log_of};
use headstart_overlay::recovery::{Recovered, Replay};
use headstart_overlay::{Overlay, Settings};
use headstart_units::Capacity;
use headstart_units::request::Range;

use super::hostile;
use super::source::Source;

pub fn bytes(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    let counts = durable_bytes(bytes);
    assert!(counts <= bytes.len(), "no more counts than there is");
    log_of(&bytes[..counts]);
    log_of(bytes);
    let mut last = HEADER_BYTES as u64;
    for (record, end) in records_of(bytes) {
        assert!(last < end && end <= (HEADER_BYTES + bytes.len()) as u64, "a record ends within the journal");
        last = end;
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(&again), Some((record, again.len())));
    }
}

pub fn records(bytes: &[u8]) {
    let mut source = Source(bytes);
    let mut body = Vec::new();
    while !source.is_empty() {
        record(&mut source, body.len() as u64).encode(&mut body);
    }
    log_of(&body);
    for replay in [Replay::Everything, Replay::ToLastBarrier] {
        let recovered = Recovered::replay(&body, replay);
        assert_disjoint(&recovered);
        let sizes: BTreeMap<u32, u64> = recovered.files.keys().map(|file| (*file, 4096)).collect();
        let memory = hostile::memory();
        if recovered.is_plausible(memory.files.len(), |_| 1 << 32) {
            let settings = Settings { capacity: Capacity::Bytes(1 << 20), ..Settings::default() };
            let mut overlay = Overlay::adopt(settings, recovered, memory.view(), &sizes, &Default::default());
            let again = overlay.checkpoint(HEADER_BYTES as u64);
            Recovered::replay(&again, Replay::Everything);
        }
    }
}

fn record(source: &mut Source<'_>, end: u64) -> Record {
    let file = if source.byte() == 0 { source.number() as u32 } else { source.below(3) };
    let data_file = if source.byte() == 0 { source.number() as u32 } else { source.below(3) };
    let (offset, length) = (source.number(), source.number());
    // A record has no word for another place in the page.
    let place = source.number() / 4096 * 4096 + offset % 4096;
    match source.below(16) {
        0 | 1 => Record::File {
            file,
            identity: Identity { inode: source.byte().into(), birth_ns: 0 },
            path: b"/slow/a".to_vec(),
        },
        2 => Record::DataFile { file, data_file },
        3..=6 => Record::Map { file, offset, length, data_file, place, slot: source.below(5), seq: source.number() },
        7 | 8 => Record::Fetched { file, offset, length, data_file, place },
        9 => Record::Clean { file, offset, length, data_file, place },
        10 => Record::Drop { file, offset, length },
        11 => Record::Truncate { file, size: offset },
        12 => Record::Intent { file },
        13 => {
            if source.flag() {
                Record::Closed { file }
            } else {
                Record::Remove { file }
            }
        }
        14 if source.flag() => shared(source, file, offset),
        14 => Record::Fingerprint { file, size: offset, modified_ns: length },
        _ if source.flag() => Record::LastCommit { slot: source.number() as u32, seq: offset },
        _ => Record::Barrier { end: if source.flag() { end } else { offset } },
    }
}

/// A record that other members have a part in.
fn shared(source: &mut Source<'_>, file: u32, number: u64) -> Record {
    let mut order =
        || Order { epoch: Stamp { view: source.byte().into(), count: source.byte().into() }, seq: source.number() };
    let (copy, order) = (order(), order());
    match source.below(5) {
        0 => Record::Epoch { file, epoch: copy.epoch },
        1 => Record::Ordered { seq: number },
        2 => Record::Copying {
            file,
            copy,
            order,
            range: Range::new(number % (1 << 62), 1 + source.number() % (1 << 62)),
        },
        3 => Record::Copied { file, copy },
        _ => {
            let member = MemberId { node: source.byte().into(), life: source.byte().into() };
            Record::Origin { member, before: number }
        }
    }
}

/// The extents of a file never overlap.
fn assert_disjoint(recovered: &Recovered) {
    for file in recovered.files.values() {
        let mut end = 0;
        for mapped in file.map.iter() {
            assert!(!mapped.range.is_empty() && mapped.range.offset >= end, "extents overlap");
            end = mapped.range.end();
        }
    }
}
