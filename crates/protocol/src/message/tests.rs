//! Messages there and back.

use super::*;
use headstart_policy::client::carl::Wanted;
use headstart_policy::cost::benefit::SeekPoint;
use headstart_units::request::Range;

fn requests() -> Vec<Request<'static>> {
    vec![
        Request::Hello { version: 1, pid: 2, tid: 3, start_time: 4, slot: NO_SLOT },
        Request::Open { inode: 2, birth_ns: 3, size: 4, writable: true, path: b"/slow/\xff a" },
        Request::Close { file: 7 },
        Request::Slab { file: 7, offset: 1, length: 2 },
        Request::Commit { file: 7, data_file: 8, offset: 9, length: 10, place: 11 },
        Request::Read { file: 7, offset: 1, length: u64::MAX, leased: true, in_order: true },
        Request::Write { file: 7, offset: 1, length: 2, extends: false },
        Request::WriteDone { file: 7, offset: 1, length: 2 },
        Request::Truncate { file: 7, size: 3 },
        Request::TruncateDone { file: 7, size: 3, changed: true },
        Request::Rearrange { file: 7, from: 3 },
        Request::RearrangeDone { file: 7, from: 3, size: 9 },
        Request::Sync { file: 7 },
        Request::WriteBack { file: 7, offset: 1, length: 2 },
        Request::Confirm { file: 7 },
        Request::Bypass { file: 7, writes: true },
        Request::Sealed { file: 7 },
        Request::Descriptor { data_file: 7 },
        Request::Connect,
        Request::Marked,
        Request::TimesSet { inode: 2, birth_ns: 3 },
        Request::FlashFailed { file: 1, offset: 2, length: 3 },
        Request::Regions { file: 1, from: 2 },
        Request::Unlinked { inode: 2 },
        Request::Name { inode: 2, stays: true, path: b"/b" },
        Request::Renamed { old_length: 2, exchanged: true, paths: b"/a/b" },
        Request::Control { text: b"{}" },
    ]
}

fn replies() -> Vec<Reply<'static>> {
    let parameters =
        Parameters { seek_curve: vec![SeekPoint { distance_bytes: 5, seek_s: 0.25 }], ..Parameters::default() };
    vec![
        Reply::Welcome(Welcome { read: parameters.clone(), write: parameters, slow: b"/slow", fast: b"/fast" }),
        Reply::Opened { file: 3, excluded: true },
        Reply::Bypassed,
        Reply::HeldUp,
        Reply::Done,
        Reply::NoSpace,
        Reply::Flash { length: 9 },
        Reply::Disk { length: 9 },
        Reply::Sooner { length: 9 },
        Reply::Remote { length: 9, on_flash: true },
        Reply::Go,
        Reply::Error { errno: 5, text: b"gone" },
        Reply::Control { text: b"{}" },
        Reply::Regions { last: true, packed: b"as they are" },
    ]
}

#[test]
fn every_message_comes_back_as_it_was_sent() {
    let envelope = Envelope { slot: 17, seq: 1 << 40 };
    let mut packet = Vec::new();
    for request in requests() {
        request.encode(envelope, &mut packet);
        assert_eq!(Request::decode(&packet), Ok((envelope, request)));
    }
    for reply in replies() {
        reply.encode(envelope, &mut packet);
        assert_eq!(Reply::decode(&packet), Ok((envelope, reply)));
    }
}

#[test]
fn regions_come_back_and_those_that_overlap_are_cut_or_impossible_are_refused() {
    let region = |offset, length| Wanted { range: Range::new(offset, length), benefit_ns: 7, gain_ns: 0 };
    let regions = [region(5, 10), region(15, 1), region(100, 1 << 40)];
    let packed = encode_regions(&regions);
    assert_eq!(decode_regions(&packed), Ok(regions.to_vec()));
    assert_eq!(decode_regions(&[]), Ok(Vec::new()));
    for length in (1..packed.len()).filter(|length| !length.is_multiple_of(REGION_BYTES)) {
        assert_eq!(decode_regions(&packed[..length]), Err(DecodeError), "{length}");
    }
    for wrong in [[region(5, 10), region(14, 1)], [region(5, 0), region(9, 1)], [region(1, u64::MAX), region(2, 1)]] {
        assert_eq!(decode_regions(&encode_regions(&wrong)), Err(DecodeError), "{wrong:?}");
    }
}

#[test]
fn a_cut_packet_is_refused_or_another_valid_message_but_never_a_panic() {
    let envelope = Envelope { slot: 1, seq: 2 };
    let mut packet = Vec::new();
    for request in requests() {
        request.encode(envelope, &mut packet);
        for length in 0..packet.len() {
            let _ = Request::decode(&packet[..length]);
        }
    }
    for reply in replies() {
        reply.encode(envelope, &mut packet);
        for length in 0..packet.len() {
            let _ = Reply::decode(&packet[..length]);
        }
    }
    assert_eq!(Request::decode(&[200; 40]), Err(DecodeError));
}
