//! What a volume asks of its policy: which writes the log takes, what is written back and read ahead, and which class
//! of requests the disk serves now.
//!
//! | file | decides |
//! |---|---|
//! | `policy` | the trait, what the engine tells ([`Load`]) and what it is told ([`Turn`]) |
//! | `write_through`, `address_order` | nothing is absorbed; everything up to a size is |
//! | [`itransformer`] | iTransformer: what the log takes, whose turn it is at the disk, what is fetched ahead |
//! | [`liu`] | LiU: which segments are loaded, which heads are on flash |
//! | [`chain`] | both together, by one of the [`Names`](chain::Names) |
//! | [`segments`] | where segments and heads lie |

mod address_order;
pub mod chain;
pub mod itransformer;
pub mod liu;
mod names;
mod policy;
pub mod segments;
mod write_through;

pub use address_order::AddressOrder;
pub use chain::Chain;
pub use itransformer::ITransformer;
pub use policy::{Load, Policy, SegmentCounts, SegmentRead, Turn};
pub use write_through::WriteThrough;
