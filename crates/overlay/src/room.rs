//! Room on flash.

/// Whether there is room for a fetch.
pub(crate) enum Room {
    /// It has begun.
    Now,
    /// There will be after a barrier.
    AfterBarrier,
    /// Nothing else gives way.
    None,
}
