//! Which files of the program are managed, and what each of its descriptors is.
//!
//! ```text
//! descriptors   what each number means           opening     open and its kin
//! records       one record a file                closing     close, dup, fcntl
//! data_files    data files on flash              arrivals    descriptors that appear by other calls
//! regions       which regions belong on flash    decisions   what the policies want of a request
//! bypass        files that are used unseen       ring_state  ... as an io_uring does
//! write_back    files made whole for others      reopening   at an agent that was started anew
//! untold        files whose path is too long
//! ```

pub(crate) mod arrivals;
pub(crate) mod bypass;
pub(crate) mod closing;
pub(crate) mod data_files;
pub(crate) mod decisions;
pub(crate) mod descriptors;
pub(crate) mod opening;
pub(crate) mod records;
pub(crate) mod regions;
pub(crate) mod reopening;
pub(crate) mod ring_state;
pub(crate) mod untold;
pub(crate) mod write_back;
