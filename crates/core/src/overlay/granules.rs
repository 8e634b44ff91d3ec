//! Which bits are set, and when they may be cleared.
//!
//! A bit is set before anything of its granule may be on flash. It is *settled* once no thread that may have seen it clear is
//! still at the slow file; only then may something be absorbed or fetched there. It is cleared when nothing is mapped, nothing
//! is under way, and a barrier covers the record that removed the last extent.

use std::collections::BTreeMap;

use crate::protocol::shared::{BITS_PER_FILE, GRANULE_BYTES, Shared, bits_of};
use crate::request::Range;

#[derive(Clone, Copy, Debug, Default)]
struct Granule {
    holders: u32,
    settled: bool,
}

/// Every set bit of every file.
#[derive(Clone, Debug, Default)]
pub(super) struct Granules {
    granules: BTreeMap<(u32, u64), Granule>,
    emptied: BTreeMap<(u32, u64), u64>,
}

impl Granules {
    /// Sets the bits of `range`, fences, and keeps them from being cleared until `let_go`.
    pub(super) fn hold(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        for bit in bits_of(range) {
            self.granules.entry((file, bit)).or_default().holders += 1;
        }
        shared.announce(file, range);
    }

    /// Undoes `hold`.
    pub(super) fn let_go(&mut self, file: u32, range: Range) {
        for bit in bits_of(range) {
            let granule = self.granules.get_mut(&(file, bit)).expect("a held granule is known");
            granule.holders -= 1;
            if granule.holders == 0 {
                // It may be that nothing was mapped in the end; the next barrier looks.
                self.emptied.entry((file, bit)).or_insert(0);
            }
        }
    }

    /// Whether nobody who may have seen one of the range's bits clear is still at the slow file.
    pub(super) fn settled(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        for bit in bits_of(range) {
            let granule = self.granules.get_mut(&(file, bit)).expect("a held granule is known");
            if !granule.settled {
                if !shared.is_settled(file, bit) {
                    return false;
                }
                granule.settled = true;
            }
        }
        true
    }

    /// Extents of `range` were removed by a record that ends at `position`.
    pub(super) fn emptied(&mut self, file: u32, range: Range, position: u64) {
        for bit in bits_of(range) {
            self.emptied.insert((file, bit), position);
        }
    }

    /// Clears the bits that may be: removed before `durable_end`, held by nobody, under no copy, and not `occupied` by an extent.
    pub(super) fn clear(
        &mut self,
        shared: Shared<'_>,
        durable_end: u64,
        copied: impl Fn(u32, u64) -> bool,
        occupied: impl Fn(u32, u64) -> bool,
    ) {
        let granules = &mut self.granules;
        self.emptied.retain(|&(file, bit), &mut position| {
            let Some(granule) = granules.get(&(file, bit)) else { return false };
            if position > durable_end || granule.holders > 0 || copied(file, bit) {
                return true;
            }
            if !occupied(file, bit) {
                granules.remove(&(file, bit));
                shared.clear_bit(file, bit);
            }
            false
        });
    }

    /// Whether any bit of the file is set.
    pub(super) fn any(&self, file: u32) -> bool {
        self.granules.range((file, 0)..=(file, u64::MAX)).next().is_some()
    }

    /// The journal begins anew with a checkpoint that ends at `position`: what was emptied before is emptied by it.
    pub(super) fn rebase(&mut self, position: u64) {
        self.emptied.values_mut().for_each(|emptied| *emptied = position);
    }
}

/// The ranges of a file of `size` bytes that `bit` speaks for.
pub(super) fn ranges_of(bit: u64, size: u64) -> impl Iterator<Item = Range> {
    (0..)
        .map(move |turn| (turn * BITS_PER_FILE + bit) * GRANULE_BYTES)
        .take_while(move |offset| *offset < size)
        .map(|offset| Range::new(offset, GRANULE_BYTES))
}
