//! Which files of the program are managed, and what each of its descriptors is.
//!
//! ```text
//! descriptors   what each number means           opening     open and its kin
//! records       one record a file                closing     close, dup, fcntl
//! data_files    data files on flash              arrivals    descriptors that appear by other calls
//! regions       which regions belong on flash
//! ```

pub(crate) mod arrivals;
pub(crate) mod closing;
pub(crate) mod data_files;
pub(crate) mod descriptors;
pub(crate) mod opening;
pub(crate) mod records;
pub(crate) mod regions;
