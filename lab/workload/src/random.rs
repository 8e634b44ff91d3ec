//! splitmix64: small, seedable, equal on every machine.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const STREAM_STEP: u64 = 0xd134_2543_de82_ef95;

fn mix(value: u64) -> u64 {
    let mixed = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A source of draws.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One of the independent streams of a seed.
    pub fn stream(seed: u64, stream: u64) -> Random {
        let seeded = mix(seed.wrapping_add(STEP));
        Random(mix((seeded ^ stream.wrapping_mul(STREAM_STEP)).wrapping_add(STEP)))
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`. The bias of the multiplication, `bound` / 2^64, is of no importance here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, not including, 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}
