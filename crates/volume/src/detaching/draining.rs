//! `detach`: everything that flash alone holds goes to the disk, the guard comes off, and the flash says that
//! it counts no more.
//!
//! The engine itself writes back, with its checks and its order of steps; here its orders are carried out one
//! after the other. A crash anywhere leaves a volume that can be attached, or detached, again.

use headstart_block::engine::{Engine, Settings, ZERO_BYTES_MAX};
use headstart_block::log_map::LogMap;
use headstart_block::recovery;
use headstart_block::recovery::Refusal;
use headstart_policy::server::AddressOrder;

use crate::pair::Pair;
use crate::synchronous::Synchronous;

/// How a detachment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detached {
    /// The disk is a plain disk.
    Plain {
        /// Bytes that were written back.
        written_back_bytes: u64,
    },
    /// Something could not be written back; the volume stays as it is.
    Kept {
        /// What flash alone holds, or what is lost: offset and length.
        left: Vec<(u64, u64)>,
    },
}

/// Writes everything back and takes the guard off.
pub fn detach(pair: &mut Pair) -> Result<Detached, Refusal> {
    let given = pair.given(false, None);
    let recovered = recovery::attach(pair, &given)?;
    let written_back_bytes = held(&recovered.map).iter().map(|(_, length)| length).sum();
    let zero_bytes_max = if pair.disk.makes_zeros() { ZERO_BYTES_MAX } else { 0 };
    let settings = Settings { zero_bytes_max, ..Settings::default() };
    let engine = Engine::new(recovered, AddressOrder::default(), settings);
    let engine = Synchronous::new(pair, engine).drain();
    let left = held(engine.map());
    let (mut superblock, is_empty) = engine.into_superblock();
    if recovery::release(pair, &mut superblock, is_empty, true)? {
        return Ok(Detached::Plain { written_back_bytes });
    }
    Ok(Detached::Kept { left })
}

fn held(map: &LogMap) -> Vec<(u64, u64)> {
    let mut at = 0;
    let next = || {
        let piece = map.from(at).next()?;
        at = piece.range.end();
        Some((piece.range.offset, piece.range.length))
    };
    std::iter::from_fn(next).collect()
}
