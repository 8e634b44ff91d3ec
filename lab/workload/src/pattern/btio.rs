//! NPB BTIO. A cube of grid^3 points of 40 bytes, written whole in every dump, dump after dump. The ranks
//! that take part are a square p * p; each has p cells of the p^3 that the cube is cut into, placed along a
//! diagonal (multipartition):
//!
//! ```text
//! cell 0 of rank r: (i, j, k) = (r mod p, r div p, 0);  cell c: i + 1, j - 1 (both modulo p), k = c
//! ```
//!
//! Independent: one request per row of points along x ("simple"). Collective: one call per dump for all of
//! them ("full"). A barrier before each dump stands for the exchange between solver steps. The benchmark
//! reads the dumps back only to verify them, outside the time that it reports: here that is a phase of its
//! own.

use std::sync::Arc;

use headstart_units::request::Range;
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes, phases_of};
use crate::description::{Common, Operation, Problem};
use crate::plan::{Plan, Regions};
use crate::step::Phase;

/// Grid and number of dumps (steps / write interval of 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Class {
    #[default]
    S,
    W,
    A,
    B,
    C,
    D,
    E,
}

impl Class {
    /// Points along an edge of the cube, and dumps.
    fn grid_and_dumps(self) -> (u64, u64) {
        match self {
            Class::S => (12, 12),
            Class::W => (24, 40),
            Class::A => (64, 40),
            Class::B => (102, 40),
            Class::C => (162, 40),
            Class::D => (408, 50),
            Class::E => (1020, 50),
        }
    }
}

/// Its parameters. A collective job is the subtype "full", any other "simple".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Btio {
    /// Grid and dumps.
    pub class: Class,
    /// Points along an edge instead of the class's; 0: the class's.
    pub grid: u64,
    /// Dumps instead of the class's; 0: the class's.
    pub dumps: u64,
}

/// Five doubles.
const POINT_BYTES: u64 = 5 * 8;

impl Btio {
    fn grid(&self) -> u64 {
        if self.grid > 0 { self.grid } else { self.class.grid_and_dumps().0 }
    }

    fn dumps(&self) -> u64 {
        if self.dumps > 0 { self.dumps } else { self.class.grid_and_dumps().1 }
    }

    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        let edge = common.ranks.isqrt();
        let grid = self.grid();
        if grid < u64::from(edge) {
            return Err(Problem::new(format!("grid must be at least {edge} for {} ranks", edge * edge)));
        }
        let dump_bytes = POINT_BYTES.saturating_mul(grid).saturating_mul(grid).saturating_mul(grid);
        check_file_bytes(dump_bytes.saturating_mul(self.dumps()))?;
        let is_full = common.collective;
        Ok(Arc::new(BtioPattern { grid, dumps: self.dumps(), edge, is_full, operation: common.operation }))
    }
}

struct BtioPattern {
    grid: u64,
    dumps: u64,
    /// p.
    edge: u32,
    is_full: bool,
    operation: Operation,
}

/// The points of one dimension that a cell covers.
#[derive(Clone, Copy)]
struct Span {
    low: u64,
    size: u64,
}

fn span(grid: u64, cells: u64, index: u64) -> Span {
    let (quotient, remainder) = (grid / cells, grid % cells);
    Span { low: index * quotient + index.min(remainder), size: quotient + u64::from(index < remainder) }
}

struct Cell {
    /// Number of the cell's first row among all rows of the rank.
    row_first: u64,
    x: Span,
    y: Span,
    z: Span,
}

/// The rows of a rank in one dump.
struct Rows {
    grid: u64,
    cells: Vec<Cell>,
}

impl Regions for Rows {
    fn range(&self, index: u64) -> Range {
        let cell = &self.cells[self.cells.partition_point(|cell| cell.row_first <= index) - 1];
        let row = index - cell.row_first;
        let (z, y) = (cell.z.low + row / cell.y.size, cell.y.low + row % cell.y.size);
        let point = cell.x.low + self.grid * (y + self.grid * z);
        Range { offset: POINT_BYTES * point, length: POINT_BYTES * cell.x.size }
    }
}

impl Pattern for BtioPattern {
    fn ranks(&self) -> u32 {
        self.edge * self.edge
    }

    fn phases(&self) -> Vec<Phase> {
        phases_of(self.operation)
    }

    fn plan(&self, _: usize, rank: u32) -> Plan {
        let (edge, rank) = (u64::from(self.edge), u64::from(rank));
        let (mut rows, mut cells) = (0, Vec::new());
        for k in 0..edge {
            let (i, j) = ((rank % edge + k) % edge, (rank / edge + edge - k) % edge);
            let [x, y, z] = [i, j, k].map(|index| span(self.grid, edge, index));
            cells.push(Cell { row_first: rows, x, y, z });
            rows += y.size * z.size;
        }
        let regions_per_request = if self.is_full { rows } else { 1 };
        Plan {
            regions_per_request,
            period_count: self.dumps,
            period_bytes: POINT_BYTES * self.grid.pow(3),
            requests_per_barrier: rows / regions_per_request,
            ..Plan::new(Box::new(Rows { grid: self.grid, cells }), rows)
        }
    }

    fn file_bytes(&self) -> u64 {
        POINT_BYTES * self.grid.pow(3) * self.dumps
    }

    fn request_bytes_max(&self) -> u64 {
        let longest = self.grid.div_ceil(u64::from(self.edge));
        POINT_BYTES * longest * if self.is_full { u64::from(self.edge) * longest * longest } else { 1 }
    }

    fn rate(&self) -> Rate {
        Rate::MeanOfRanks
    }
}
