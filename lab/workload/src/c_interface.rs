//! Patterns for C: `lab/bench/patterns` makes the requests that are described here.
//!
//! `lab/bench/patterns/workload.h` declares what is below; a test compiles it and compares. A workload is
//! made from a description, asked for its phases, and for what a rank does in one of them; a region is looked
//! up by its number. Nothing is shared behind the caller's back: each pointer that comes out belongs to the
//! caller until the function that frees it.

mod layout;

use std::ffi::c_char;
use std::sync::Arc;

use headstart_units::request::Direction;

pub use layout::{WorkloadDescription, WorkloadPhase, WorkloadPlan, WorkloadRegion};

use crate::description::Problem;
use crate::pattern::Pattern;
use crate::plan::Plan;

/// A pattern with its parameters; opaque to C.
pub struct Workload(Arc<dyn Pattern>);

/// What a rank does in a phase; opaque to C.
pub struct WorkloadRequests(Plan);

/// Writes what a description of that kind has without a word. False where there is no such kind.
///
/// # Safety
///
/// `description` points to a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_defaults(kind: i32, description: *mut WorkloadDescription) -> bool {
    let Some(defaults) = WorkloadDescription::defaults(kind) else { return false };
    // SAFETY: the caller gives a place for a description.
    unsafe { description.write(defaults) };
    true
}

/// A workload, or null with a text of at most `text_bytes`, the terminating zero with them, that says why not.
///
/// # Safety
///
/// `description` points to one; `text` to as many bytes as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_create(
    description: *const WorkloadDescription,
    text: *mut c_char,
    text_bytes: usize,
) -> *mut Workload {
    // SAFETY: the caller gives a description; every value of its fields is one that C can store there.
    let description = unsafe { &*description };
    match pattern(description) {
        Ok(pattern) => Box::into_raw(Box::new(Workload(pattern))),
        Err(problem) => {
            // SAFETY: the caller gives as many bytes.
            let text = unsafe { std::slice::from_raw_parts_mut(text, text_bytes) };
            write_text(text, &problem.to_string());
            std::ptr::null_mut()
        }
    }
}

fn pattern(description: &WorkloadDescription) -> Result<Arc<dyn Pattern>, Problem> {
    let (_, pattern) = description.description()?.job().expect("C describes single jobs");
    pattern
}

/// As much of it as fits, with a zero behind it.
fn write_text(place: &mut [c_char], text: &str) {
    let fits = place.len().saturating_sub(1).min(text.len());
    for (place, byte) in place.iter_mut().zip(text.as_bytes()[..fits].iter().chain([&0])) {
        *place = *byte as c_char;
    }
}

/// Gives a workload back.
///
/// # Safety
///
/// `workload` came from [`workload_create`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_free(workload: *mut Workload) {
    // SAFETY: it was made by `Box::into_raw` and the caller gives it up.
    drop(unsafe { Box::from_raw(workload) });
}

/// Ranks that take part.
///
/// # Safety
///
/// `workload` came from [`workload_create`]. The same holds of the functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_ranks(workload: *const Workload) -> u32 {
    // SAFETY: a workload, by the caller's word.
    unsafe { &*workload }.0.ranks()
}

/// Number of phases.
///
/// # Safety
///
/// See [`workload_ranks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_phases(workload: *const Workload) -> u32 {
    // SAFETY: a workload, by the caller's word.
    unsafe { &*workload }.0.phases().len() as u32
}

/// No request moves more bytes.
///
/// # Safety
///
/// See [`workload_ranks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_request_bytes_max(workload: *const Workload) -> u64 {
    // SAFETY: a workload, by the caller's word.
    unsafe { &*workload }.0.request_bytes_max()
}

/// A phase, by number.
///
/// # Safety
///
/// See [`workload_ranks`]; there is such a phase.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_phase(workload: *const Workload, number: u32) -> WorkloadPhase {
    // SAFETY: a workload, by the caller's word.
    let pattern = &unsafe { &*workload }.0;
    let phase = pattern.phases()[number as usize];
    let mut name = [0; 16];
    write_text(&mut name, phase.name);
    WorkloadPhase { name, rate: layout::number_of(pattern.rate()), writes: phase.direction == Direction::Write }
}

/// What a rank does in a phase; its figures go to `plan`.
///
/// # Safety
///
/// See [`workload_ranks`]; there is such a phase and such a rank, and `plan` points to a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_requests(
    workload: *const Workload,
    phase: u32,
    rank: u32,
    plan: *mut WorkloadPlan,
) -> *mut WorkloadRequests {
    // SAFETY: a workload, by the caller's word.
    let pattern = &unsafe { &*workload }.0;
    let made = pattern.plan(phase as usize, rank);
    let figures = WorkloadPlan {
        requests: made.requests(),
        region_count: made.region_count,
        regions_per_request: made.regions_per_request,
        period_bytes: made.period_bytes,
        window_count: made.window_count,
        requests_per_barrier: made.requests_per_barrier,
        file_bytes: pattern.file_bytes(),
        file: made.file,
        has_own_file: pattern.has_file_per_rank(),
        barrier_around_requests: made.barrier_around_requests,
    };
    // SAFETY: the caller gives a place for a plan.
    unsafe { plan.write(figures) };
    Box::into_raw(Box::new(WorkloadRequests(made)))
}

/// A region, by number: request `n` has the `regions_per_request` from `n` times as many on.
///
/// # Safety
///
/// `requests` came from [`workload_requests`], whose figures have such a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_region(requests: *const WorkloadRequests, number: u64) -> WorkloadRegion {
    // SAFETY: requests, by the caller's word.
    let range = unsafe { &*requests }.0.region(number);
    WorkloadRegion { offset: range.offset as i64, bytes: range.length as i64 }
}

/// Gives them back.
///
/// # Safety
///
/// `requests` came from [`workload_requests`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn workload_requests_free(requests: *mut WorkloadRequests) {
    // SAFETY: it was made by `Box::into_raw` and the caller gives it up.
    drop(unsafe { Box::from_raw(requests) });
}

#[cfg(test)]
mod tests;
