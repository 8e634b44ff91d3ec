//! Files whose names change or go while bytes of them are on flash.

use super::*;

#[test]
fn that_an_open_file_has_no_name_is_known_to_the_next_agent_whoever_found_out() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let (file, identity) = (w.open[0][&0].unwrap(), w.inodes[0].identity);
    w.agents[0].overlay.disown(w.agents[0].memory.view(), file);
    w.carry_out();
    // Who removed it says so as well.
    let removed = Request::Unlinked { inode: identity.inode };
    w.request(0, &removed);
    let replay = Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..], Replay::Everything);
    assert!(replay.files[&file].unlinked, "it would be taken for one that was renamed, and its bytes kept for ever");
}

#[test]
fn the_new_name_of_a_file_whose_dirty_bytes_were_synced_becomes_durable_by_itself() {
    for synced in [false, true] {
        let mut w = world();
        write(&mut w, 0, A, true);
        if synced {
            other(&mut w, 0, Kind::Fsync, A);
        }
        w.quiesce();
        let old = w.agents[0].overlay.files[&w.open[0][&0].unwrap()].names.path().to_vec();
        let paths: &'static [u8] = [old.as_slice(), b"/slow/new"].concat().leak();
        w.request(0, &Request::Renamed { old_length: old.len() as u32, exchanged: false, paths });
        assert_eq!(!w.agents[0].tasks.is_empty(), synced, "a barrier has begun");
        w.quiesce();
        no_violation(&w);
    }
}

/// A file that both processes have open and that bytes on flash are of; `inherited`: one of them has forked.
fn left_open(inherited: bool) -> (World, u32) {
    let mut w = world();
    write(&mut w, 0, A, true);
    let file = w.open[0][&0].unwrap();
    if inherited {
        w.agents[0].memory.view().files[file as usize].bequeath();
    }
    (w, file)
}

#[test]
fn before_bytes_that_a_program_synced_are_given_up_with_a_name_its_directory_is_synced() {
    for (synced, written_back) in [(true, false), (true, true), (false, false)] {
        let mut w = world();
        write(&mut w, 0, A, true);
        if synced {
            other(&mut w, 0, Kind::Fsync, A);
        }
        if written_back {
            drain(&mut w);
        }
        remove_name(&mut w);
        close_both(&mut w);
        barrier(&mut w);
        let expected: &[&[u8]] = if synced { &[b"/slow"] } else { &[] };
        assert_eq!(w.agents[0].left_directories, expected, "synced {synced}, written back {written_back}");
        no_violation(&w);
    }
}

#[test]
fn a_directory_that_a_barrier_could_not_sync_is_synced_by_the_next() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    w.agents[0].overlay.hold_barriers(true);
    remove_name(&mut w);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    w.agents[0].overlay.hold_barriers(false);
    w.agents[0].overlay.request_barrier();
    w.poll();
    assert_eq!(w.agents[0].left_directories.len(), 1);
    w.agents[0].tasks.retain(|task| !matches!(task, Task::Barrier { .. }));
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    barrier(&mut w);
    assert_eq!(w.agents[0].left_directories.len(), 2);
}

#[test]
fn bytes_of_a_file_without_a_name_are_written_back_for_whoever_may_have_inherited_it_and_for_nobody_else() {
    for (inherited, removed_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut w, _) = left_open(inherited);
        if removed_first {
            remove_name(&mut w);
        }
        for rank in [0, 2] {
            other(&mut w, rank, Kind::Close, A);
        }
        if !removed_first {
            remove_name(&mut w);
        }
        w.quiesce();
        barrier(&mut w);
        let written_back = w.agents[0].overlay.counters().written_back_bytes_total;
        assert_eq!(written_back, if inherited { A.length } else { 0 }, "removed first: {removed_first}");
        assert!(w.agents[0].overlay.find(w.inodes[0].identity).is_none(), "it is forgotten");
        if inherited {
            // A child that never said so reads what its parent wrote.
            other(&mut w, 2, Kind::Open(false), A);
            other(&mut w, 2, Kind::Read, A);
        }
        no_violation(&w);
    }
}

#[test]
fn whoever_inherited_a_file_without_a_name_opens_the_same_file_while_it_is_written_back() {
    let (mut w, file) = left_open(true);
    remove_name(&mut w);
    let alone = |w: &mut World, rank: usize, kind: Kind| {
        ranks::begin_other(w, rank, kind, 0, A);
        for _ in 0..20 {
            ranks::step(w, rank, false);
        }
        assert!(!w.ranks[rank].is_busy());
    };
    alone(&mut w, 0, Kind::Close);
    alone(&mut w, 2, Kind::Close);
    assert!(w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. })), "a write-back has begun");
    // For reading: one that may write waits for a barrier.
    alone(&mut w, 2, Kind::Open(false));
    assert_eq!(w.open[1][&0], Some(file));
    alone(&mut w, 2, Kind::Read);
    w.quiesce();
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_file_is_known_by_a_name_that_stays_when_another_goes_and_if_there_is_none_its_bytes_go_back_before() {
    for told in [true, false] {
        let mut w = world();
        write(&mut w, 0, A, true);
        w.quiesce();
        let (file, identity) = (w.open[0][&0].unwrap(), w.inodes[0].identity);
        let path: &'static [u8] = w.agents[0].overlay.files[&file].names.path().to_vec().leak();
        let name = |stays, path| Request::Name { inode: identity.inode, stays, path };
        if told {
            w.request(0, &name(true, b"/slow/d/second"));
            // Of a directory above it, too.
            w.request(0, &Request::Renamed { old_length: 7, exchanged: false, paths: b"/slow/d/slow/e" });
        }
        w.request(0, &name(false, path));
        w.quiesce();
        assert_eq!(w.agents[0].overlay.dirty_bytes() > 0, told);
        let known = if told { b"/slow/e/second" } else { path };
        assert_eq!(w.agents[0].overlay.files[&file].names.path(), known);
        let replay = Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..], Replay::Everything);
        assert_eq!(replay.files[&file].path, known);
        // Nothing that nobody would find comes to flash, until somebody opens it by a name.
        write(&mut w, 0, A, true);
        assert_eq!(w.agents[0].overlay.dirty_bytes() > 0, told);
        w.request(0, &name(true, b"/slow/third"));
        write(&mut w, 0, A, true);
        assert!(w.agents[0].overlay.dirty_bytes() > 0);
        assert_eq!(w.agents[0].overlay.files[&file].names.path() == b"/slow/third", !told);
        no_violation(&w);
    }
}
