//! The checkpoint that is being made, and whether one is wanted.

use crate::checkpoint::Encoder;
use crate::superblock::Superblock;

/// How far the checkpoint is.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    /// None is being made.
    #[default]
    Idle,
    /// What is in flight completes; nothing is appended.
    Draining,
    /// The map goes to its area, so many bytes by now.
    Writing { draft: Draft, written: u64 },
    /// Waits for this flush of flash: for the area, and every record before.
    Settling { draft: Draft, ticket: u64 },
    /// The superblock is written.
    Superblock { draft: Draft, place: Place },
    /// Waits for this flush of flash: for the superblock.
    Sealing { draft: Draft, place: Place, ticket: u64 },
}

/// What is being written: the map as it was, and the superblock that follows it.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub encoder: Box<Encoder>,
    pub next: Box<Superblock>,
}

/// Which place of superblocks a new one is written to: where the older of the two lies, and when it is
/// durable there the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Second,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    stage: Stage,
    wanted: bool,
}

impl Checkpoints {
    /// One is wanted if `why`, or was before.
    pub(super) fn want(&mut self, why: bool) {
        self.wanted |= why;
    }

    /// Whether one is.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The wish is granted.
    pub(super) fn take_wish(&mut self) {
        self.wanted = false;
    }

    /// Takes the stage, to put the next one in its place; idle until then.
    pub(super) fn take_stage(&mut self) -> Stage {
        std::mem::take(&mut self.stage)
    }

    /// The stage is this one now.
    pub(super) fn set_stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// How far it is.
    #[cfg(test)]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Whether none is being made.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// Whether nothing may be appended.
    pub(super) fn hold_log(&self) -> bool {
        matches!(self.stage, Stage::Draining)
    }

    /// Whether CLEANs rest on it that no record says.
    pub(super) fn hold_cleans(&self) -> bool {
        match &self.stage {
            Stage::Idle | Stage::Draining => false,
            Stage::Writing { draft, .. }
            | Stage::Settling { draft, .. }
            | Stage::Superblock { draft, .. }
            | Stage::Sealing { draft, .. } => !draft.encoder.skipped().is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::superblock;
    use super::*;
    use crate::heads::Heads;
    use headstart_policy::server::segments::Segments;
    use headstart_units::ranges::Ranges;
    use headstart_units::request::Range;

    #[test]
    fn a_checkpoint_holds_the_log_while_it_drains_and_the_cleans_that_it_leaves_out_from_then_on() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.want(true);
        checkpoints.want(false);
        assert!(checkpoints.is_wanted() && checkpoints.is_idle());
        checkpoints.take_wish();
        checkpoints.set_stage(Stage::Draining);
        assert!(checkpoints.hold_log() && !checkpoints.hold_cleans() && !checkpoints.is_wanted());
        let mut skipped = Ranges::default();
        skipped.raise(Range::new(0, 512), 3);
        let encoder = Box::new(Encoder::new(skipped, &Heads::default()));
        let draft = Draft { encoder, next: Box::new(superblock(1 << 20, Segments::default())) };
        checkpoints.set_stage(Stage::Settling { draft, ticket: 1 });
        assert!(!checkpoints.hold_log() && checkpoints.hold_cleans());
        assert!(matches!(checkpoints.take_stage(), Stage::Settling { .. }) && checkpoints.is_idle());
    }
}
