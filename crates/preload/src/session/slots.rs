//! Which slots of the shared file are this process's.

use std::sync::atomic::{AtomicU64, Ordering};

use headstart_protocol::shared::SLOTS_MAX;

/// One bit each.
static SLOTS: [AtomicU64; SLOTS_MAX / 64] = [const { AtomicU64::new(0) }; SLOTS_MAX / 64];

/// A slot is this process's, or no longer.
pub(crate) fn own(index: u32, mine: bool) {
    let (word, bit) = (&SLOTS[index as usize / 64], 1 << (index % 64));
    if mine {
        word.fetch_or(bit, Ordering::AcqRel)
    } else {
        word.fetch_and(!bit, Ordering::AcqRel)
    };
}

/// The numbers of this process's slots, in order.
#[inline]
pub(crate) fn owned() -> impl Iterator<Item = usize> {
    SLOTS.iter().enumerate().flat_map(|(index, word)| {
        let mut bits = word.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(index * 64 + bit)
        })
    })
}

/// In a forked child: they are the parent's.
pub(crate) fn abandon() {
    SLOTS.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}
