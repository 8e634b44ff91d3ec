//! Epochs: one more with each start of an agent. A journal, a list and what was given up name theirs.

/// Last epoch that an agent can have: one more with each start, no journal comes near it. Whatever claims to
/// be later would leave none to the next agent.
pub(crate) const EPOCH_MAX: u64 = 1 << 62;
