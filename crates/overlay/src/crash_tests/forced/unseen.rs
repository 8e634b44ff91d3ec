//! Processes and programs that use files by means that nobody sees.

use super::*;

#[test]
fn a_file_written_by_means_nobody_sees_leaves_flash_until_that_process_ends() {
    let mut w = world();
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    assert_eq!(
        (w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()),
        (0, 0),
        "the bytes went back and left"
    );
    write(&mut w, 2, A, true);
    w.agents[0].memory.view().hint(2, 0, A, 1 << 30, FetchTurn::Soon);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.extents(), 0, "neither a write nor a critical read brings bytes back");
    w.kill(0);
    w.quiesce();
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    no_violation(&w);
}

#[test]
fn while_a_program_that_nobody_sees_lives_every_file_is_off_flash_and_nothing_comes_there() {
    let mut w = world();
    write(&mut w, 2, A, true);
    w.agents[0].memory.view().hint(2, 0, Range::new(8192, 4096), 1 << 30, FetchTurn::Soon);
    w.agents[0].overlay.keep_off(w.agents[0].memory.view(), true);
    let file = w.agents[0].overlay.files_on_flash().collect::<Vec<_>>();
    assert_eq!(file, [w.open[0][&0].unwrap()]);
    // Of no request that the world knows: it reports the answer.
    let envelope = Envelope { slot: w.ranks[0].slot as u32, seq: 1 << 40 };
    w.agents[0].overlay.take_off(w.agents[0].memory.view(), envelope, file[0]);
    w.carry_out();
    w.quiesce();
    let answers = std::mem::take(&mut w.violations);
    assert!(matches!(&answers[..], [answer] if answer.contains("awaits: Done")), "{answers:?}");
    assert_eq!(
        (w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()),
        (0, 0),
        "the bytes went back and left"
    );
    for rank in [0, 2] {
        write(&mut w, rank, A, true);
    }
    w.quiesce();
    assert_eq!(w.agents[0].overlay.extents(), 0, "neither a write nor a critical read brings bytes back");
    assert_eq!(w.agents[0].memory.view().header.free_bytes.load(Ordering::Relaxed), 0, "nobody needs to ask");
    w.agents[0].overlay.keep_off(w.agents[0].memory.view(), false);
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length);
    no_violation(&w);
}

#[test]
fn a_file_only_read_by_means_nobody_sees_keeps_its_clean_bytes_on_flash() {
    let mut w = world();
    write(&mut w, 2, A, true);
    other(&mut w, 0, Kind::Bypass(false), Range::default());
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.extents()), (0, 1));
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.extents(), 0, "a newer write went to disk, where the reader looks");
    no_violation(&w);
}
