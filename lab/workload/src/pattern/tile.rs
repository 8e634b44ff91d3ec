//! mpi-tile-io. A dense two-dimensional dataset of elements, cut into nx * ny tiles of sx * sy elements that
//! may overlap their neighbours. Rank r has the tile in column r mod nx and row r div nx, and moves it in one
//! call through a file view, or row by row with `individual`. Ranks beyond nx * ny idle.
//!
//! ```text
//! width  = nx * sx - (nx - 1) * overlap_x                               (elements)
//! offset = header + element * ((tile_y * (sy - overlap_y) + row) * width + tile_x * (sx - overlap_x))
//! ```

use std::sync::Arc;

use headstart_units::request::Range;
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes, phases_of};
use crate::description::{Common, Operation, Problem, size};
use crate::plan::{Plan, Regions};
use crate::step::Phase;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Tile {
    /// Tiles across.
    pub nx: u64,
    /// Tiles down.
    pub ny: u64,
    /// Elements of a tile across.
    pub sx: u64,
    /// Elements of a tile down.
    pub sy: u64,
    /// Bytes of an element.
    #[serde(with = "size")]
    pub element: u64,
    /// Elements shared with the neighbour across.
    pub overlap_x: u64,
    /// Elements shared with the neighbour below.
    pub overlap_y: u64,
    /// Bytes before the dataset.
    #[serde(with = "size")]
    pub header: u64,
    /// One request per row instead of one for all.
    pub individual: bool,
}

impl Default for Tile {
    fn default() -> Tile {
        let (sx, sy) = (1024, 1024);
        Tile { nx: 1, ny: 1, sx, sy, element: 3, overlap_x: 0, overlap_y: 0, header: 0, individual: false }
    }
}

fn extent(tiles: u64, size: u64, overlap: u64) -> u64 {
    tiles * size - (tiles - 1) * overlap
}

impl Tile {
    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        if [self.nx, self.ny, self.sx, self.sy, self.element].contains(&0) {
            return Err(Problem::new("nx, ny, sx, sy and element must be above 0"));
        }
        if self.overlap_x >= self.sx || self.overlap_y >= self.sy {
            return Err(Problem::new("overlap-x must be below sx, and overlap-y below sy"));
        }
        let tiles = self.nx.saturating_mul(self.ny);
        if tiles > u64::from(common.ranks) {
            return Err(Problem::new(format!(
                "{tiles} tiles need as many ranks, there are {}; start more or lower nx or ny",
                common.ranks
            )));
        }
        let tile_bytes = self.sx.saturating_mul(self.element).saturating_mul(self.sy);
        check_file_bytes(tile_bytes.saturating_mul(tiles).saturating_add(self.header))?;
        Ok(Arc::new(TilePattern { tile: self.clone(), operation: common.operation }))
    }

    fn width(&self) -> u64 {
        extent(self.nx, self.sx, self.overlap_x)
    }
}

struct TilePattern {
    tile: Tile,
    operation: Operation,
}

struct Rows {
    first: u64,
    stride: u64,
    length: u64,
}

impl Regions for Rows {
    fn range(&self, row: u64) -> Range {
        Range { offset: self.first + row * self.stride, length: self.length }
    }
}

impl Pattern for TilePattern {
    fn ranks(&self) -> u32 {
        (self.tile.nx * self.tile.ny) as u32
    }

    fn phases(&self) -> Vec<Phase> {
        phases_of(self.operation)
    }

    fn plan(&self, _: usize, rank: u32) -> Plan {
        let tile = &self.tile;
        let first_x = u64::from(rank) % tile.nx * (tile.sx - tile.overlap_x);
        let first_y = u64::from(rank) / tile.nx * (tile.sy - tile.overlap_y);
        let rows = Rows {
            first: tile.header + tile.element * (first_y * tile.width() + first_x),
            stride: tile.element * tile.width(),
            length: tile.element * tile.sx,
        };
        Plan {
            regions_per_request: if tile.individual { 1 } else { tile.sy },
            period_bytes: self.file_bytes(),
            barrier_around_requests: true,
            ..Plan::new(Box::new(rows), tile.sy)
        }
    }

    fn file_bytes(&self) -> u64 {
        let height = extent(self.tile.ny, self.tile.sy, self.tile.overlap_y);
        self.tile.header + self.tile.element * self.tile.width() * height
    }

    fn request_bytes_max(&self) -> u64 {
        let row_bytes = self.tile.element * self.tile.sx;
        if self.tile.individual { row_bytes } else { row_bytes * self.tile.sy }
    }

    fn rate(&self) -> Rate {
        Rate::SlowestRequests
    }
}
