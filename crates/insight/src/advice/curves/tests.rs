use super::*;

const PIECE_BYTES: f64 = 16384.0;

/// Flash of 100 MB to which a run writes, within a second if nothing else were in its way, on disks that
/// take 100 MB/s.
fn run_s(written_bytes: f64, delay_s_per_byte: f64, software: Software) -> f64 {
    let room = Room { bytes: 100e6, written_bytes, s_per_byte: 1e-8, piece_bytes: PIECE_BYTES };
    // Processors are busy all the time.
    let copying_s = 1.0 + software.copies_s(room.copies(1.0));
    room.run_s(1.0, &OnFlash { run_s: 1.0, copying_s, delay_s_per_byte }, &software)
}

#[test]
fn reads_for_write_back_delay_writes_that_fit() {
    assert_eq!(run_s(40e6, 2e-9, Software::default()), 1.0, "write-back does not begin");
    assert_eq!(run_s(90e6, 0.0, Software::default()), 1.0);
    // It has five ninths of the run, longer by 2 ns for each of the bytes that the disks take in 10 ns.
    let found = run_s(90e6, 2e-9, Software::default());
    assert!((found - (4.0 / 9.0 + 5.0 / 9.0 / 0.8)).abs() < 1e-6, "{found}");
}

#[test]
fn no_more_is_read_than_would_stay_dirty() {
    let found = run_s(50e6, 2e-9, Software::default());
    let least = run_s(50e6, 20e-9, Software::default());
    assert!((found - (0.8 + 0.2 / 0.8)).abs() < 1e-6, "{found}");
    assert!((least - (1.0 + 30e6 * 20e-9)).abs() < 1e-6, "all but 20 MB: {least}");
}

#[test]
fn copies_for_which_nothing_waits_get_a_part_of_the_processors() {
    let software = |copy_cpu_ms| Software { processors: 1, request_cpu_ms: 0.5, copy_cpu_ms };
    let (free, costly) = (run_s(90e6, 0.0, software(0.0)), run_s(90e6, 0.0, software(10.0)));
    assert!(costly > 1.05 * free && costly < free / (1.0 - UNHURRIED_CPU), "{free} {costly}");
    // Those that writes wait for have all they need.
    let copies_s = software(10.0).copies_s(50e6 / PIECE_BYTES);
    assert!(run_s(150e6, 0.0, software(10.0)) > copies_s);
}

#[test]
fn writes_beyond_flash_wait_for_the_disks() {
    let found = run_s(400e6, 0.0, Software::default());
    assert!((3.0..3.3).contains(&found), "300 MB at 100 MB/s: {found}");
}
