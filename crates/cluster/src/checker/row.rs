//! A case to search: how many of everything, which faults, which rule is left out.

use crate::rules::Rule;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A write that the policy wants on flash.
    Absorb,
    /// One that it does not want.
    Direct,
    Read,
    Sync,
}

/// Rules that what lies around the machines has to keep, which the checker can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slip {
    /// Threads do not look at the deadline after a kernel call or an answer.
    NoDeadline,
    /// The log of a member that is out is read to the end that it has by then.
    NoCut,
    /// Bytes that would be lost with their node count without a question whether it lives.
    NoAlive,
    /// The same of the slow file's.
    NoAliveDisk,
    /// A barrier does not sync the slow file.
    NoSlowSync,
    /// A barrier does not sync data files.
    NoDataSync,
    /// Reads of the slow file count although the generation has changed.
    NoGeneration,
    /// The same of flash.
    NoGenerationFlash,
    /// A new agent takes intents for copies that have ended.
    CopiesForgotten,
    /// A member is said to be quiet while it may still copy.
    QuietEarly,
    /// A claim is answered before the removal of what was on flash is durable.
    LeaveUndurable,
    /// A new agent begins while a slow file is made longer for the one before.
    LengthenLate,
    /// A file leaves flash while a thread of the node writes it.
    LeaveInDirect,
    /// A member is left out whose threads have no deadline, and whose node lives.
    LeftUnarmed,
    /// A node that goes on in the place of all members overwrites the view.
    NotSwapped,
}

/// What a member does with a file that it alone uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// It claims the file from itself as from others.
    Never,
    /// It keeps that claim back, and answers it with what it has.
    Keeps,
    /// The same, but the file leaves flash before any claim is answered, and others absorb nothing.
    Leaves,
}

/// How often things may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) absorbs: u8,
    pub(super) directs: u8,
    pub(super) reads: u8,
    pub(super) syncs: u8,
    pub(super) backs: u8,
    /// How often agents try to own a file.
    pub(super) owns: u8,
    pub(super) agents: u8,
    pub(super) nodes: u8,
    pub(super) expels: u8,
    pub(super) losses: u8,
    pub(super) doubles: u8,
    /// Barriers of agents by themselves.
    pub(super) barriers: u8,
    /// Files given up.
    pub(super) releases: u8,
    /// Members that go by their own word.
    pub(super) departures: u8,
    /// Logs of members that are out taken out of the view.
    pub(super) dismissals: u8,
}

impl Budget {
    pub(super) const NONE: Budget = Budget {
        absorbs: 0,
        directs: 0,
        reads: 0,
        syncs: 0,
        backs: 0,
        agents: 0,
        nodes: 0,
        expels: 0,
        losses: 0,
        doubles: 0,
        owns: 0,
        barriers: 0,
        releases: 0,
        departures: 0,
        dismissals: 0,
    };
}

/// A case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) members: u8,
    pub(super) files: u8,
    /// Blocks of each file.
    pub(super) blocks: u8,
    /// Places of each node's data file.
    pub(super) places: u8,
    /// Whatever is appended is synced at once.
    pub(super) prompt: bool,
    pub(super) budget: Budget,
    /// Time passes.
    pub(super) timed: bool,
    /// Looks at the membership service take time.
    pub(super) slow_looks: bool,
    /// What a member does with a file that it alone uses.
    pub(super) alone: Alone,
    /// Slow files are made long enough for what is absorbed.
    pub(super) lengthens: bool,
    /// The last node joins later.
    pub(super) joins: bool,
    /// So many of the last nodes come later, and go on in the place of all members where those are gone.
    pub(super) newcomers: u8,
    /// The first member is alone, and has no deadline before it sees that others came.
    pub(super) unarmed: bool,
    /// What a node's thread may do.
    pub(super) may: fn(u8, Kind) -> bool,
    /// Nodes that may be killed, or their agents, and that may be expelled alive, as bits.
    pub(super) victims: (u8, u8),
    pub(super) dropped: Option<Rule>,
    pub(super) slip: Option<Slip>,
}

impl Row {
    /// How many of the last nodes come later.
    pub(super) fn outside(&self) -> u8 {
        self.newcomers.max(u8::from(self.joins))
    }

    pub(super) const fn new(name: &'static str, members: u8, budget: Budget) -> Row {
        Row {
            name,
            members,
            files: 1,
            blocks: 1,
            places: 4,
            prompt: false,
            budget,
            timed: budget.expels > 0 || budget.nodes > 0 || budget.departures > 0,
            slow_looks: false,
            alone: Alone::Never,
            lengthens: false,
            joins: false,
            newcomers: 0,
            unarmed: false,
            may: |_, _| true,
            victims: (u8::MAX, u8::MAX),
            dropped: None,
            slip: None,
        }
    }
}
