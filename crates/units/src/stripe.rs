//! How a request falls on the servers of a round-robin striped file.

use crate::request::Range;

/// The servers a request touches and the most any of them has to move (S4D §III-B, eq. 6 and Table II).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Servers involved, m.
    pub servers: u64,
    /// Bytes of the largest sub-request, s_m.
    pub bytes_max: u64,
}

/// Applies eq. 6 and Table II to `range` striped by `stripe_bytes` over `servers`.
///
/// The ending stripe is ⌊(f + r)/str⌋ as the paper prints it. When f + r is a multiple of the stripe that
/// names one stripe more than the request touches: s_m is still exact, but m counts an empty stripe, so the
/// expected startup is slightly high. That is kept, because it is the published model.
///
/// Table II's condition prints its symbol illegibly; it is Δ = E − B, the reading that agrees with counting
/// stripe by stripe (see the test). With one server the largest sub-request is the request; Table II, whose
/// second row names the other servers' full stripes, takes at least two.
#[inline]
pub fn spread(range: Range, stripe_bytes: u64, servers: u64) -> Spread {
    let (begin, end) = (range.offset / stripe_bytes, range.end() / stripe_bytes);
    let delta = end - begin;
    if delta == 0 {
        return Spread { servers: 1, bytes_max: range.length };
    }
    let head = stripe_bytes - range.offset % stripe_bytes;
    let tail = range.end() % stripe_bytes;
    let rows = delta.div_ceil(servers);
    let bytes_max = if servers == 1 {
        range.length
    } else if delta.is_multiple_of(servers) {
        (head + tail + (rows - 1) * stripe_bytes).max(rows * stripe_bytes)
    } else if delta % servers == 1 {
        head.max(tail) + (rows - 1) * stripe_bytes
    } else {
        rows * stripe_bytes
    };
    Spread { servers: (delta + 1).min(servers), bytes_max }
}

/// The least size from `bytes` on, in whole stripes, such that pieces of it one after another begin on each
/// of the servers in turn. Readers of such pieces in step do not all stand before one server. Pieces shorter
/// than a stripe are left as they are.
pub fn rotating_bytes(bytes: u64, stripe_bytes: u64, servers: u64) -> u64 {
    let coprime = |count: &u64| {
        let (mut a, mut b) = (*count, servers);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let least = bytes / stripe_bytes;
    let stripes = (least..=least.saturating_add(servers)).find(|count| *count > 0 && coprime(count));
    match stripes {
        Some(stripes) if least > 0 => stripes.saturating_mul(stripe_bytes),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_one_after_another_begin_on_every_server() {
        assert_eq!(rotating_bytes(256 << 10, 64 << 10, 4), 320 << 10);
        assert_eq!(rotating_bytes(256 << 10, 64 << 10, 5), 256 << 10);
        assert_eq!(rotating_bytes(256 << 10, 64 << 10, 1), 256 << 10);
        assert_eq!(rotating_bytes(256 << 10, 1 << 20, 4), 256 << 10);
        for servers in 1..40 {
            let piece = rotating_bytes(256 << 10, 64 << 10, servers) / (64 << 10);
            let mut first: Vec<u64> = (0..servers).map(|k| k * piece % servers).collect();
            first.sort_unstable();
            assert_eq!(first, (0..servers).collect::<Vec<_>>());
        }
    }

    /// Counts stripe by stripe.
    fn counted(range: Range, stripe_bytes: u64, servers: u64) -> u64 {
        let mut load = vec![0; servers as usize];
        let mut at = range.offset;
        while at < range.end() {
            let stripe = at / stripe_bytes;
            let next = ((stripe + 1) * stripe_bytes).min(range.end());
            load[(stripe % servers) as usize] += next - at;
            at = next;
        }
        load.into_iter().max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]
        #[test]
        fn the_largest_sub_request_is_what_counting_stripes_gives(
            offset in 0u64..4_000, length in 1u64..6_000, stripe in 1u64..130, servers in 1u64..10,
            aligned in any::<bool>()
        ) {
            let length = if aligned { (offset + length).next_multiple_of(stripe) - offset } else { length };
            let range = Range::new(offset, length);
            prop_assert_eq!(spread(range, stripe, servers).bytes_max, counted(range, stripe, servers));
        }

        #[test]
        fn the_number_of_servers_is_exact_but_for_a_stripe_aligned_end(
            offset in 0u64..4_000, length in 1u64..6_000, stripe in 1u64..130, servers in 1u64..10
        ) {
            let range = Range::new(offset, length);
            let touched = ((range.end() - 1) / stripe - offset / stripe + 1).min(servers);
            let surplus = u64::from(range.end().is_multiple_of(stripe) && touched < servers);
            prop_assert_eq!(spread(range, stripe, servers).servers, touched + surplus);
        }
    }
}
