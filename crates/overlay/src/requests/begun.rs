//! What becomes of a request that has just come.

use crate::output::Answer;
use crate::parts::pending::Operation;

/// See the module.
pub(super) enum Begun {
    /// It is answered at once.
    Answered(Answer),
    /// It waits for its turn, and for what it needs.
    Waits(Operation),
    /// A direct write is over: it is answered once what was appended for it is stored.
    Ends,
}

impl Begun {
    /// The message broke the protocol.
    pub(super) fn refused(text: &str) -> Begun {
        Begun::Answered(Answer::protocol_error(text))
    }
}
