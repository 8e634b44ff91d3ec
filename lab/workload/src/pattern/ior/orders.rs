//! The orders of a rank's transfers, each a function of the transfer's number.
//!
//! Dealing is the same law as IOR's, which gives each transfer to a rank of its own drawing and lets each
//! rank shuffle what it has: given how many transfers each rank gets, every division of them and every order
//! of each share is as likely as any other. So the counts are drawn first, one draw for each transfer, and
//! then one permutation of all transfers is cut at them. Nobody needs a table of transfers for that, only one
//! number for each rank; the draws of the counts take about a nanosecond each, once a program.

use headstart_units::request::Range;

use super::{Ior, Order};
use crate::permutation::Permutation;
use crate::plan::Regions;
use crate::random::Random;
use crate::zipf::Zipf;

/// Which transfer of a block comes at a turn.
pub struct Slots {
    law: Law,
    transfers: u64,
    /// Turns of a window, and the number of the first window; where the hot region does not move there is one
    /// window, 0.
    part: u64,
    shift_first: u64,
}

enum Law {
    Ascending,
    Permuted(Permutation),
    Uniform(u64),
    Zipf(u64, Zipf),
}

impl Slots {
    /// The order of the block of `owner`, with `part` turns a window.
    pub fn new(ior: &Ior, seed: u64, owner: u32, part: u64) -> Slots {
        let transfers = ior.transfers();
        let mut random = Random::stream(seed, u64::from(owner));
        let law = match ior.order {
            Order::Seq => Law::Ascending,
            Order::PermOwnBlock => Law::Permuted(Permutation::new(transfers, random)),
            Order::UniformOwnBlock => Law::Uniform(random.draw()),
            Order::ZipfOwnBlock => Law::Zipf(random.draw(), Zipf::new(transfers, ior.theta)),
            Order::DealGlobal => unreachable!("what is dealt is of no block"),
        };
        Slots { law, transfers, part, shift_first: if ior.shift_windows > 0 { ior.shift_first } else { 0 } }
    }

    fn at(&self, turn: u64) -> u64 {
        match &self.law {
            Law::Ascending => turn,
            Law::Permuted(permutation) => permutation.at(turn),
            Law::Uniform(key) => Random::stream(*key, turn).below(self.transfers),
            Law::Zipf(key, law) => {
                let drawn = law.draw(&mut Random::stream(*key, turn));
                // In window w the draw of transfer j stands for transfer j + 3 w / 8 of the block, around its end.
                let window = self.shift_first.wrapping_add(turn / self.part) % 8;
                let shift = u128::from(window) * 3 * u128::from(self.transfers) / 8 % u128::from(self.transfers);
                (drawn + shift as u64) % self.transfers
            }
        }
    }
}

/// Transfers of a rank's own block.
pub struct OwnBlock {
    /// Where the block begins.
    pub first: u64,
    /// Bytes of a transfer.
    pub transfer: u64,
    /// Their order.
    pub slots: Slots,
}

impl Regions for OwnBlock {
    fn range(&self, index: u64) -> Range {
        Range { offset: self.first + self.slots.at(index) * self.transfer, length: self.transfer }
    }
}

/// The transfers of a segment that a rank was dealt.
pub struct Dealt {
    permutation: Permutation,
    first: u64,
    transfer: u64,
}

impl Dealt {
    /// Those from the `first` on of all `slots`, shuffled.
    pub fn new(seed: u64, ranks: u32, slots: u64, first: u64, transfer: u64) -> Dealt {
        let mut random = Random::stream(seed, u64::from(ranks));
        // The counts have a stream of their own, of this draw.
        random.draw();
        Dealt { permutation: Permutation::new(slots, random), first, transfer }
    }
}

impl Regions for Dealt {
    fn range(&self, index: u64) -> Range {
        Range { offset: self.permutation.at(self.first + index) * self.transfer, length: self.transfer }
    }
}

/// Where each rank's share begins in the permutation of all transfers, and the end of the last.
pub fn deal(seed: u64, ranks: u32, slots: u64) -> Vec<u64> {
    let key = Random::stream(seed, u64::from(ranks)).draw();
    let mut random = Random::stream(key, 0);
    let mut counts = vec![0u64; ranks as usize];
    for _ in 0..slots {
        counts[random.below(u64::from(ranks)) as usize] += 1;
    }
    let mut shares = vec![0];
    for count in counts {
        shares.push(shares[shares.len() - 1] + count);
    }
    shares
}
