//! Which slots of the shared file are this process's, and by which connection the agent hears of each.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use headstart_protocol::shared::SLOTS_MAX;

/// One bit each.
static SLOTS: [AtomicU64; SLOTS_MAX / 64] = [const { AtomicU64::new(0) }; SLOTS_MAX / 64];

/// The socket of each slot and one; zero: none. A call knows its slot's number, and must not touch the session that it
/// works with.
static SOCKETS: [AtomicI32; SLOTS_MAX] = [const { AtomicI32::new(0) }; SLOTS_MAX];

/// The slot's session has this socket now. Its thread alone says so, and asks for it.
pub(crate) fn connect(index: u32, socket: Option<i32>) {
    SOCKETS[index as usize].store(socket.map_or(0, |socket| socket + 1), Ordering::Relaxed);
}

/// The socket of the slot's session.
pub(crate) fn socket(index: u32) -> Option<i32> {
    SOCKETS[index as usize].load(Ordering::Relaxed).checked_sub(1).filter(|socket| *socket >= 0)
}

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
    SOCKETS.iter().for_each(|socket| socket.store(0, Ordering::Relaxed));
}
