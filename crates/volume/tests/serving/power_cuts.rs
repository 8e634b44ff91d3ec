//! The power fails at any operation, through the real event loop; what was not flushed is lost, torn and
//! reordered; the volume is served again. And failures of single operations, of devices, and of the server.
//!
//! What the engine does is checked far more often by its own crash tests; here it is what lies around it:
//! which buffer is written where, what a flush covers, who is answered, and that a start goes on from what is
//! left.

use std::time::Duration;

use headstart_block::devices::Device;
use headstart_block::engine;
use headstart_block::recovery::Given;
use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::{Chain, liu};
use headstart_units::Nanos;
use headstart_units::chance::Random;
use headstart_volume::server::{Backing, Server};
use headstart_volume::settings::Settings;
use headstart_volume::storage::faulty::{Faults, Faulty, Plan};
use headstart_volume::storage::memory::{Media, Memory};

use crate::bench::{SEGMENTS, flash_bytes, memory, memory_with_heads, names, settings};
use crate::chances::run_many;
use crate::chaos::Chaos;
use crate::clients::{Model, any, first_bytes};

/// What goes to flash.
enum Tested {
    Chaos(Chaos),
    /// LiU, alone or in front of iTransformer, on a volume with room for heads.
    Heads(Box<Chain>),
}

impl Tested {
    fn heads(random: &mut Random) -> Tested {
        let liu = liu::Settings {
            buffer_bytes: random.pick(&[1, 4]) * SEGMENTS.segment_bytes(),
            threshold_percent: random.pick(&[1, 30]),
            idle: Nanos(random.pick(&[0, 10_000])),
            ..liu::Settings::default()
        };
        let names = random.pick(&[Names::Liu, Names::LiuITransformer]);
        let chain = Chain::new(names, SEGMENTS, chain::Settings { liu, ..chain::Settings::default() });
        Tested::Heads(Box::new(chain))
    }
}

/// A volume in memory, its faults and its users.
struct World {
    random: Random,
    media: Media,
    given: Given,
    model: Model,
    policy: Tested,
    settings: Settings,
    depth: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let disk_bytes = 8192 * (4 + random.below(12));
        let has_heads = random.chance(40);
        let make = if has_heads { memory_with_heads } else { memory };
        let (media, given) = make(first_bytes(disk_bytes), flash_bytes(18 + random.below(60)));
        let engine = engine::Settings {
            records_max: random.pick(&[1, 2, 16]),
            checkpoint_every_blocks: random.pick(&[4, 16, 1000]),
            owed_max: random.pick(&[1, 4, 1000]),
            checkpoint_chunk_bytes: 4096,
            zero_bytes_max: random.pick(&[0, 4096, 1 << 20]),
            ..engine::Settings::default()
        };
        let idle = Duration::from_secs(random.pick(&[0, 3600]));
        World {
            media,
            given,
            model: Model::new(disk_bytes),
            policy: if has_heads { Tested::heads(&mut random) } else { Tested::Chaos(Chaos::new(&mut random)) },
            settings: Settings { engine, idle, ..settings() },
            depth: random.pick(&[1, 4, 12]),
            random,
        }
    }

    fn plan(&mut self) -> Plan {
        let late = [self.random.pick(&[0, 0, 2, 9]), self.random.pick(&[0, 0, 2, 9])];
        Plan { late_turns: late, ..Plan::default() }
    }

    fn serve(&mut self, plan: Plan) -> (Server, Faults) {
        let (media, seed) = (self.media.clone(), self.random.next());
        let faults = Faults::new(plan, seed, Box::new(media.clone()));
        let storage_faults = faults.clone();
        let backing = Backing {
            devices: self.media.clone(),
            given: self.given,
            open: Box::new(move |bell| Ok(Box::new(Faulty::new(Box::new(Memory::new(media, bell)), storage_faults)))),
            names: names(),
        };
        let settings = self.settings.clone();
        let server = match &self.policy {
            Tested::Chaos(policy) => {
                let mut policy = policy.clone();
                policy.random = Random(self.random.next());
                Server::start_with(backing, policy, settings)
            }
            Tested::Heads(policy) => Server::start_with(backing, Chain::clone(policy), settings),
        };
        let server = server.expect("the volume is served again");
        (server, faults)
    }

    /// Users ask until the power fails or they have had enough.
    fn ask(&mut self, server: &Server, faults: &Faults, requests: u64) {
        let handle = server.handle();
        for _ in 0..requests {
            if faults.is_cut() {
                return;
            }
            self.model.submit(&handle, any(&mut self.random, self.given.disk_bytes));
            self.model.wait(self.depth - 1, || faults.is_cut());
        }
        self.model.wait(0, || faults.is_cut());
    }

    /// The server dies; what it had under way is answered with an error.
    fn kill(&mut self, server: Server, faults: &Faults) {
        self.model.let_fail(true);
        server.kill();
        self.model.wait(0, || false);
        if faults.is_cut() {
            faults.crash();
        }
    }

    /// Served again without faults, everything is read; then it ends, and the raw disk holds the same.
    fn end(mut self) -> Vec<String> {
        let plan = self.plan();
        let (server, faults) = self.serve(plan);
        self.model.let_fail(false);
        self.model.settle(&server.handle(), false);
        self.ask(&server, &faults, 20);
        let stopped = server.stop(false).expect("the volume stops");
        assert!(stopped.is_released && stopped.dirty_bytes == 0, "{stopped:?}");
        self.model.check_disk(&self.media.bytes(Device::Disk));
        self.model.violations()
    }
}

fn run(seed: u64, fails: bool) -> Vec<String> {
    let mut world = World::new(seed);
    for _life in 0..3 {
        let plan = world.plan();
        let (server, faults) = world.serve(plan.clone());
        world.model.let_fail(false);
        world.model.settle(&server.handle(), false);
        let cut = world.random.chance(85).then(|| faults.operations() + 1 + world.random.below(150));
        let fails_one_in = if fails { world.random.pick(&[20, 100, 400]) } else { 0 };
        faults.set(Plan { cut, fails_one_in, ..plan });
        world.model.let_fail(fails);
        world.ask(&server, &faults, 150);
        world.kill(server, &faults);
    }
    world.end()
}

#[test]
fn nothing_flushed_is_lost_and_nothing_mixed_whenever_the_power_fails() {
    run_many(150, 11, |seed| run(seed, false));
}

#[test]
fn nothing_flushed_is_lost_when_operations_fail_too() {
    run_many(100, 12, |seed| run(seed, true));
}

#[test]
fn no_wrong_byte_is_returned_when_flash_reads_flip_bits() {
    run_many(60, 13, |seed| {
        let mut world = World::new(seed);
        let flips_one_in = world.random.pick(&[2, 10, 50]);
        let (server, faults) = world.serve(Plan { flips_one_in, ..Plan::default() });
        world.model.let_fail(true);
        world.ask(&server, &faults, 200);
        world.kill(server, &faults);
        world.end()
    });
}

#[test]
fn whichever_operation_fails_once_nothing_flushed_is_lost() {
    for fails in 1..400 {
        let mut world = World::new(fails * 7919);
        let (server, faults) = world.serve(Plan { fails: Some(fails), ..Plan::default() });
        world.model.let_fail(true);
        world.ask(&server, &faults, 60);
        let was_reached = faults.operations() >= fails;
        world.kill(server, &faults);
        let violations = world.end();
        assert!(violations.is_empty(), "operation {fails} failed: {}", violations.join("\n"));
        if !was_reached && fails > 100 {
            return;
        }
    }
}

#[test]
fn a_device_that_is_gone_fails_what_needs_it_and_a_start_with_it_goes_on() {
    run_many(60, 14, |seed| {
        let mut world = World::new(seed);
        let device = world.random.pick(&[Device::Disk, Device::Flash]);
        let from = 1 + world.random.below(120);
        let (server, faults) = world.serve(Plan { is_gone: Some((device, from)), ..Plan::default() });
        world.model.let_fail(true);
        world.ask(&server, &faults, 120);
        // Everybody was answered; the volume ends without the device, and keeps what it cannot write back.
        let dirty = server.handle().status().expect("the server is alive").dirty_bytes;
        match server.stop(false) {
            Ok(stopped) => assert!(!stopped.is_released || dirty == 0 || faults.operations() < from, "{stopped:?}"),
            Err(error) => assert!(error.to_string().contains("serve"), "{error}"),
        }
        world.end()
    });
}
