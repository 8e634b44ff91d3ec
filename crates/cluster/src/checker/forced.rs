//! Histories too long for a search of all: one each.

use super::actions::Action;
use super::explorer::System;
use super::rank::Rank;
use super::row::{Budget, Kind, Row, Slip};
use super::world::World;
use crate::Member;
use crate::message::{Ask, Message};
use crate::rules::{Rule, drop_rule};

const EXPELLED: Row =
    Row::new("forced", 2, Budget { absorbs: 2, reads: 2, syncs: 1, agents: 1, expels: 1, ..Budget::NONE });

/// One step, which must be possible.
fn act(world: &mut World, action: Action) -> Result<(), String> {
    assert!(world.actions().contains(&action), "{action:?} is not possible here");
    world.act(action)
}

/// All messages come but those that are held back, and are said again if none is left; all agents look at the view; a
/// thread goes on until it can no more.
fn settle(world: &mut World, node: u8, held: fn(&Message) -> bool) -> Result<(), String> {
    let mut again: Vec<u8> = (0..world.row.members).flat_map(|of| [of; 4]).collect();
    loop {
        let ordinary = |world: &World, action: &Action| match action {
            Action::Deliver(at) => !held(&world.net[*at].get().message),
            Action::Step(of) => *of == node,
            Action::Look(_) | Action::Land(_) => true,
            _ => false,
        };
        let waits = |world: &World, of: u8| world.node(of).agent.as_ref().is_some_and(Member::waits);
        let next = world.actions().into_iter().find(|action| ordinary(world, action));
        match next.or_else(|| again.pop().filter(|of| waits(world, *of)).map(Action::Again)) {
            Some(action) => world.act(action)?,
            None if again.is_empty() => return Ok(()),
            None => {}
        }
    }
}

/// A node is dead, and another waits for it: its log is cut.
fn bury(world: &mut World, by: u8, dead: u8) -> Result<(), String> {
    act(world, Action::Accuse(by, dead))?;
    settle(world, by, |_| false)?;
    act(world, Action::Tick)?;
    settle(world, by, |_| false)?;
    act(world, Action::Cut(by, dead))?;
    settle(world, by, |_| false)
}

/// A history of a row without a rule, on this thread.
fn without(rule: Option<Rule>, history: fn() -> Result<(), String>) -> Result<(), String> {
    drop_rule(rule);
    let result = history();
    drop_rule(None);
    result
}

/// All messages come, and a thread goes on until it can no more.
fn go_on(world: &mut World, node: u8) -> Result<(), String> {
    let ordinary = |action: &Action| matches!(action, Action::Deliver(_)) || *action == Action::Step(node);
    while let Some(action) = world.actions().into_iter().find(ordinary) {
        world.act(action)?;
    }
    Ok(())
}

/// Node 1 is expelled with a write that is not durable, and its fsync ends after its log was cut. Then the owner's
/// agent is started anew, and merges what there is.
fn a_barrier_that_ends_late(slip: Option<Slip>) -> Result<(), String> {
    let mut world = World::new(Box::leak(Box::new(Row { slip, ..EXPELLED })));
    for node in 0..2 {
        act(&mut world, Action::Begin(node, Kind::Absorb, 0, 0))?;
        go_on(&mut world, node)?;
    }
    act(&mut world, Action::Begin(1, Kind::Sync, 0, 0))?;
    act(&mut world, Action::Begin(0, Kind::Read, 0, 0))?;
    act(&mut world, Action::Step(0))?;
    // It has read what node 1 wrote, and asks whether that lives. Nobody answers.
    for action in
        [Action::Accuse(0, 1), Action::Look(0), Action::Tick, Action::Look(0), Action::Cut(0, 1), Action::Look(0)]
    {
        act(&mut world, action)?;
    }
    go_on(&mut world, 0)?;
    for action in [Action::Step(1), Action::KillAgent(0), Action::Restart(0), Action::Begin(0, Kind::Read, 0, 0)] {
        act(&mut world, action)?;
    }
    go_on(&mut world, 0)?;
    assert!(!world.actions().contains(&Action::Step(0)), "the read has ended");
    Ok(())
}

#[test]
fn a_log_counts_up_to_its_cut_though_its_node_goes_on() {
    a_barrier_that_ends_late(None).expect("what was not durable is gone for ever");
    let broken = a_barrier_that_ends_late(Some(Slip::NoCut)).expect_err("it is back, after an older value was read");
    assert_eq!(broken, "2 is read after 1");
}

/// Where a message is under way.
fn find(world: &World, wanted: fn(&Message) -> bool) -> usize {
    world.net.iter().position(|envelope| wanted(&envelope.get().message)).expect("it is under way")
}

/// What a read of node's thread leads to.
fn read(world: &mut World, node: u8) -> Result<(), String> {
    act(world, Action::Begin(node, Kind::Read, 0, 0))?;
    settle(world, node, |_| false)?;
    let rank = world.node(node).rank;
    assert!(rank == Rank::Idle, "the read has ended, and is not {rank:?}, with {:?}", world.net);
    Ok(())
}

/// What node 0 has absorbed is covered by a direct write of node 1, and forgotten, but that is not durable. Then both
/// agents are started anew, one after the other, and node 0 dies.
fn a_record_that_is_not_durably_forgotten() -> Result<(), String> {
    const ROW: Row = Row {
        blocks: 2,
        ..Row::new(
            "forced",
            2,
            Budget { absorbs: 2, directs: 1, reads: 2, syncs: 1, barriers: 2, agents: 2, nodes: 1, ..Budget::NONE },
        )
    };
    let world = &mut World::new(&ROW);
    for (node, kind) in [(0, Kind::Absorb), (1, Kind::Direct)] {
        act(world, Action::Begin(node, kind, 0, 0))?;
        settle(world, node, |_| false)?;
    }
    act(world, Action::Barrier(0))?;
    act(world, Action::Begin(1, Kind::Sync, 0, 0))?;
    settle(world, 1, |_| false)?;
    for action in [Action::KillAgent(0), Action::Restart(0)] {
        act(world, action)?;
    }
    settle(world, 0, |_| false)?;
    read(world, 1)?;
    if world.actions().contains(&Action::Barrier(1)) {
        act(world, Action::Barrier(1))?;
        settle(world, 1, |_| false)?;
    }
    for action in [Action::KillNode(0), Action::KillAgent(1), Action::Restart(1)] {
        act(world, action)?;
    }
    settle(world, 1, |_| false)?;
    bury(world, 1, 0)?;
    // It owns the file anew.
    act(world, Action::Begin(1, Kind::Absorb, 0, 1))?;
    settle(world, 1, |_| false)?;
    read(world, 1)
}

#[test]
fn who_claims_hears_of_records_that_are_not_durably_forgotten() {
    without(None, a_record_that_is_not_durably_forgotten).expect("the DROP above it stays");
    let broken = without(Some(Rule::ClaimForgotten), a_record_that_is_not_durably_forgotten).expect_err("it is back");
    assert_eq!(broken, "2 is read after 3");
}

/// Node 1 gives a file up and does not hear that the home, node 0, knows. Node 2 owns it, syncs, dies; the home begins
/// anew, and hears of node 1 again.
fn a_release_that_is_told_again() -> Result<(), String> {
    const ROW: Row = Row {
        prompt: true,
        ..Row::new(
            "forced",
            3,
            Budget { absorbs: 2, reads: 1, syncs: 1, backs: 1, releases: 1, agents: 1, nodes: 1, ..Budget::NONE },
        )
    };
    let held = |message: &Message| matches!(message, Message::Released(..));
    let world = &mut World::new(&ROW);
    for action in [Action::Begin(1, Kind::Absorb, 0, 0), Action::WriteBack(1, 0, 0), Action::GiveUp(1, 0)] {
        act(world, action)?;
        settle(world, 1, held)?;
    }
    for kind in [Kind::Absorb, Kind::Sync] {
        act(world, Action::Begin(2, kind, 0, 0))?;
        settle(world, 2, held)?;
    }
    for action in [Action::KillNode(2), Action::KillAgent(0), Action::Restart(0)] {
        act(world, action)?;
    }
    settle(world, 0, |_| false)?;
    bury(world, 0, 2)?;
    read(world, 0)
}

#[test]
fn a_new_home_hears_nothing_of_an_owner_that_has_given_the_file_up() {
    without(None, a_release_that_is_told_again).expect("what was synced is read");
    let broken = without(Some(Rule::ReleaseDeclared), a_release_that_is_told_again).expect_err("it is hidden");
    assert_eq!(broken, "1 is read after 2");
}

/// A copy of node 1 has ended, and its DROP is ordered; then node 1's thread writes there, and the two overtake.
fn records_that_overtake() -> Result<(), String> {
    const ROW: Row = Row::new("forced", 2, Budget { absorbs: 3, backs: 1, ..Budget::NONE });
    let held = |message: &Message| matches!(message, Message::Ordered { by: None, .. });
    let world = &mut World::new(&ROW);
    for (node, action) in [
        (0, Action::Begin(0, Kind::Absorb, 0, 0)),
        (1, Action::Begin(1, Kind::Absorb, 0, 0)),
        (1, Action::WriteBack(0, 0, 0)),
        (1, Action::Begin(1, Kind::Absorb, 0, 0)),
    ] {
        act(world, action)?;
        settle(world, node, held)?;
    }
    settle(world, 1, |_| false)
}

#[test]
fn a_log_has_the_records_of_a_byte_in_their_order() {
    without(None, records_that_overtake).expect("the second is ordered once the first is appended");
    let broken = without(Some(Rule::LogOrder), records_that_overtake).expect_err("they are appended as they come");
    assert_eq!(broken, "the log of MemberId { node: 1, life: 0 } is not in order");
}

/// Node 1 was told to write over a DROP that was not durable, and it is by the time that node 1 has written: its owner,
/// node 0, has nothing to order. Node 0 absorbs there; then it hears once more that node 1 has written.
fn a_write_that_ends_twice() -> Result<(), String> {
    const ROW: Row =
        Row::new("forced", 2, Budget { absorbs: 2, directs: 2, reads: 1, syncs: 1, doubles: 1, ..Budget::NONE });
    let held = |message: &Message| matches!(message, Message::Asked(.., Ask::WriteDone { .. }));
    let world = &mut World::new(&ROW);
    for (node, kind) in [(0, Kind::Absorb), (0, Kind::Direct), (1, Kind::Direct)] {
        act(world, Action::Begin(node, kind, 0, 0))?;
        settle(world, node, held)?;
    }
    act(world, Action::Begin(0, Kind::Sync, 0, 0))?;
    settle(world, 0, held)?;
    let at = find(world, held);
    act(world, Action::Double(at))?;
    settle(world, 1, held)?;
    act(world, Action::Begin(0, Kind::Absorb, 0, 0))?;
    settle(world, 0, held)?;
    settle(world, 0, |_| false)?;
    read(world, 0)
}

#[test]
fn what_was_answered_once_is_not_done_when_it_comes_again() {
    without(None, a_write_that_ends_twice).expect("what was absorbed last is read");
    without(Some(Rule::ToldAgain), a_write_that_ends_twice).expect_err("a DROP hides it");
}

const RELEASED: Row = Row {
    prompt: true,
    ..Row::new("forced", 2, Budget { absorbs: 2, reads: 1, backs: 1, releases: 1, doubles: 1, ..Budget::NONE })
};

/// Node 1 gives a file up and owns it anew; then the home, node 0, hears of the first again.
fn a_release_that_comes_again() -> Result<(), String> {
    let held = |message: &Message| matches!(message, Message::Release(..));
    let world = &mut World::new(&RELEASED);
    for action in [Action::Begin(1, Kind::Absorb, 0, 0), Action::WriteBack(1, 0, 0), Action::GiveUp(1, 0)] {
        settle(world, 1, held)?;
        act(world, action)?;
    }
    let at = find(world, held);
    act(world, Action::Double(at))?;
    settle(world, 1, held)?;
    act(world, Action::Begin(1, Kind::Absorb, 0, 0))?;
    settle(world, 1, held)?;
    settle(world, 1, |_| false)?;
    read(world, 0)
}

#[test]
fn a_home_believes_the_owner_that_it_has_named() {
    without(None, a_release_that_comes_again).expect("the second owner stays");
    let broken = without(Some(Rule::ReleaseAgain), a_release_that_comes_again).expect_err("it is forgotten");
    assert_eq!(broken, "1 is read after 2");
}

/// Node 1 gives a file up, node 2 gets absence, and then hears again of that owner. The home begins anew.
fn an_owner_of_which_one_hears_again() -> Result<(), String> {
    const ROW: Row = Row {
        prompt: true,
        ..Row::new(
            "forced",
            3,
            Budget { absorbs: 2, reads: 3, backs: 1, releases: 1, agents: 1, doubles: 1, ..Budget::NONE },
        )
    };
    let held = |message: &Message| matches!(message, Message::OwnedBy(..));
    let world = &mut World::new(&ROW);
    act(world, Action::Begin(1, Kind::Absorb, 0, 0))?;
    settle(world, 1, |_| false)?;
    act(world, Action::Begin(2, Kind::Read, 0, 0))?;
    settle(world, 2, held)?;
    let at = find(world, held);
    act(world, Action::Double(at))?;
    for action in [Action::WriteBack(1, 0, 0), Action::GiveUp(1, 0), Action::Begin(2, Kind::Read, 0, 0)] {
        settle(world, 2, held)?;
        act(world, action)?;
    }
    settle(world, 2, held)?;
    settle(world, 2, |_| false)?;
    for action in [Action::KillAgent(0), Action::Restart(0)] {
        act(world, action)?;
    }
    settle(world, 0, |_| false)?;
    act(world, Action::Begin(1, Kind::Absorb, 0, 0))?;
    settle(world, 1, |_| false)?;
    read(world, 2)
}

#[test]
fn what_a_home_said_before_a_file_was_given_up_is_old() {
    without(None, an_owner_of_which_one_hears_again).expect("its absence is called in");
    let broken = without(Some(Rule::ReleaseStamp), an_owner_of_which_one_hears_again).expect_err("nobody knows of it");
    assert_eq!(broken, "1 is read after 2");
}
