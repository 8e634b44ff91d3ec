//! Structures that C and Rust share.

use std::ffi::c_char;

use crate::description::{Common, Description, Job, Operation, Problem};
use crate::{Btio, Class, Hpio, Ior, Iozone, MpiIoTest, Order, Rate, Shape, Tile};

macro_rules! shared {
    ($(#[$doc:meta])* $name:ident, $c_name:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        #[cfg(test)]
        impl $name {
            /// What C calls it, its bytes, and its fields, each with place and bytes.
            pub fn layout() -> (&'static str, usize, Vec<(&'static str, usize, usize)>) {
                let fields = vec![$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>())),*];
                ($c_name, size_of::<$name>(), fields)
            }
        }
    };
}

shared! {
    /// The fields of all patterns side by side; each reads its own. Choices are numbered as in the lists below.
    WorkloadDescription, "workload_description" {
        kind: i32,
        ranks: u32,
        operation: i32,
        order: i32,
        shape: i32,
        class: i32,
        /// Bit n: test n.
        tests: u32,
        collective: bool,
        file_per_process: bool,
        single_region: bool,
        individual: bool,
        reorder_random: bool,
        theta: f64,
        seed: u64,
        transfer: u64,
        block: u64,
        segments: u64,
        requests: u64,
        shift_windows: u64,
        shift_first: u64,
        reorder_tasks: u64,
        iterations: u64,
        nx: u64,
        ny: u64,
        sx: u64,
        sy: u64,
        element: u64,
        overlap_x: u64,
        overlap_y: u64,
        header: u64,
        region_count: u64,
        region_size: u64,
        region_spacing: u64,
        grid: u64,
        dumps: u64,
        record: u64,
        file_size: u64,
    }
}

shared! {
    /// One timed pass.
    WorkloadPhase, "workload_phase" {
        name: [c_char; 16],
        rate: i32,
        writes: bool,
    }
}

shared! {
    /// The figures of what a rank does in a phase.
    WorkloadPlan, "workload_plan" {
        requests: u64,
        region_count: u64,
        regions_per_request: u64,
        period_bytes: u64,
        window_count: u64,
        requests_per_barrier: u64,
        file_bytes: u64,
        file: u32,
        has_own_file: bool,
        barrier_around_requests: bool,
    }
}

shared! {
    /// Bytes of a file.
    WorkloadRegion, "workload_region" {
        offset: i64,
        bytes: i64,
    }
}

pub const OPERATIONS: [Operation; 3] = [Operation::Write, Operation::Read, Operation::WriteRead];
pub const ORDERS: [Order; 5] =
    [Order::Seq, Order::PermOwnBlock, Order::UniformOwnBlock, Order::DealGlobal, Order::ZipfOwnBlock];
pub const SHAPES: [Shape; 4] = [Shape::CC, Shape::NcC, Shape::CNc, Shape::NcNc];
pub const CLASSES: [Class; 7] = [Class::S, Class::W, Class::A, Class::B, Class::C, Class::D, Class::E];
pub const RATES: [Rate; 4] = [Rate::OpenToClose, Rate::SlowestRequests, Rate::MeanOfRanks, Rate::SumOfRanks];

/// One of each kind, as it is without a word.
fn kinds() -> [Description; 6] {
    fn job<P: Default>() -> Job<P> {
        Job { common: Common::new(1), pattern: P::default() }
    }
    [
        Description::Ior(job::<Ior>()),
        Description::MpiIoTest(job::<MpiIoTest>()),
        Description::Tile(job::<Tile>()),
        Description::Hpio(job::<Hpio>()),
        Description::Btio(job::<Btio>()),
        Description::Iozone(job::<Iozone>()),
    ]
}

/// The number of a rate.
pub fn number_of(rate: Rate) -> i32 {
    position(&RATES, &rate)
}

fn position<T: PartialEq>(choices: &[T], choice: &T) -> i32 {
    choices.iter().position(|candidate| candidate == choice).expect("the list has every choice") as i32
}

fn choice<T: Copy>(choices: &[T], number: i32, name: &str) -> Result<T, Problem> {
    let found = usize::try_from(number).ok().and_then(|number| choices.get(number));
    found.copied().ok_or_else(|| Problem::new(format!("there is no {name} {number}")))
}

impl WorkloadDescription {
    /// What a description of that kind has without a word.
    pub fn defaults(kind: i32) -> Option<WorkloadDescription> {
        let description = kinds().into_iter().nth(usize::try_from(kind).ok()?)?;
        let mut all = WorkloadDescription { kind, ..WorkloadDescription::default() };
        let common = match description {
            Description::Ior(Job { common, pattern: ior }) => {
                all = WorkloadDescription { order: position(&ORDERS, &ior.order), theta: ior.theta, ..all };
                (all.transfer, all.block, all.segments, all.requests) =
                    (ior.transfer, ior.block, ior.segments, ior.requests);
                (all.shift_windows, all.shift_first) = (ior.shift_windows, ior.shift_first);
                (all.file_per_process, all.reorder_tasks) = (ior.file_per_process, ior.reorder_tasks);
                all.reorder_random = ior.reorder_random;
                common
            }
            Description::MpiIoTest(Job { common, pattern: test }) => {
                (all.block, all.iterations) = (test.block, test.iterations);
                (all.file_per_process, all.single_region) = (test.file_per_process, test.single_region);
                common
            }
            Description::Tile(Job { common, pattern: tile }) => {
                (all.nx, all.ny, all.sx, all.sy, all.element) = (tile.nx, tile.ny, tile.sx, tile.sy, tile.element);
                (all.overlap_x, all.overlap_y, all.header) = (tile.overlap_x, tile.overlap_y, tile.header);
                all.individual = tile.individual;
                common
            }
            Description::Hpio(Job { common, pattern: hpio }) => {
                (all.region_count, all.region_size) = (hpio.region_count, hpio.region_size);
                (all.region_spacing, all.individual) = (hpio.region_spacing, hpio.individual);
                all.shape = position(&SHAPES, &hpio.shape);
                common
            }
            Description::Btio(Job { common, pattern: btio }) => {
                (all.class, all.grid, all.dumps) = (position(&CLASSES, &btio.class), btio.grid, btio.dumps);
                common
            }
            Description::Iozone(Job { common, pattern: iozone }) => {
                all.tests = iozone.tests.iter().fold(0, |bits, test| bits | 1 << test);
                (all.record, all.file_size) = (iozone.record, iozone.file_size);
                common
            }
            Description::Sequence(_) | Description::Repeat(_) => return None,
        };
        (all.ranks, all.operation) = (common.ranks, position(&OPERATIONS, &common.operation));
        (all.seed, all.collective) = (common.seed, common.collective);
        Some(all)
    }

    /// The same as TOML would have it.
    pub fn description(&self) -> Result<Description, Problem> {
        let operation = choice(&OPERATIONS, self.operation, "operation")?;
        let common = Common { operation, collective: self.collective, seed: self.seed, ..Common::new(self.ranks) };
        let pattern = choice(&[0, 1, 2, 3, 4, 5], self.kind, "pattern")?;
        Ok(match pattern {
            0 => Description::Ior(Job { common, pattern: self.ior()? }),
            1 => Description::MpiIoTest(Job { common, pattern: self.mpi_io_test() }),
            2 => Description::Tile(Job { common, pattern: self.tile() }),
            3 => Description::Hpio(Job { common, pattern: self.hpio()? }),
            4 => {
                let class = choice(&CLASSES, self.class, "class")?;
                Description::Btio(Job { common, pattern: Btio { class, grid: self.grid, dumps: self.dumps } })
            }
            _ => {
                let tests = (0..32).filter(|test| self.tests >> test & 1 == 1).collect();
                let pattern = Iozone { tests, record: self.record, file_size: self.file_size };
                Description::Iozone(Job { common, pattern })
            }
        })
    }

    fn ior(&self) -> Result<Ior, Problem> {
        Ok(Ior {
            transfer: self.transfer,
            block: self.block,
            segments: self.segments,
            order: choice(&ORDERS, self.order, "order")?,
            theta: self.theta,
            requests: self.requests,
            shift_windows: self.shift_windows,
            shift_first: self.shift_first,
            file_per_process: self.file_per_process,
            reorder_tasks: self.reorder_tasks,
            reorder_random: self.reorder_random,
        })
    }

    fn mpi_io_test(&self) -> MpiIoTest {
        MpiIoTest {
            block: self.block,
            iterations: self.iterations,
            file_per_process: self.file_per_process,
            single_region: self.single_region,
        }
    }

    fn tile(&self) -> Tile {
        Tile {
            nx: self.nx,
            ny: self.ny,
            sx: self.sx,
            sy: self.sy,
            element: self.element,
            overlap_x: self.overlap_x,
            overlap_y: self.overlap_y,
            header: self.header,
            individual: self.individual,
        }
    }

    fn hpio(&self) -> Result<Hpio, Problem> {
        Ok(Hpio {
            region_count: self.region_count,
            region_size: self.region_size,
            region_spacing: self.region_spacing,
            shape: choice(&SHAPES, self.shape, "pattern of memory and file")?,
            individual: self.individual,
        })
    }
}
