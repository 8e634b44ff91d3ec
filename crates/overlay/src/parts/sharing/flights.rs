//! What was asked of owners for requests that wait here, and what was told.

use std::collections::{BTreeMap, BTreeSet};

use headstart_cluster::{Answer, RequestId};
use headstart_units::request::Range;

/// How far a question has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// Nothing was told.
    Asked,
    /// Told of a first part.
    Told(Range, Answer),
    /// It is asked anew at the next poll.
    Later,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// By the arrival of the request.
    flights: BTreeMap<u64, (RequestId, Flight)>,
    arrivals: BTreeMap<RequestId, u64>,
    /// Names in use of questions that are no thread's.
    borrowed: BTreeSet<u32>,
    /// Leaves to write that were asked for by threads that are gone: the file's number.
    orphans: BTreeMap<RequestId, u32>,
}

impl Flights {
    /// How far the question of a request has come; none if nothing was asked.
    pub(crate) fn get(&self, arrival: u64) -> Option<(RequestId, Flight)> {
        self.flights.get(&arrival).copied()
    }

    /// A question is asked for a request.
    pub(crate) fn begin(&mut self, arrival: u64, id: RequestId) {
        self.end(arrival);
        self.flights.insert(arrival, (id, Flight::Asked));
        self.arrivals.insert(id, arrival);
    }

    /// Something was told. The request that it is for; none if it waits no longer.
    pub(crate) fn tell(&mut self, id: RequestId, part: Range, answer: Answer) -> Option<u64> {
        let arrival = self.arrivals.get(&id).copied()?;
        let flight = if answer == Answer::Again { Flight::Later } else { Flight::Told(part, answer) };
        self.flights.insert(arrival, (id, flight));
        Some(arrival)
    }

    /// The request that a question is asked for.
    pub(crate) fn arrival(&self, id: RequestId) -> Option<u64> {
        self.arrivals.get(&id).copied()
    }

    /// The thread of the request is gone, which asked for leave to write the file.
    pub(crate) fn abandon(&mut self, arrival: u64, number: u32) {
        if let Some((id, Flight::Asked)) = self.get(arrival) {
            self.orphans.insert(id, number);
        }
        self.end(arrival);
    }

    /// The file for which it was asked, once it is told.
    pub(crate) fn take_orphan(&mut self, id: RequestId) -> Option<u32> {
        self.orphans.remove(&id)
    }

    /// It is asked anew at the next poll.
    pub(crate) fn put_off(&mut self, arrival: u64) {
        if let Some((_, flight)) = self.flights.get_mut(&arrival) {
            *flight = Flight::Later;
        }
    }

    /// Nothing is asked for the request any more.
    pub(crate) fn end(&mut self, arrival: u64) {
        if let Some((id, _)) = self.flights.remove(&arrival) {
            self.arrivals.remove(&id);
            self.borrowed.remove(&id.slot);
        }
    }

    /// What was put off is asked anew. Whether there was any.
    pub(crate) fn ask_anew(&mut self) -> bool {
        let later: Vec<u64> =
            self.flights.iter().filter(|(_, (_, flight))| *flight == Flight::Later).map(|(at, _)| *at).collect();
        later.iter().for_each(|arrival| self.end(*arrival));
        !later.is_empty()
    }

    /// Whether something is put off, of which no message tells.
    pub(crate) fn any_later(&self) -> bool {
        self.flights.values().any(|(_, flight)| *flight == Flight::Later)
    }

    /// A name for a question that is no thread's: the lowest of those above `first` that is free.
    pub(crate) fn borrow(&mut self, first: u32) -> u32 {
        let name = (first..).find(|name| !self.borrowed.contains(name)).expect("few questions are asked at once");
        self.borrowed.insert(name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_reaches_the_request_that_asked_last_and_what_is_put_off_is_asked_anew() {
        let mut flights = Flights::default();
        let id = |seq| RequestId { slot: 8, seq };
        let (part, answer) = (Range::new(0, 10), Answer::Go);
        flights.begin(3, id(2));
        flights.begin(3, id(4));
        assert_eq!((flights.tell(id(2), part, answer), flights.tell(id(4), part, answer)), (None, Some(3)));
        assert_eq!(flights.get(3), Some((id(4), Flight::Told(part, answer))));
        flights.tell(id(4), part, Answer::Again);
        assert!(flights.any_later() && flights.ask_anew() && !flights.ask_anew());
        assert_eq!((flights.get(3), flights.arrival(id(4))), (None, None));
        let names = [flights.borrow(100), flights.borrow(100)];
        flights.begin(5, RequestId { slot: names[0], seq: 1 });
        flights.end(5);
        assert_eq!((names, flights.borrow(100)), ([100, 101], 100));
    }
}
