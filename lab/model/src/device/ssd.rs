//! Solid-state devices in two forms: streams for flash behind one host interface, channels for NVMe.
//!
//! *Streams*: a command of n bytes takes t0 + n / B, up to k commands at a time, and all of them share the device's
//! total bandwidth. *Channels*: a read goes to the dies its pages lie on; a write is acknowledged from the buffer,
//! which empties at the rate at which all dies together program. Acknowledged writes are safe in both forms (power-loss
//! protection, or a figure measured with it), so a flush costs nothing.
//!
//! Not modelled: garbage collection beyond a constant write amplification, reads delayed by programs (dies
//! suspend them).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headstart_units::{KIB, Nanos};

use super::{Command, Device, DeviceStats, Finished};
use crate::request::Operation;

/// Cost of one direction of a stream device: t0 + n / B per command, n / cap of the shared bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamCost {
    /// Start-up time t0 of a command.
    pub startup: Nanos,
    /// B, one command's rate.
    pub stream_bytes_per_s: f64,
    /// The rate all commands of the direction share.
    pub total_bytes_per_s: f64,
}

/// How a solid-state device spends time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SsdForm {
    /// The reduced form, effective figures as a file server sees them.
    Streams {
        /// k, commands served at a time.
        parallel_count: usize,
        /// Cost of reads.
        read: StreamCost,
        /// Cost of writes.
        write: StreamCost,
    },
    /// The channel-parallel form.
    Channels {
        /// Dies that work independently.
        die_count: usize,
        /// Bytes of a flash page.
        page_bytes: u64,
        /// t_R, time to sense a page.
        page_read: Nanos,
        /// t_P, time to program a page.
        page_program: Nanos,
        /// Rate of a die's channel.
        channel_bytes_per_s: f64,
        /// Rate of the host link, each way.
        link_bytes_per_s: f64,
        /// t_ctl of a read.
        read_control: Nanos,
        /// t_ctl of a write.
        write_control: Nanos,
        /// W_r, programs per page of random writes; sequential writes have 1.
        random_write_amplification: f64,
        /// Bytes acknowledged and not yet programmed.
        buffer_bytes: u64,
    },
}

/// A solid-state device's data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdConfig {
    /// How it spends time.
    pub form: SsdForm,
    /// Size of the medium.
    pub capacity_bytes: u64,
}

/// Commands an NVMe device takes at once here; the protocol allows far more.
const NVME_QUEUE_DEPTH: usize = 256;
/// A write of at least this size programs whole rows and counts as sequential (assumed).
const SEQUENTIAL_WRITE_BYTES: u64 = 128 * KIB;

/// A solid-state device.
#[derive(Debug)]
pub struct Ssd {
    config: SsdConfig,
    under_way: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    sequence: u64,
    /// Streams: when the shared bus is free, reads and writes. Channels: the host link.
    bus_free: [Nanos; 2],
    dies_free: Vec<Nanos>,
    /// When everything in the write buffer is programmed.
    buffer_empty: Nanos,
    previous_write_end: u64,
    previous_end: u64,
    busy_until: Nanos,
    stats: DeviceStats,
}

fn bytes_at(bytes: u64, bytes_per_s: f64) -> Nanos {
    Nanos::from_seconds(bytes as f64 / bytes_per_s)
}

impl Ssd {
    /// An idle device.
    pub fn new(config: SsdConfig) -> Ssd {
        let die_count = match config.form {
            SsdForm::Streams { .. } => 0,
            SsdForm::Channels { die_count, .. } => die_count,
        };
        Ssd {
            config,
            under_way: BinaryHeap::new(),
            sequence: 0,
            bus_free: [Nanos::ZERO; 2],
            dies_free: vec![Nanos::ZERO; die_count],
            buffer_empty: Nanos::ZERO,
            previous_write_end: u64::MAX,
            previous_end: 0,
            busy_until: Nanos::ZERO,
            stats: DeviceStats::default(),
        }
    }

    fn finish_time(&mut self, now: Nanos, command: &Command) -> Nanos {
        match (self.config.form, command.operation) {
            (_, Operation::Flush) => now,
            (SsdForm::Streams { read, .. }, Operation::Read) => self.stream(now, command.length, 0, read),
            (SsdForm::Streams { write, .. }, Operation::Write) => self.stream(now, command.length, 1, write),
            (SsdForm::Channels { .. }, Operation::Read) => self.read_pages(now, command),
            (SsdForm::Channels { .. }, Operation::Write) => self.write_buffer(now, command),
        }
    }

    fn stream(&mut self, now: Nanos, length: u64, direction: usize, cost: StreamCost) -> Nanos {
        let started = now + cost.startup;
        let bus_end = self.bus_free[direction].max(started) + bytes_at(length, cost.total_bytes_per_s);
        self.bus_free[direction] = bus_end;
        bus_end.max(started + bytes_at(length, cost.stream_bytes_per_s))
    }

    fn read_pages(&mut self, now: Nanos, command: &Command) -> Nanos {
        let SsdForm::Channels { page_bytes, page_read, channel_bytes_per_s, link_bytes_per_s, read_control, .. } =
            self.config.form
        else {
            unreachable!("a stream device has no pages")
        };
        let issued = now + read_control;
        let mut sensed = issued;
        let mut address = command.address;
        while address < command.end() {
            let page = address / page_bytes;
            let piece = ((page + 1) * page_bytes).min(command.end()) - address;
            let die = (page % self.dies_free.len() as u64) as usize;
            let end = self.dies_free[die].max(issued) + page_read + bytes_at(piece, channel_bytes_per_s);
            self.dies_free[die] = end;
            sensed = sensed.max(end);
            address += piece;
        }
        // The link carries pages as they come; the last byte leaves after the slower of dies and link.
        let link = bytes_at(command.length, link_bytes_per_s);
        let link_end = self.bus_free[0].max(issued) + link;
        self.bus_free[0] = link_end;
        link_end.max(sensed + bytes_at(command.length.min(page_bytes), link_bytes_per_s))
    }

    fn write_buffer(&mut self, now: Nanos, command: &Command) -> Nanos {
        let SsdForm::Channels {
            die_count,
            page_bytes,
            page_program,
            link_bytes_per_s,
            write_control,
            random_write_amplification,
            buffer_bytes,
            ..
        } = self.config.form
        else {
            unreachable!("a stream device has no write buffer")
        };
        let link_end = self.bus_free[1].max(now) + bytes_at(command.length, link_bytes_per_s);
        self.bus_free[1] = link_end;
        let sequential = command.address == self.previous_write_end || command.length >= SEQUENTIAL_WRITE_BYTES;
        self.previous_write_end = command.end();
        let amplification = if sequential { 1.0 } else { random_write_amplification };
        let program_bytes_per_s = (die_count as u64 * page_bytes) as f64 / page_program.seconds() / amplification;
        let received = link_end + write_control;
        self.buffer_empty = self.buffer_empty.max(received) + bytes_at(command.length, program_bytes_per_s);
        received.max(Nanos(self.buffer_empty.0.saturating_sub(bytes_at(buffer_bytes, program_bytes_per_s).0)))
    }
}

impl Device for Ssd {
    fn queue_depth(&self) -> usize {
        match self.config.form {
            SsdForm::Streams { parallel_count, .. } => parallel_count,
            SsdForm::Channels { .. } => NVME_QUEUE_DEPTH,
        }
    }

    fn on_command(&mut self, now: Nanos, command: Command) {
        let at = self.finish_time(now, &command);
        self.under_way.push(Reverse((at, self.sequence, command.tag)));
        self.sequence += 1;
        if command.operation != Operation::Flush {
            self.stats.commands += 1;
            self.stats.distance_bytes += command.address.abs_diff(self.previous_end);
            self.previous_end = command.end();
        }
        self.stats.busy_ns += at.since(self.busy_until.max(now)).0;
        self.busy_until = self.busy_until.max(at);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.under_way.peek().map(|Reverse((at, ..))| *at)
    }

    fn on_timer(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while let Some(&Reverse((at, _, tag))) = self.under_way.peek() {
            if at > now {
                return;
            }
            self.under_way.pop();
            finished.push(Finished { tag, at });
        }
    }

    fn capacity_bytes(&self) -> Option<u64> {
        Some(self.config.capacity_bytes)
    }

    fn stats(&self, now: Nanos) -> DeviceStats {
        let ahead = self.busy_until.since(now).0;
        DeviceStats { busy_ns: self.stats.busy_ns.saturating_sub(ahead), ..self.stats }
    }
}
