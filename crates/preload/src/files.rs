//! Which files of the program are managed, and what each of its descriptors is.
//!
//! ```text
//! descriptors   what each number means           opening     open and its kin
//! records       one record a file                closing     close, dup, fcntl
//! data_files    data files on flash              arrivals    descriptors that appear by other calls
//! regions       which regions belong on flash
//! ```

pub mod arrivals;
pub mod closing;
pub mod data_files;
pub mod descriptors;
pub mod opening;
pub mod records;
pub mod regions;
