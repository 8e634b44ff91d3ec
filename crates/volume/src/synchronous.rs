//! An engine whose orders are carried out at once, one request after the other: for detaching, where nothing
//! else goes on.

use std::collections::BTreeMap;

use headstart_block::devices::Devices;
use headstart_block::engine::Engine;
use headstart_block::order::{Action, Error, Order, OrderId, Output, Part, Request};
use headstart_policy::server::Policy;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// An engine and its devices.
pub struct Synchronous<'a, D, P> {
    devices: &'a mut D,
    engine: Engine<P>,
    /// What reads have filled, until the engine releases it.
    buffers: BTreeMap<OrderId, Vec<u8>>,
}

impl<'a, D: Devices, P: Policy> Synchronous<'a, D, P> {
    /// Drives an engine on these devices.
    pub fn new(devices: &'a mut D, engine: Engine<P>) -> Synchronous<'a, D, P> {
        Synchronous { devices, engine, buffers: BTreeMap::new() }
    }

    /// Carries a request out; a read's bytes, for others nothing.
    pub fn request(&mut self, request: Request<'_>) -> Result<Vec<u8>, Error> {
        let data = match request {
            Request::Write { data, .. } => data,
            Request::Read(_) | Request::Zero { .. } | Request::Flush => &[],
        };
        self.engine.on_request(Nanos::ZERO, 0, request);
        self.run(data).expect("a request is answered when nothing is under way")
    }

    /// Writes everything back that can be; the engine as it is then.
    pub fn drain(mut self) -> Engine<P> {
        self.engine.stop(Nanos::ZERO, false);
        self.run(&[]);
        assert!(self.engine.has_stopped(), "an engine stops when nothing is under way");
        self.engine
    }

    /// Carries out orders until there are none; the reply that came, if one did.
    fn run(&mut self, data: &[u8]) -> Option<Result<Vec<u8>, Error>> {
        let mut answer = None;
        loop {
            let outputs = self.engine.take_outputs();
            if outputs.is_empty() {
                return answer;
            }
            for output in outputs {
                match output {
                    Output::Order(order) => self.carry_out(&order, data),
                    Output::Release(order) => drop(self.buffers.remove(&order)),
                    // Its data are there until `run` returns.
                    Output::Reply { result, .. } => answer = Some(result.map(|parts| self.gather(&parts, data))),
                }
            }
        }
    }

    fn carry_out(&mut self, order: &Order, data: &[u8]) {
        let mut filled = Vec::new();
        let done = match &order.action {
            Action::Read => {
                filled.resize(order.length as usize, 0);
                let read = self.devices.read(order.device, order.offset, &mut filled);
                order.transform(&mut filled);
                read
            }
            Action::Write(parts) => {
                let mut bytes = self.gather(parts, data);
                order.transform(&mut bytes);
                self.devices.write(order.device, order.offset, &bytes)
            }
            Action::Zero => self.devices.zero(order.device, Range::new(order.offset, order.length)),
            Action::Flush => self.devices.flush(order.device),
        };
        self.engine.on_completion(Nanos::ZERO, order.id, done.map(|()| &filled[..]).map_err(|_| ()));
        if order.action == Action::Read {
            self.buffers.insert(order.id, filled);
        }
    }

    fn gather(&self, parts: &[Part], data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(own) => bytes.extend_from_slice(own),
                Part::Zeros(length) => bytes.resize(bytes.len() + *length as usize, 0),
                Part::Request { offset, length, .. } => {
                    bytes.extend_from_slice(&data[*offset as usize..(offset + length) as usize]);
                }
                Part::Buffer { order, offset, length } => {
                    let held = self.buffers.get(order).expect("a buffer is held until it is released");
                    bytes.extend_from_slice(&held[*offset as usize..(offset + length) as usize]);
                }
            }
        }
        bytes
    }
}
