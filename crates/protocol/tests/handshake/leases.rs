//! What the agent grants: seen whole by whoever got the reply, and over for the agent once it is released.
//! Rules read-no-lease and no-read-lease.

use headstart_protocol::lease::Place;
use loom::sync::atomic::Ordering;

use super::explorer::{FILE, HERE, RACE, Seen, World, holds, refuted};

type Step = fn(&World);

const PLACE: Place = Place { file: FILE, data_file: 7, place: 8192, length: 4096 };
const TORN: &str = "a grant is seen in part";

fn release(world: &World) {
    world.slot().release_read();
}

fn read(world: &World) {
    world.bytes.read();
}

fn grant_flash_read(world: &World) {
    world.slot().grant_flash_read([PLACE]);
}

fn reply(world: &World) {
    world.reply.send();
}

/// A read of flash under a lease; the agent gives the place away when nobody holds it.
fn read_flash(seen: &Seen, [first, second]: [Step; 2], [third, fourth]: [Step; 2], held: fn(&World) -> bool) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            if !world.reply.has_come() {
                return;
            }
            noted.note("read");
            assert_eq!(world.slot().leased_pieces().collect::<Vec<_>>(), [PLACE], "{TORN}");
            world.step();
            third(world);
            world.step();
            fourth(world);
        },
        |world| {
            first(world);
            world.step();
            second(world);
            world.step();
            if seen.answer(held(world), "waits", "given away") {
                return;
            }
            world.bytes.write();
        },
    );
}

fn is_held(world: &World) -> bool {
    world.slot().held_pieces().any(|held| held == PLACE)
}

#[test]
fn a_place_is_given_away_only_after_its_last_reader() {
    holds(&["read", "waits", "given away"], |seen| {
        read_flash(seen, [grant_flash_read, reply], [read, release], is_held);
    });
}

#[test]
fn a_reply_before_the_grant_shows_a_part_of_it() {
    refuted(TORN, |seen| read_flash(seen, [reply, grant_flash_read], [read, release], is_held));
}

#[test]
fn a_lease_released_before_the_read_gives_the_place_away() {
    refuted(RACE, |seen| read_flash(seen, [grant_flash_read, reply], [release, read], is_held));
}

#[test]
fn an_agent_that_does_not_look_at_the_leases_gives_the_place_away() {
    refuted(RACE, |seen| read_flash(seen, [grant_flash_read, reply], [read, release], |_| false));
}

#[test]
fn a_lease_released_without_release_ordering_gives_the_place_away() {
    let release: Step = |world| world.slot().lease.store(0, Ordering::Relaxed);
    refuted(RACE, move |seen| read_flash(seen, [grant_flash_read, reply], [read, release], is_held));
}

/// A read of the slow file where a set bit speaks for other bytes, and a commit.
fn read_slow(seen: &Seen, grant: Step, overlaps: fn(&World) -> bool) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            if !world.reply.has_come() {
                return;
            }
            noted.note("read");
            assert_eq!(world.slot().leased(), HERE, "{TORN}");
            world.bytes.read();
            world.step();
            world.slot().release_read();
        },
        |world| {
            grant(world);
            world.step();
            reply(world);
            world.step();
            if seen.answer(overlaps(world), "waits", "committed") {
                return;
            }
            world.bytes.write();
        },
    );
}

#[test]
fn a_commit_waits_for_a_slow_read_under_a_lease() {
    holds(&["read", "waits", "committed"], |seen| {
        read_slow(
            seen,
            |world| world.slot().grant_slow_read(HERE),
            |world| world.shared().slow_read_overlaps(FILE, HERE),
        );
    });
}

#[test]
fn a_commit_that_does_not_look_at_leases_meets_a_slow_read() {
    refuted(RACE, |seen| read_slow(seen, |world| world.slot().grant_slow_read(HERE), |_| false));
}

fn give_up(world: &World) {
    world.slot().give_up();
}

/// A direct write whose end nobody was told; the agent lets others at the bytes once the thread has given it up.
fn write_and_give_up(seen: &Seen, [first, second]: [Step; 2]) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            if world.reply.has_come() {
                noted.note("written");
                first(world);
                world.step();
                second(world);
            }
        },
        |world| {
            world.slot().grant_direct_write(FILE, HERE, 0);
            world.step();
            reply(world);
            world.step();
            if seen.answer(world.slot().has_given_up(), "ended", "waits") {
                world.bytes.write();
            }
        },
    );
}

#[test]
fn a_direct_write_that_was_given_up_is_over() {
    holds(&["written", "ended", "waits"], |seen| write_and_give_up(seen, [write, give_up]));
}

#[test]
fn a_direct_write_given_up_before_it_was_made_meets_a_commit() {
    refuted(RACE, |seen| write_and_give_up(seen, [give_up, write]));
}

/// A slab, the bytes written to it, and the commit; then the agent takes it back and reads the bytes.
fn slab(seen: &Seen, [first, second]: [Step; 2], [third, fourth]: [Step; 2]) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            if world.reply.has_come() {
                noted.note("absorbed");
                assert_eq!(world.slot().slabs[0].read(), PLACE, "{TORN}");
                world.step();
                third(world);
                world.step();
                fourth(world);
            }
        },
        |world| {
            first(world);
            world.step();
            second(world);
            world.step();
            if seen.answer(world.request.has_come(), "committed", "nothing yet") {
                world.slot().revoke_slab(0);
                world.bytes.write();
            }
        },
    );
}

fn grant_slab(world: &World) {
    world.slot().show_slab(0, PLACE);
}

fn write(world: &World) {
    world.bytes.write();
}

fn commit(world: &World) {
    world.request.send();
}

#[test]
fn a_slab_is_seen_whole_and_its_bytes_are_there_with_the_commit() {
    holds(&["absorbed", "committed", "nothing yet"], |seen| slab(seen, [grant_slab, reply], [write, commit]));
}

#[test]
fn a_reply_before_the_slab_shows_a_part_of_it() {
    refuted(TORN, |seen| slab(seen, [reply, grant_slab], [write, commit]));
}

#[test]
fn a_commit_before_the_bytes_names_bytes_that_are_not_there() {
    refuted(RACE, |seen| slab(seen, [grant_slab, reply], [commit, write]));
}

#[test]
fn a_slab_read_while_it_is_granted_is_whole_or_none() {
    holds(&["whole", "none"], |seen| {
        let noted = seen.clone();
        World::new().run(
            move |world| {
                let slab = world.slot().slabs[0].read();
                if noted.answer(slab.length > 0, "whole", "none") {
                    assert_eq!(slab, PLACE, "{TORN}");
                }
            },
            grant_slab,
        );
    });
}
