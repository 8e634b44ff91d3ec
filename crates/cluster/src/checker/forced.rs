//! Histories too long for a search of all: one each.

use super::actions::Action;
use super::explorer::System;
use super::row::{Budget, Kind, Row, Slip};
use super::world::World;

const EXPELLED: Row = Row::new(
    "forced",
    2,
    Budget {
        absorbs: 2,
        directs: 0,
        reads: 2,
        syncs: 1,
        backs: 0,
        agents: 1,
        nodes: 0,
        expels: 1,
        losses: 0,
        doubles: 0,
    },
);

/// One step, which must be possible.
fn act(world: &mut World, action: Action) -> Result<(), String> {
    assert!(world.actions().contains(&action), "{action:?} is not possible here");
    world.act(action)
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
