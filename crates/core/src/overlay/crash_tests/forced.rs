//! Interleavings forced step by step.
