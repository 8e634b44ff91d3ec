//! The rules of spec/cluster.md that live in this crate, each by its name there. The checker drops one at a time;
//! nothing else can.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Messages of another view or incarnation count for nothing.
    OldView,
    /// A request of a thread that was ordered is not ordered again.
    NoIds,
    /// A thread's request that was answered is answered the same when it comes again.
    ToldAgain,
    /// What was promised to a new owner is not broken for an old one.
    NoPromise,
    /// Absence is called in before a commit is ordered.
    NoCallIn,
    /// A grant that a call overtook is asked for again.
    GrantOvertaken,
    /// The home's absence that a claim overtook is not taken.
    HoldsOvertaken,
    /// A record is shown once its writer has appended it.
    ShowEarly,
    /// A request that the own log has is answered from there.
    CommitTwice,
    /// A home lists the logs of those that are gone before it grants anything.
    ListLogs,
    /// A home hears all members before it grants anything.
    DeclareAll,
    /// What a member told a home in an earlier view does not count.
    ToldBefore,
    /// What lay below a record that is not durable is kept.
    KeepBelow,
    /// Absence is granted where nothing is mapped durably.
    AbsentUndurable,
    /// A claim sets all bits.
    ClaimNoBits,
    /// Threads that still write count as writers when absence is called in.
    NoWriters,
    /// A commit is refused where somebody writes the slow file.
    CommitInDirect,
    /// A member is out once its deadline has surely passed.
    GoneEarly,
    /// The deadline counts from the begin of the look at the register.
    RenewedAtEnd,
    /// The intent of a copy is durable before it begins.
    NoIntent,
    /// A barrier that ends past the deadline counts once the view shows that its log was not cut.
    BarrierLate,
    /// What a copy of an expelled member may still overwrite stays on flash.
    NoQuarantine,
    /// A copy counts if its record is still the newest.
    CopiedOld,
    /// A direct write waits for the copy under way.
    DirectInCopy,
    /// A copy that was made is not made again for a message that comes twice.
    CopyTwice,
    /// Who believes in an owner that there is not is told so.
    NotMine,
    /// A new agent goes on with the absence that it finds.
    NoAdoption,
    /// An owner that keeps the claim to its own member back answers nobody.
    AloneServes,
    /// A member has a file to itself once all others have answered the claim.
    AloneEarly,
    /// And if none of their threads still writes it.
    AloneWriters,
    /// Nobody writes the slow file below a record that is not shown: it is being made longer.
    DirectInLengthen,
    /// A claim is answered when no file is being made longer for a record of an older epoch.
    LengthInClaim,
    /// No record is ordered above one that its writer has not appended.
    LogOrder,
    /// A DROP stays while something is below it that is not durably forgotten.
    DropKept,
    /// What is not durably forgotten is told to who claims.
    ClaimForgotten,
    /// What was forgotten is not appended again for a message that comes again.
    OrderedAgain,
    /// A thread's last request is known though its record was forgotten.
    AnsweredKept,
    /// Reads of flash are called in before a place is free.
    ReadFreed,
    /// An answer to read flash that a call overtook is asked for again.
    ReadOvertaken,
    /// A file is not given up below a DROP that is not durable.
    ReleaseUndurable,
    /// A file is given up when nobody holds anything of it.
    ReleaseHeld,
    /// That a file was given up counts for the owner that the home knows.
    ReleaseAgain,
    /// After a file was given up, what its home says is newer than what it said before.
    ReleaseStamp,
    /// A new home does not hear of an owner that has given the file up.
    ReleaseDeclared,
    /// The log of a member that is out is needed while it has a DROP with something below.
    DismissDrop,
    /// The log of a member that is out is needed until the owners of all its files have said otherwise.
    DismissNamed,
}

/// Whether a rule holds.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn kept(_rule: Rule) -> bool {
    true
}

#[cfg(test)]
pub(crate) use dropping::{drop_rule, kept};

#[cfg(test)]
mod dropping {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static DROPPED: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Whether a rule holds: the checker drops one.
    pub(crate) fn kept(rule: Rule) -> bool {
        DROPPED.get() != Some(rule)
    }

    /// From now on, on this thread.
    pub(crate) fn drop_rule(rule: Option<Rule>) {
        DROPPED.set(rule);
    }
}
