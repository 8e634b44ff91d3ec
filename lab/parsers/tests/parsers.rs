//! Bytes from disk and socket, and a shared file that somebody scribbles on: whatever they are, nothing
//! panics, and nothing large is allocated. The checks are those of `lab/fuzz`; here they run on bytes from a
//! seed, for a few seconds.
//!
//! `SEED=n` repeats one case; `CASES=n` runs n times as many.

use std::sync::atomic::{AtomicU64, Ordering};

use headstart_cluster::{FileId, MemberId, Note, Seat, Told, wire};
use headstart_parsers::seeded::cases;
use headstart_parsers::{frames, hostile, journal, membership, packets, traces, volumes};

#[test]
fn a_packet_of_any_bytes_is_a_request_that_comes_back_or_none() {
    cases(20_000, 80, packets::request);
}

#[test]
fn a_packet_of_any_bytes_is_a_reply_that_comes_back_or_none() {
    cases(20_000, 200, packets::reply);
}

#[test]
fn a_view_of_any_bytes_is_one_that_comes_back_or_none() {
    cases(20_000, 80, |bytes| {
        membership::view(bytes);
        let sealed = headstart_membership::envelope::seal(&[1; 16], bytes);
        membership::view(&sealed);
        let cut = usize::from(bytes.first().copied().unwrap_or(0)) % sealed.len();
        membership::view(&sealed[..cut]);
    });
}

#[test]
fn a_roster_of_any_bytes_is_one_that_comes_back_or_none() {
    const WHOLE: &[u8] = br#"{"format":1,"terms":{"version":1,"slow":"/s","fast":"/f","hold_ms":1,"margin_ms":1,"locks":true},"members":[{"place":{"node":0,"life":0},"incarnation":0,"standing":"unarmed","name":"a","machine_id":null,"boot_id":"b","locks":null,"addresses":["10.0.0.1:7"]}]}
"#;
    cases(20_000, 300, membership::roster);
    assert!(headstart_agent::cluster::roster::Roster::parse(WHOLE).is_ok());
    cases(20_000, 12, |bytes| {
        let mut changed = WHOLE.to_vec();
        for pair in bytes.chunks_exact(3) {
            let at = usize::from(pair[0]) << 8 | usize::from(pair[1]);
            changed[at % WHOLE.len()] = pair[2];
        }
        membership::roster(&changed);
    });
}

#[test]
fn notes_of_any_bytes_name_files_that_come_back() {
    cases(20_000, 120, membership::salvaged);
    membership::salvaged(format!("\n{:020}\n{:020}", 7, 8).as_bytes());
}

#[test]
fn a_letter_of_any_bytes_is_one_that_comes_back_or_none() {
    cases(20_000, 120, membership::letter);
}

#[test]
fn a_message_of_any_bytes_is_one_that_comes_back_or_none() {
    cases(20_000, 120, membership::message);
    // Version, two seats, a view, and a claim.
    let claim = [&[wire::VERSION][..], &[0; 16], &[0; 8], &[7], &[0; 24]].concat();
    assert!(wire::decode_envelope(&claim).is_some());
    changed(claim, membership::message);
}

#[test]
fn notes_of_any_bytes_are_some_that_come_back_or_none() {
    cases(20_000, 120, membership::notes);
    let notes = vec![
        Note::Unlinked { file: FileId(7), passed: false },
        Note::Renamed { old: b"/a".to_vec(), new: b"/b".to_vec(), exchanged: false },
        Note::At { file: FileId(7), birth_ns: 9, path: b"/c".to_vec() },
        Note::Off { question: 1, problem: b"why".to_vec() },
    ];
    let seat = Seat { member: MemberId { node: 1, life: 0 }, incarnation: 2 };
    let mut whole = Vec::new();
    wire::encode_told(&Told { from: seat, to: seat, answered: 3, first: 4, notes, heard: 5 }, &mut whole);
    changed(whole, membership::notes);
}

/// Checks what a few bytes more or less, or others, make of one that is whole.
fn changed(whole: Vec<u8>, check: fn(&[u8])) {
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        check(&bytes);
    }
    (0..whole.len()).for_each(|length| check(&whole[..length]));
}

#[test]
fn a_text_of_any_kind_is_a_size_or_none() {
    cases(20_000, 24, packets::size);
}

#[test]
fn a_journal_of_any_bytes_yields_whole_records() {
    cases(20_000, 300, journal::bytes);
}

#[test]
fn a_journal_of_any_records_is_replayed_and_adopted_or_refused() {
    cases(2_000, 600, journal::records);
}

#[test]
fn a_trace_of_any_bytes_yields_requests_that_files_can_have() {
    cases(20_000, 300, traces::bytes);
}

#[test]
fn a_block_of_any_requests_is_read_to_its_end() {
    cases(2_000, 600, traces::requests);
}

#[test]
fn a_text_of_any_kind_is_a_trace_of_another_tool_or_none() {
    cases(10_000, 200, traces::texts);
}

#[test]
fn a_block_of_any_bytes_is_a_superblock_a_record_an_extent_or_none() {
    cases(2_000, 400, volumes::blocks);
}

#[test]
fn a_slice_of_flash_that_says_anything_is_served_or_refused() {
    cases(3_000, 300, volumes::slices);
}

#[test]
fn bytes_of_another_agent_are_the_same_frames_however_they_are_cut() {
    static FRAMES: AtomicU64 = AtomicU64::new(0);
    cases(5_000, 200, |bytes| {
        FRAMES.fetch_add(frames::frames(bytes) as u64, Ordering::Relaxed);
    });
    assert!(std::env::var_os("SEED").is_some() || FRAMES.load(Ordering::Relaxed) > 10_000, "few are frames at all");
}

#[test]
fn a_caller_of_any_bytes_is_a_member_or_refused() {
    cases(20_000, 60, frames::hello);
}

#[test]
fn an_overlay_survives_any_messages_in_any_order_and_any_scribble_in_the_shared_file() {
    static REACHED: [AtomicU64; 7] = [const { AtomicU64::new(0) }; 7];
    cases(3_000, 1500, |bytes| {
        let counters = hostile::run(bytes);
        let counts = [
            counters.absorbed_requests_total,
            counters.write_backs_total,
            counters.fetches_total,
            counters.fetches_cancelled_total,
            counters.evicted_extents_total,
            counters.dropped_direct_write_bytes_total + counters.dropped_truncate_bytes_total,
            counters.barriers_total,
        ];
        for (sum, count) in REACHED.iter().zip(counts) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    });
    let reached: Vec<u64> = REACHED.iter().map(|sum| sum.load(Ordering::Relaxed)).collect();
    let one_case = std::env::var_os("SEED").is_some();
    assert!(one_case || reached.iter().all(|sum| *sum > 0), "some part of the overlay is never reached: {reached:?}");
    println!("absorbed, written back, fetched, cancelled, evicted, dropped, barriers: {reached:?}");
}
