//! Each message comes back; what is cut or has a bit flipped is refused, or is another message.

use headstart_units::request::Range;

use super::*;
use crate::log::Logged;
use crate::message::{Answer, Ask, Declared, Message, Writers, Writing};
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::note::{Note, Told};
use crate::record::{Entry, Intent, Record, What};

const FILE: FileId = FileId(0x0102_0304_0506_0708);
const MEMBER: MemberId = MemberId { node: 300, life: 2 };
const SEAT: Seat = Seat { member: MEMBER, incarnation: 7 };
const EPOCH: Stamp = Stamp { view: 9, count: 11 };
const ORDER: Order = Order { epoch: EPOCH, seq: 13 };
const RANGE: Range = Range { offset: 4096, length: 512 };
const ID: RequestId = RequestId { slot: 5, seq: 17 };
const INTENT: Intent = Intent { file: FILE, copy: ORDER, order: ORDER, range: RANGE };

fn writers() -> Writers {
    Writers { number: 3, threads: vec![Writing { slot: 4, range: RANGE, granted: true }], uses: true }
}

fn log() -> Vec<Logged> {
    let record = Record { file: FILE, order: ORDER, range: RANGE, what: What::Map { place: 8192 }, by: Some(ID) };
    let dropped = Record { what: What::Drop, by: None, ..record };
    let copies = [Entry::Intent(INTENT), Entry::Ended(INTENT), Entry::Forgot(FILE, ORDER)];
    let entries = [Entry::Record(record), Entry::Record(dropped)].into_iter().chain(copies);
    entries.enumerate().map(|(at, entry)| Logged { entry, at: at as u64, durable: at == 0 }).collect()
}

fn messages() -> Vec<Message> {
    let declared = Declared { file: FILE, holds: true, owns: Some(EPOCH), logged: false };
    let asks = [
        Ask::Commit { range: RANGE, place: 77 },
        Ask::Read { range: RANGE },
        Ask::Write { range: RANGE },
        Ask::WriteDone { range: RANGE },
    ];
    let answers = [
        Answer::Done,
        Answer::Refused,
        Answer::Go,
        Answer::Absorb,
        Answer::Absent,
        Answer::Disk { of: MEMBER },
        Answer::Flash { of: MEMBER, place: 8192, durable: true },
        Answer::Again,
    ];
    let mut all = vec![
        Message::Open(FILE),
        Message::Own(FILE),
        Message::Holds(FILE, EPOCH),
        Message::OwnedBy(FILE, SEAT, EPOCH),
        Message::Yours { file: FILE, epoch: EPOCH, ask: vec![MEMBER, MEMBER], logged: true },
        Message::Declare(vec![1, 2, 4095], vec![declared]),
        Message::Heard(vec![]),
        Message::Claim(FILE, EPOCH),
        Message::Claimed { file: FILE, epoch: EPOCH, log: log(), writers: writers() },
        Message::CallIn(FILE, EPOCH, 19, RANGE),
        Message::CalledIn(FILE, EPOCH, 19, RANGE, writers()),
        Message::StillWriting(FILE, EPOCH, writers()),
        Message::NotMine(FILE, EPOCH),
        Message::Ordered { file: FILE, order: ORDER, range: RANGE, what: What::Drop, by: None },
        Message::Appended(FILE, ORDER, 23, true),
        Message::Synced(29),
        Message::Copy(INTENT, MEMBER, 31),
        Message::Copying(INTENT),
        Message::Copied(INTENT, false),
        Message::Free(FILE, EPOCH, vec![ORDER], ORDER),
        Message::Forgotten(FILE, EPOCH, vec![ORDER, ORDER]),
        Message::Release(FILE, EPOCH),
        Message::Released(FILE, EPOCH, EPOCH),
        Message::Drained(FILE, EPOCH, MEMBER),
        Message::Noted(FILE, EPOCH, MEMBER),
        Message::Emptied(MEMBER),
        Message::Ping(ID),
        Message::Pong(ID),
    ];
    all.extend(asks.map(|ask| Message::Asked(FILE, EPOCH, ID, 3, ask)));
    all.extend(answers.map(|answer| Message::Answered(FILE, EPOCH, ID, 19, RANGE, answer)));
    all
}

#[test]
fn every_message_comes_back_and_none_that_is_cut_or_goes_on() {
    for message in messages() {
        let envelope = Envelope { from: SEAT, to: Seat { incarnation: 8, ..SEAT }, view: 37, message };
        let mut bytes = Vec::new();
        encode_envelope(&envelope, &mut bytes);
        assert_eq!(decode_envelope(&bytes).as_ref(), Some(&envelope));
        assert!((0..bytes.len()).all(|length| decode_envelope(&bytes[..length]).is_none()), "{envelope:?} is cut");
        bytes.push(0);
        assert!(decode_envelope(&bytes).is_none());
        bytes.pop();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Some(other) = decode_envelope(&bytes) {
                let mut again = Vec::new();
                encode_envelope(&other, &mut again);
                assert_eq!(again, bytes, "each message has one form");
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_note_comes_back_and_none_that_is_cut_or_goes_on() {
    let path = |path: &[u8]| path.to_vec();
    let notes = vec![
        Note::Unlinked { file: FILE, passed: true },
        Note::Renamed { old: path(b"/a"), new: path(b"/b/c"), exchanged: true },
        Note::At { file: FILE, birth_ns: 41, path: path(b"/\xff") },
        Note::Named { file: FILE, stays: false, path: Vec::new() },
        Note::WhereIs { file: FILE, birth_ns: 0 },
        Note::KeepOff { on: true, question: 43 },
        Note::Off { question: 47, problem: path(b"why") },
        Note::TimesSet { file: FILE, birth_ns: 67 },
        Note::Stuck { file: FILE, errno: 116 },
        Note::Needs { bytes: 1 << 40 },
    ];
    let told = Told { from: SEAT, to: SEAT, answered: 53, first: 59, notes, heard: 61 };
    let mut bytes = Vec::new();
    encode_told(&told, &mut bytes);
    assert_eq!(decode_told(&bytes).as_ref(), Some(&told));
    assert!((0..bytes.len()).all(|length| decode_told(&bytes[..length]).is_none()));
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Some(other) = decode_told(&bytes) {
            let mut again = Vec::new();
            encode_told(&other, &mut again);
            assert_eq!(again, bytes, "each letter has one form");
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    bytes.push(0);
    assert!(decode_told(&bytes).is_none());
}

#[test]
fn a_view_comes_back_and_one_that_cannot_be_is_refused() {
    let member = |node| MemberId { node, life: 0 };
    let seats: Vec<Seat> = (0..3).map(|node| Seat { member: member(node), incarnation: 0 }).collect();
    let view = View::first(seats, 16).joined(member(3)).and_then(|view| view.without(member(1))).unwrap();
    let view = view.with_cut(member(1), 99).and_then(|view| view.restarted(member(2))).unwrap();
    let mut bytes = Vec::new();
    encode_view(&view, &mut bytes);
    assert_eq!(decode_view(&bytes), Some(view));
    assert!((0..bytes.len()).all(|length| decode_view(&bytes[..length]).is_none()));
    let empty = View::first(vec![Seat { member: member(0), incarnation: 0 }], 16).left(member(0), 5).unwrap();
    let empty = empty.dismissed(member(0)).unwrap();
    let mut left = Vec::new();
    encode_view(&empty, &mut left);
    assert_eq!(decode_view(&left), Some(empty));
    let first_home = 1 + 8 + 4 + 3 * 8 + 4;
    bytes[first_home] = 3;
    assert!(decode_view(&bytes).is_none(), "its home is nobody");
}
