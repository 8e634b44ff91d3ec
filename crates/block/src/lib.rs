//! A volume: one disk and a slice of flash that never lose a byte together.
//!
//! To its users a volume is a disk with FLUSH, FUA, DISCARD and WRITE_ZEROES. Flash holds a **log**: writes
//! that the policy wants there are records of it and are acknowledged once written; write-back brings them to
//! the disk later, in the order of addresses.
//!
//! ```text
//!            requests (tag, READ | WRITE | ZERO | FLUSH)                       replies (tag, parts of buffers)
//!                      |                                                              ^
//!                 Engine (`engine`) <- Policy (`policy`): absorb or bypass? write back what?
//!                      |  orders (device, read | write | flush, range, parts)         | completions
//!                      v                                                              |
//!   disk: what its users wrote, its ends guarded        flash: superblocks, guard copy, checkpoints, log (`layout`)
//! ```
//!
//! **Data flow.** A write's bytes stay in the caller's buffer: the engine sees them once, for their
//! checksums, and orders name the buffers they are made of ([`Part`](order::Part)). A record is a header and
//! the payload of all writes that waited, in one order. The **map** ([`LogMap`](log_map::LogMap)) is the
//! replay of the records that have completed; a bit of each extent says whether the disk is as new. What the
//! disk holds though the log says otherwise is *owed*: after a disk FLUSH a CLEAN record may say so, or a
//! checkpoint leave it out. The **ring** (`Ring`) knows where each record lies and frees the
//! oldest. A **checkpoint** is the map as it was when nothing was in flight; the superblock written after it
//! says where replay begins.
//!
//! **Durable** means completed, then covered by a flush of that device that was given after the completion;
//! nothing else.
//!
//! A **start** is [`recovery::attach`]: an exhaustive table from what is found to what is done, in straight
//! lines over [`Devices`](devices::Devices), because nothing else goes on then. It yields
//! [`Recovered`](recovery::Recovered), which alone can become an `Engine`.
//!
//! **What of the client side fits.** The shape of the extent map does: places equal offsets modulo 4 KiB,
//! extents only shrink. Its entries do not: they say who used what when, and take sixteen bytes; a
//! `payload_map` has eight, because a ring has fewer than 2^32 blocks and an extent is part of one record.
//! Checksums lie beside it by block of the ring, and an extent's seq follows from its place. The journal does
//! not fit: it is appended to a file whose end is known and has payload elsewhere, while this one is a ring
//! on raw flash, payload inside, that has to tell a torn tail from damage. Nor does the flash space: a place
//! here is a function of seq.
//!
//! **Policy** ([`policy`]): which writes the log takes, what is read ahead to **staging** (clean
//! copies, named by no record), and who has the disk. Foreground orders, write-backs and fetches of the disk
//! go through one place, `Engine::pump_disk`.
//!
//! **Memory**: 8 bytes an extent, 12 where chunks are filled in no order; 4 a block of the ring, 16 a record;
//! `memory_per_gib_of_4_kib_writes_stays_below_8_mib` holds it.
//!
//! **Heads**: clean copies of the begins of segments, in slots behind the log; with LiU, which
//! also keeps segments in memory (`engine/loading.rs`), clean as well.
//!
//! **What a caller uses**
//!
//! | module | for |
//! |---|---|
//! | [`engine`] | a volume that serves: [`Engine`](engine::Engine), its settings |
//! | [`order`] | what an engine is asked, and what it asks for |
//! | [`recovery`] | create, attach, release; what is found at a start, why it is refused |
//! | [`devices`] | what a start needs of the two devices |
//! | [`superblock`], [`layout`], [`guard`] | who a volume is, where its things lie, what it hides of the disk |
//! | [`counters`] | what a status prints |
//! | [`log_map`], [`record`], [`checkpoint`] | what the log says: for `check`, `inspect` and the parsers' tests |
//!
//! **Not here**: devices, exports, the clock.
//! A write longer than a sector is not atomic, as on the bare disk.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod counters;
#[cfg(test)]
mod crash_tests;
pub mod devices;
pub mod engine;
mod fields;
#[cfg(test)]
mod format_tests;
pub mod guard;
mod heads;
pub mod layout;
pub mod log_map;
pub mod order;
mod payload_map;
mod piece;
pub mod record;
pub mod recovery;
mod ring;
mod snapshot;
mod staging;
pub mod superblock;
