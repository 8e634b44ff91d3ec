//! Unmodified programs under Headstart: what they print, how they end and every byte they leave are those of
//! a run without it.
//!
//! A test runs shell scripts (`comparison.rs`); the programs written for it lie in `programs/sources`.
//! `docs/reference/programs.md` lists what is run and what each needs. `CASES=N` multiplies the sizes and modes of the
//! heavier ones.

#[path = "programs/bash.rs"]
mod bash;
#[path = "programs/comparison.rs"]
mod comparison;
#[path = "programs/compilers.rs"]
mod compilers;
#[path = "programs/copying.rs"]
mod copying;
#[path = "programs/files.rs"]
mod files;
#[path = "programs/fio.rs"]
mod fio;
#[path = "programs/git.rs"]
mod git;
#[path = "programs/hdf5.rs"]
mod hdf5;
#[path = "programs/languages.rs"]
mod languages;
#[path = "support/mounts.rs"]
mod mounts;
#[path = "programs/mpi.rs"]
mod mpi;
#[path = "programs/python.rs"]
mod python;
#[path = "support/site.rs"]
mod site;
#[path = "programs/sqlite.rs"]
mod sqlite;
#[path = "programs/testbed.rs"]
mod testbed;
#[path = "programs/unseen.rs"]
mod unseen;
