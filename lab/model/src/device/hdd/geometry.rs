//! Where bytes lie on a disk and how long the arm and the spindle take to reach them.
//!
//! Zones of equally many cylinders; the track size falls linearly from the outer diameter to the inner. Addresses run
//! cylinder by cylinder, surface by surface. Each track starts later than the one before by the time of the switch
//! between them (skew), so streaming loses exactly that time per track: rate = track / (T_rev + t_switch).

use std::cell::RefCell;
use std::sync::Arc;

use headstart_units::Nanos;

/// Zones of every profile.
const ZONES: usize = 16;
/// Nanoseconds in a minute: a spindle makes a whole number of turns in it.
const MINUTE_NS: u64 = 60_000_000_000;

/// Mechanics of a drive; symbols as in the service time t_cmd + seek + rotation + transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mechanics {
    /// Spindle speed.
    pub turns_per_minute: u64,
    /// Recording surfaces.
    pub surface_count: u64,
    /// Nominal size; the layout meets it within a cylinder per zone.
    pub capacity_bytes: u64,
    /// Smallest unit of a track.
    pub sector_bytes: u64,
    /// Sustained rate of the outermost zone, switches included.
    pub outer_bytes_per_s: f64,
    /// Track size at the inner diameter over that at the outer.
    pub inner_ratio: f64,
    /// Time to switch to the next surface.
    pub head_switch: Nanos,
    /// Time to switch to the next cylinder while streaming.
    pub cylinder_switch: Nanos,
    /// α of the seek curve α + β·√d, d in cylinders.
    pub seek_alpha_ns: f64,
    /// β of the seek curve, per √cylinder.
    pub seek_beta_ns: f64,
    /// d0, beyond which a seek takes γ + ε·d with γ from continuity.
    pub seek_knee_cylinders: u64,
    /// ε of the seek curve, per cylinder.
    pub seek_epsilon_ns: f64,
    /// t_wsettle, before a write if arm or head moved.
    pub write_settle: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    start: u64,
    track_bytes: u64,
    ns_per_byte: f64,
    sustained_ns_per_byte: f64,
}

/// A place on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Location {
    /// Fraction of a turn at which the byte passes the head.
    pub angle: f64,
    /// Cylinder, from the outside.
    pub cylinder: u32,
    /// Surface.
    pub head: u16,
    zone: u16,
    in_track: u32,
}

/// What is behind the point of a number that is not negative. `f64::fract` is a call on processors of the baseline.
fn fraction(number: f64) -> f64 {
    number - (number as i64) as f64
}

/// The nearest nanosecond to a time that is not negative; `f64::round` is such a call, too.
pub(super) fn rounded(ns: f64) -> Nanos {
    Nanos((ns + 0.5) as u64)
}

/// What all drives of one kind have in common.
#[derive(Debug)]
struct Layout {
    mechanics: Mechanics,
    zones: [Zone; ZONES],
    cylinders_per_zone: u64,
    capacity_bytes: u64,
    turn_ns: f64,
    seek_gamma_ns: f64,
}

/// The layout of one drive, and where its spindle stands. A thousand drives of one kind share what they have
/// in common, so that it stays in the processor's caches.
#[derive(Clone, Debug)]
pub struct Geometry {
    layout: Arc<Layout>,
    phase_ns: u64,
}

thread_local! {
    /// The layout that was made last: drives are mostly made in a row, and alike.
    static LAST: RefCell<Option<Arc<Layout>>> = const { RefCell::new(None) };
}

impl Layout {
    fn of(mechanics: Mechanics) -> Arc<Layout> {
        let last = LAST.with_borrow(|last| last.clone().filter(|last| last.mechanics == mechanics));
        last.unwrap_or_else(|| {
            let made = Arc::new(Layout::new(mechanics));
            LAST.set(Some(Arc::clone(&made)));
            made
        })
    }

    fn new(mechanics: Mechanics) -> Layout {
        let turn_ns = MINUTE_NS as f64 / mechanics.turns_per_minute as f64;
        let surfaces = mechanics.surface_count as f64;
        let switch_ns =
            (mechanics.head_switch.0 as f64 * (surfaces - 1.0) + mechanics.cylinder_switch.0 as f64) / surfaces;
        let outer_track = mechanics.outer_bytes_per_s * (turn_ns + switch_ns) * 1e-9;
        let middle = |zone: usize| 1.0 - (1.0 - mechanics.inner_ratio) * (zone as f64 + 0.5) / ZONES as f64;
        let ratios: [f64; ZONES] = std::array::from_fn(|zone| middle(zone) / middle(0));
        let mean_ratio = ratios.iter().sum::<f64>() / ZONES as f64;
        let cylinders = (mechanics.capacity_bytes as f64 / (outer_track * mean_ratio * surfaces)) as u64;
        let cylinders_per_zone = cylinders / ZONES as u64;
        let fits = cylinders <= u32::MAX.into()
            && mechanics.surface_count <= u16::MAX.into()
            && outer_track * ratios[0] < f64::from(u32::MAX);
        assert!(fits, "a drive whose places a Location cannot tell: {cylinders} cylinders of {mechanics:?}");
        let mut start = 0;
        let zones = ratios.map(|ratio| {
            let sectors = (outer_track * ratio / mechanics.sector_bytes as f64).round() as u64;
            let track_bytes = sectors * mechanics.sector_bytes;
            let zone = Zone {
                start,
                track_bytes,
                ns_per_byte: turn_ns / track_bytes as f64,
                sustained_ns_per_byte: (turn_ns + switch_ns) / track_bytes as f64,
            };
            start += track_bytes * mechanics.surface_count * cylinders_per_zone;
            zone
        });
        let knee = mechanics.seek_knee_cylinders as f64;
        Layout {
            seek_gamma_ns: mechanics.seek_alpha_ns + mechanics.seek_beta_ns * knee.sqrt()
                - mechanics.seek_epsilon_ns * knee,
            zones,
            cylinders_per_zone,
            capacity_bytes: start,
            turn_ns,
            mechanics,
        }
    }

    fn zone_of(&self, address: u64) -> usize {
        self.zones.partition_point(|zone| zone.start <= address) - 1
    }
}

impl Geometry {
    /// Lays out a drive; `phase` sets where its spindle stands at time zero.
    pub fn new(mechanics: Mechanics, phase: u64) -> Geometry {
        Geometry { layout: Layout::of(mechanics), phase_ns: phase % MINUTE_NS }
    }

    /// Bytes the layout holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.layout.capacity_bytes
    }

    /// Cylinders of the layout.
    pub fn cylinder_count(&self) -> u64 {
        self.layout.cylinders_per_zone * ZONES as u64
    }

    /// Bytes of a track in the outermost and innermost zone.
    pub fn track_bytes(&self) -> (u64, u64) {
        (self.layout.zones[0].track_bytes, self.layout.zones[ZONES - 1].track_bytes)
    }

    /// T_rev in nanoseconds.
    pub fn turn_ns(&self) -> f64 {
        self.layout.turn_ns
    }

    /// Time to move the arm by `cylinders`.
    pub fn seek_ns(&self, cylinders: u64) -> f64 {
        let distance = cylinders as f64;
        if cylinders == 0 {
            0.0
        } else if cylinders <= self.layout.mechanics.seek_knee_cylinders {
            self.layout.mechanics.seek_alpha_ns + self.layout.mechanics.seek_beta_ns * distance.sqrt()
        } else {
            self.layout.seek_gamma_ns + self.layout.mechanics.seek_epsilon_ns * distance
        }
    }

    /// Where the byte at `address` (modulo the capacity) lies.
    pub fn locate(&self, address: u64) -> Location {
        let Layout { mechanics, zones, cylinders_per_zone, capacity_bytes, turn_ns, .. } = &*self.layout;
        let address = address % capacity_bytes;
        let zone = self.layout.zone_of(address);
        let track_bytes = zones[zone].track_bytes;
        let in_zone = address - zones[zone].start;
        let (track, in_track) = (in_zone / track_bytes, in_zone % track_bytes);
        let cylinder_switches = track / mechanics.surface_count;
        let head_switches = track - cylinder_switches;
        let skew_ns = head_switches * mechanics.head_switch.0 + cylinder_switches * mechanics.cylinder_switch.0;
        Location {
            angle: fraction(skew_ns as f64 / turn_ns + in_track as f64 / track_bytes as f64),
            cylinder: (zone as u64 * cylinders_per_zone + cylinder_switches) as u32,
            head: (track % mechanics.surface_count) as u16,
            zone: zone as u16,
            in_track: in_track as u32,
        }
    }

    /// Seek, settle and rotational wait from `from` to `to` if the arm starts when the spindle stands at `turn`.
    pub fn position_ns(&self, from: &Location, to: &Location, turn: f64, write: bool) -> f64 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let mut arm_ns = self.seek_ns(distance.into());
        if distance == 0 && from.head != to.head {
            arm_ns = self.layout.mechanics.head_switch.0 as f64;
        }
        if write && arm_ns > 0.0 {
            arm_ns += self.layout.mechanics.write_settle.0 as f64;
        }
        let turn_at_arrival = fraction(turn + arm_ns / self.layout.turn_ns);
        let wait = to.angle - turn_at_arrival;
        arm_ns + (if wait < 0.0 { wait + 1.0 } else { wait }) * self.layout.turn_ns
    }

    /// Fraction of a turn the spindle stands at. Exact for any time, since a minute holds whole turns.
    pub fn turn_at(&self, now: Nanos) -> f64 {
        let in_minute = (now.0 % MINUTE_NS + self.phase_ns) % MINUTE_NS;
        (in_minute * self.layout.mechanics.turns_per_minute % MINUTE_NS) as f64 / MINUTE_NS as f64
    }

    /// Time to move `length` bytes from `from` once the head is there, switches included, and where the head ends: at
    /// the last byte, or just past it if the track goes on.
    pub fn transfer_ns(&self, from: Location, address: u64, length: u64) -> (f64, Location) {
        let mut at = from;
        let (mut address, mut left, mut total_ns) = (address % self.layout.capacity_bytes, length, 0.0);
        loop {
            let zone = &self.layout.zones[usize::from(at.zone)];
            let piece = left.min(zone.track_bytes - u64::from(at.in_track));
            total_ns += piece as f64 * zone.ns_per_byte;
            left -= piece;
            address += piece;
            if left == 0 {
                return (total_ns, at);
            }
            let next = self.locate(address);
            total_ns += self.switch_ns(&at, &next);
            at = next;
        }
    }

    /// Time lost between the end of one transfer and the very next byte: a switch if that lies on another track.
    pub fn switch_ns(&self, from: &Location, to: &Location) -> f64 {
        if from.cylinder != to.cylinder {
            self.layout.mechanics.cylinder_switch.0 as f64
        } else if from.head != to.head {
            self.layout.mechanics.head_switch.0 as f64
        } else {
            0.0
        }
    }

    /// Mean time per byte of a long transfer at `address`, switches included.
    pub fn sustained_ns_per_byte(&self, address: u64) -> f64 {
        let address = address % self.layout.capacity_bytes;
        let zone = self.layout.zone_of(address);
        self.layout.zones[zone].sustained_ns_per_byte
    }
}
