//! What the event loop counts: requests by kind with their times, and operations by device.

use std::time::Duration;

use hdrhistogram::Histogram;
use headstart_block::devices::Device;
use headstart_block::order::{Action, Order};

use crate::block::Request;
use crate::status::{DeviceStatus, RequestStatus, Requests};

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// DISCARD and WRITE_ZEROES.
    Zero,
    /// FLUSH.
    Flush,
}

/// The kind of a request, and its bytes.
pub(super) fn kind(request: &Request) -> (Kind, u64) {
    match request {
        Request::Read(range) => (Kind::Read, range.length),
        Request::Write { data, .. } => (Kind::Write, data.len() as u64),
        Request::Zero { range, .. } => (Kind::Zero, range.length),
        Request::Flush => (Kind::Flush, 0),
    }
}

#[derive(Debug)]
struct Times {
    requests: u64,
    bytes: u64,
    failed: u64,
    /// Microseconds.
    times: Histogram<u64>,
}

impl Times {
    fn new() -> Times {
        // Up to an hour, with two digits.
        let times = Histogram::new_with_max(3_600_000_000, 2).expect("the bounds of a histogram are sound");
        Times { requests: 0, bytes: 0, failed: 0, times }
    }

    fn status(&self) -> RequestStatus {
        let seconds = |microseconds: u64| microseconds as f64 * 1e-6;
        RequestStatus {
            requests_total: self.requests,
            bytes_total: self.bytes,
            failed_total: self.failed,
            p50_seconds: seconds(self.times.value_at_quantile(0.5)),
            p99_seconds: seconds(self.times.value_at_quantile(0.99)),
            max_seconds: seconds(self.times.max()),
        }
    }
}

/// The figures.
#[derive(Debug)]
pub(super) struct Figures {
    kinds: [Times; 4],
    devices: [DeviceStatus; 2],
}

impl Figures {
    /// Of devices with these names and sizes, disk and flash.
    pub(super) fn new(devices: [DeviceStatus; 2]) -> Figures {
        Figures { kinds: std::array::from_fn(|_| Times::new()), devices }
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, kind: Kind, bytes: u64, time: Duration, ok: bool) {
        let kind = &mut self.kinds[kind as usize];
        kind.requests += 1;
        kind.bytes += bytes;
        kind.failed += u64::from(!ok);
        kind.times.saturating_record(time.as_micros() as u64);
    }

    /// An order was given.
    pub(super) fn ordered(&mut self, order: &Order) {
        let device = &mut self.devices[order.device as usize];
        match order.action {
            Action::Read => {
                device.reads_total += 1;
                device.read_bytes_total += order.length;
            }
            Action::Write(_) => {
                device.writes_total += 1;
                device.written_bytes_total += order.length;
            }
            Action::Zero => {
                device.zeros_total += 1;
                device.zeroed_bytes_total += order.length;
            }
            Action::Flush => device.flushes_total += 1,
        }
    }

    /// An order failed.
    pub(super) fn failed(&mut self, device: Device) {
        self.devices[device as usize].errors_total += 1;
    }

    /// Requests as a status has them.
    pub(super) fn requests(&self) -> Requests {
        let [read, write, zero, flush] = std::array::from_fn(|kind| self.kinds[kind].status());
        Requests { read, write, zero, flush }
    }

    /// A device as a status has it.
    pub(super) fn device(&self, device: Device, failed: bool) -> DeviceStatus {
        DeviceStatus { failed, ..self.devices[device as usize].clone() }
    }
}
