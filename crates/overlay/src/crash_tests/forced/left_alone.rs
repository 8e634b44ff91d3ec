//! Files of which nothing comes to flash: whose threads ask for none, and when they do again.

use super::*;
use crate::fingerprint::Fingerprint;

/// How often somebody asked for flash, or committed, and was refused as nothing may come there.
pub(super) fn refused(w: &World, agent: usize) -> u64 {
    w.agents[agent].overlay.counters().refused_bypassed_total
}

fn is_shown(w: &World) -> bool {
    w.agents[0].memory.files[0].is_left_alone()
}

fn absorbs(w: &mut World) -> bool {
    let before = w.agents[0].overlay.counters().absorbed_requests_total;
    write(w, 2, A, true);
    w.check_left_alone();
    no_violation(w);
    w.agents[0].overlay.counters().absorbed_requests_total > before
}

#[test]
fn nobody_asks_for_flash_for_a_file_that_is_used_unseen_until_it_is_not() {
    let mut w = world();
    assert!(absorbs(&mut w), "with room in hand for more");
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    for _ in 0..5 {
        assert!(!absorbs(&mut w));
    }
    assert_eq!((refused(&w, 0), is_shown(&w)), (0, true));
    w.kill(0);
    w.quiesce();
    assert!(absorbs(&mut w));
}

#[test]
fn nobody_asks_for_flash_for_a_file_that_may_refuse_to_be_written_until_somebody_has_it_open_for_that() {
    let mut w = world();
    w.request(0, &Request::Sealed { file: 0 });
    w.quiesce();
    assert!(!absorbs(&mut w) && is_shown(&w));
    ranks::begin_other(&mut w, 1, Kind::Open(true), 0, Range::default());
    w.quiesce();
    assert!(absorbs(&mut w));
    assert_eq!(refused(&w, 0), 0);
}

#[test]
fn nobody_asks_for_flash_for_a_file_whose_name_is_not_known_until_it_is() {
    let mut w = world();
    let inode = w.inodes[0].identity.inode;
    let path: &'static [u8] = w.agents[0].overlay.files[&0].names.path().to_vec().leak();
    w.request(0, &Request::Name { inode, stays: false, path });
    w.quiesce();
    assert!(!absorbs(&mut w) && is_shown(&w));
    w.request(0, &Request::Name { inode, stays: true, path: b"/slow/third" });
    assert!(absorbs(&mut w));
    assert_eq!(refused(&w, 0), 0);
}

#[test]
fn who_has_not_seen_it_yet_is_refused() {
    let mut w = world();
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    w.agents[0].memory.files[0].leave_alone(false);
    assert!(!absorbs(&mut w));
    assert_eq!(refused(&w, 0), 1);
}

#[test]
fn the_next_agent_shows_what_it_knows() {
    let mut w = world();
    w.request(0, &Request::Sealed { file: 0 });
    w.quiesce();
    w.kill_agent();
    w.restart();
    w.check_left_alone();
    no_violation(&w);
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    w.kill_agent();
    w.agents[0].memory.files[0].leave_alone(false);
    w.restart();
    assert!(is_shown(&w));
}

#[test]
fn a_file_is_not_left_alone_because_the_one_before_with_its_number_was() {
    let w = &mut World::with(1, quiet(4096));
    w.agents[0].memory.files.iter().for_each(|entry| entry.leave_alone(true));
    let identity = Identity { inode: 77, ..Identity::default() };
    let shared = w.agents[0].memory.view();
    let observed = Fingerprint { size: 0, modified_ns: 1 };
    let number = w.agents[0].overlay.find_or_add(shared, identity, b"/slow/new", observed).unwrap();
    assert!(!w.agents[0].memory.files[number as usize].is_left_alone());
}
