//! Flushed random writes on a server with a volume, in virtual time.

use headstart_block::layout::{GUARD_BLOCKS_MAX, Layout};
use headstart_model::elevator::ElevatorKind;
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::server::{Server, ServerConfig, VolumeConfig};
use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::liu::Sizes;
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;

use crate::driver::{Random, flush, write};

const DISK_BYTES: u64 = 8 << 30;
const FLASH_BYTES: u64 = 512 << 20;

/// A server, and the end of what it was asked last.
struct Writer {
    server: Server,
    random: Random,
    now: Nanos,
    next_id: u64,
}

impl Writer {
    fn new(volume: Option<VolumeConfig>, random: Random) -> Writer {
        let server = Server::new(ServerConfig {
            nic: NicConfig::NONE,
            elevator: ElevatorKind::Deadline,
            volume,
            ..ServerConfig::new(Profile::Wd1602)
        });
        Writer { server, random, now: Nanos::ZERO, next_id: 0 }
    }

    /// Writes 4 KiB and flushes, one after the other, so often; how many a second.
    fn flushed_writes(&mut self, count: u64) -> f64 {
        let begun = self.now;
        let mut completions = Vec::new();
        for _ in 0..count {
            let address = self.random.below(DISK_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
            for request in [write(self.next_id, address, BLOCK_BYTES), flush(self.next_id + 1)] {
                self.server.on_request(self.now, request);
                completions.clear();
                while completions.is_empty() {
                    let at = self.server.next_timer().expect("a request is under way");
                    self.server.on_timer(at, &mut completions);
                }
                self.now = completions[0].at;
            }
            self.next_id += 2;
        }
        count as f64 * 1e9 / self.now.since(begun).0 as f64
    }
}

#[test]
fn a_burst_of_flushed_writes_is_not_slowed_by_a_log_that_is_half_free_and_being_written_back() {
    let volume = VolumeConfig {
        flash: Profile::Pm9a3.device(),
        flash_bytes: FLASH_BYTES,
        names: Names::ITransformer,
        settings: chain::Settings::default(),
        sizes: Sizes::PAPER,
        heads_percent: None,
    };
    let mut with = Writer::new(Some(volume), Random::seeded(1));
    let disk_alone = Writer::new(None, Random::new(1)).flushed_writes(500);
    // Each takes a header and a block.
    let log_blocks = Layout::new(FLASH_BYTES, GUARD_BLOCKS_MAX).unwrap().ring_blocks;
    for step in 1..=log_blocks / 2 / 2 / 1000 {
        let rate = with.flushed_writes(1000);
        let used = 100 * 2000 * step / log_blocks;
        assert!(rate > 20.0 * disk_alone, "{rate:.0}/s at {used} % of the log, {disk_alone:.0}/s without");
    }
    assert!(with.server.stats(with.now).volume.unwrap().write_backs_total > 0, "write-back is under way");
}
