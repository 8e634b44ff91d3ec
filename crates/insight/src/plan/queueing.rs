//! Programs that wait for each other at servers: a closed queueing network in which every rank is one customer.
//!
//! Mean value analysis (M. Reiser, S. S. Lavenberg, J. ACM 27, 1980, in the fixed-point form of P.
//! Schweitzer): who arrives at a server finds there what the *others* have there on average. Of the one in
//! service an arrival waits for what is left, which for service times that vary little is about half of it. A
//! request that is cut over several servers visits them at the same time and takes as long as the longest of
//! its visits.

/// What one rank asks of one server over its whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Visits {
    /// How many.
    pub count: f64,
    /// Mean service time, seconds.
    pub service_s: f64,
    /// Waiting for how much of a visit delays the rank: less than all where visits of one request overlap.
    pub share: f64,
}

/// One rank, or several that are alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Customer {
    /// How many ranks it stands for; all else is of one of them.
    pub alike: f64,
    /// From when on it is there, seconds.
    pub begin_s: f64,
    /// Time it spends neither waiting nor served, seconds.
    pub outside_s: f64,
    /// Its visits to each server.
    pub visits: Vec<Visits>,
}

/// A steady state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// How long each customer takes for all it does, seconds.
    pub total_s: Vec<f64>,
    /// Mean wait of each customer at each server, seconds.
    pub wait_s: Vec<Vec<f64>>,
}

/// Rounds of the fixed point at most, and the change at which it ends.
const ROUNDS_MAX: usize = 200;
const CHANGE_MIN: f64 = 1e-6;

/// Steps in which the longest of the remaining runs is followed.
const STEPS: f64 = 64.0;

/// The steady state of customers of whom each is there for `presence` of the time. `variation` is the
/// variance of service times over their squared mean, at each server.
pub(crate) fn solve(customers: &[&Customer], presence: &[f64], variation: &[f64]) -> State {
    let mut total_s: Vec<f64> = customers.iter().map(|customer| customer.alone_s()).collect();
    let mut wait_s = vec![vec![0.0; variation.len()]; customers.len()];
    for _ in 0..ROUNDS_MAX {
        // What an arrival finds of each customer at each server, as time until it is served; and of all.
        let found = |index: usize, server: usize| {
            let Visits { count, service_s, .. } = customers[index].visits[server];
            let busy = presence[index] * count * service_s / total_s[index].max(f64::MIN_POSITIVE);
            busy * (wait_s[index][server] + service_s * (1.0 + variation[server]) / 2.0)
        };
        let own: Vec<Vec<f64>> = (0..customers.len())
            .map(|index| (0..variation.len()).map(|server| found(index, server)).collect())
            .collect();
        let sum = |server: usize| own.iter().zip(customers).map(|(own, customer)| own[server] * customer.alike).sum();
        let all: Vec<f64> = (0..variation.len()).map(sum).collect();
        let mut change = 0.0f64;
        for (index, customer) in customers.iter().enumerate() {
            for (server, wait) in wait_s[index].iter_mut().enumerate() {
                // Half of the way, as the whole way overshoots at busy servers.
                *wait = (*wait + (all[server] - own[index][server]).max(0.0)) / 2.0;
            }
            let delayed = customer.visits.iter().zip(&wait_s[index]).map(|(v, wait)| v.count * v.share * wait);
            let now_s = customer.alone_s() + delayed.sum::<f64>();
            change = change.max((now_s - total_s[index]).abs() / now_s.max(f64::MIN_POSITIVE));
            total_s[index] = now_s;
        }
        if change < CHANGE_MIN {
            break;
        }
    }
    State { total_s, wait_s }
}

/// When the last of the customers is done, seconds: each works evenly from its begin to its end, and who is
/// done waits at no server.
pub(crate) fn finish_s(customers: &[Customer], variation: &[f64]) -> f64 {
    let mut left: Vec<f64> = vec![1.0; customers.len()];
    let mut now_s = customers.iter().map(|customer| customer.begin_s).fold(f64::INFINITY, f64::min);
    let mut last_s = 0.0f64;
    while left.iter().any(|left| *left > 0.0) {
        let there: Vec<usize> =
            (0..customers.len()).filter(|index| left[*index] > 0.0 && customers[*index].begin_s <= now_s).collect();
        let later = |index: &usize| customers[*index].begin_s > now_s;
        let next_s =
            (0..customers.len()).filter(later).map(|index| customers[index].begin_s).fold(f64::INFINITY, f64::min);
        if there.is_empty() {
            now_s = next_s;
            continue;
        }
        let present: Vec<&Customer> = there.iter().map(|index| &customers[*index]).collect();
        let state = solve(&present, &vec![1.0; there.len()], variation);
        let rest: Vec<f64> = there.iter().zip(&state.total_s).map(|(index, total)| left[*index] * total).collect();
        let (first, longest) = rest.iter().fold((f64::INFINITY, 0.0f64), |(a, b), rest| (a.min(*rest), b.max(*rest)));
        let step_s = first.max(longest / STEPS).min(next_s - now_s);
        for ((index, rest), total) in there.iter().zip(&rest).zip(&state.total_s) {
            if *rest <= step_s {
                left[*index] = 0.0;
                last_s = last_s.max(now_s + rest);
            } else {
                left[*index] -= step_s / total;
            }
        }
        now_s += step_s;
    }
    last_s
}

impl Customer {
    /// How long it takes when nobody else is there.
    fn alone_s(&self) -> f64 {
        self.outside_s + self.visits.iter().map(|visits| visits.count * visits.share * visits.service_s).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customer(servers: usize, count: f64, service_s: f64) -> Customer {
        let visits = Visits { count: count / servers as f64, service_s, share: 1.0 };
        Customer { alike: 1.0, begin_s: 0.0, outside_s: 0.0, visits: vec![visits; servers] }
    }

    #[test]
    fn exponential_servers_give_the_closed_form() {
        // P customers at N alike servers: a request takes s (N + P - 1) / N.
        for customers in [1, 4, 16, 64] {
            let found = finish_s(&vec![customer(8, 1000.0, 0.010); customers], &[1.0; 8]);
            let expected = 10.0 * (7 + customers) as f64 / 8.0;
            assert!((found / expected - 1.0).abs() < 0.02, "{customers}: {found} {expected}");
        }
    }

    #[test]
    fn one_customer_waits_for_nobody_and_constant_service_halves_the_wait_of_few() {
        assert!((finish_s(&[customer(4, 100.0, 0.010)], &[0.0; 4]) - 1.0).abs() < 1e-9);
        let rare = Customer { outside_s: 10.0, ..customer(1, 100.0, 0.010) };
        let wait = |variation| solve(&[&rare, &rare], &[1.0; 2], &[variation]).wait_s[0][0];
        assert!((wait(0.0) / wait(1.0) - 0.5).abs() < 0.01);
    }

    #[test]
    fn a_server_that_gets_everything_is_the_bound() {
        let mut uneven = customer(2, 100.0, 0.010);
        uneven.visits[0].count = 100.0;
        uneven.visits[1].count = 0.0;
        let found = finish_s(&vec![uneven; 16], &[0.3; 2]);
        assert!((found / 16.0 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn who_is_done_no_longer_delays_the_others() {
        let (short, long) = (customer(1, 100.0, 0.010), customer(1, 300.0, 0.010));
        // Both until the short one is done after about 2 s, then 2 s of the long one alone.
        let found = finish_s(&[short, long], &[1.0]);
        assert!((found - 4.0).abs() < 0.2, "{found}");
    }

    #[test]
    fn customers_that_come_one_after_the_other_do_not_meet() {
        let later = Customer { begin_s: 5.0, ..customer(1, 100.0, 0.010) };
        assert!((finish_s(&[customer(1, 100.0, 0.010), later], &[1.0]) - 6.0).abs() < 1e-9);
        assert_eq!(finish_s(&[], &[]), 0.0);
    }

    #[test]
    fn one_customer_stands_for_as_many_as_are_like_it() {
        let apart = finish_s(&vec![customer(4, 300.0, 0.010); 12], &[0.5; 4]);
        let together = finish_s(&[Customer { alike: 12.0, ..customer(4, 300.0, 0.010) }], &[0.5; 4]);
        assert!((together / apart - 1.0).abs() < 1e-6, "{together} {apart}");
    }

    #[test]
    fn visits_of_one_request_to_several_servers_overlap() {
        let mut wide = customer(4, 400.0, 0.010);
        wide.visits.iter_mut().for_each(|visits| visits.share = 0.25);
        assert!((finish_s(&[wide], &[0.0; 4]) - 1.0).abs() < 1e-9);
    }
}
