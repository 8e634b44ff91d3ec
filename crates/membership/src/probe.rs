//! Whether two nodes may share a directory: the joiner's side.
//!
//! A node that joins tries with a member what the cluster rests on, in files of their own, each way round. Both do the
//! same [acts](hands::Act): the joiner its own by itself, the member's by asking it, over whatever connection they have.
//! Every check that fails is a [`Finding`], which says in words what to do.
//!
//! | check | tier | what rests on it |
//! |---|---|---|
//! | both see the same files, under the same inode numbers | both | identity of files |
//! | a lock of one is refused to the other, until it is given up | both | what locks say of a member |
//! | bytes that one wrote are what the other reads, whatever it had cached; halves of a page survive each other | both | every read after a call-in |
//! | sizes likewise | both | appends and truncation |
//! | names likewise, also those that were absent | both | register, renames |
//! | hard links, exclusive | fast | the register in files |

mod checks;
mod finding;
mod hands;

use std::path::Path;

pub use finding::{Finding, Problem, Remedy, Tier};
pub use hands::{Act, Action, Answer, Hands};

use crate::envelope::{fresh_nonce, hexadecimal};
use crate::error::Result;
use crate::presence::Places;

/// Which of the two does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Joiner,
    Member,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Joiner { Side::Member } else { Side::Joiner }
    }
}

/// Both nodes.
pub(crate) struct Pair<'a> {
    own: Hands,
    ask: &'a mut dyn FnMut(Act) -> std::result::Result<Answer, String>,
    tier: Tier,
    nonce: String,
    /// Which way round, from one; zero before.
    way: u8,
}

impl Pair<'_> {
    /// One of the two does it to this probe's file of that name.
    fn act(&mut self, side: Side, name: &str, action: Action) -> std::result::Result<Answer, Problem> {
        let act = Act { tier: self.tier, name: self.named(name), action };
        match side {
            Side::Joiner => Ok(self.own.act(act)),
            Side::Member => (self.ask)(act).map_err(Problem::NoAnswer),
        }
    }

    /// The name of a file of this probe.
    fn named(&self, name: &str) -> String {
        format!("{}.{}.{name}", self.nonce, self.way)
    }
}

/// Probes both directories with `member`, which `ask` asks; it answers by [`Hands::act`]. Nothing found: they may be
/// shared. `links` tells whether the register is in files, which needs links and locks; in etcd it needs neither.
pub fn run(
    places: &Places,
    member: &str,
    links_and_locks: bool,
    ask: &mut dyn FnMut(Act) -> std::result::Result<Answer, String>,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for tier in [Tier::Fast, Tier::Slow] {
        let nonce = hexadecimal(&fresh_nonce()?);
        let mut pair = Pair { own: Hands::new(places)?, ask, tier, nonce, way: 0 };
        let path: &Path = if tier == Tier::Fast { places.fast() } else { places.slow() };
        for problem in checks::all(&mut pair, links_and_locks) {
            findings.push(Finding::new(tier, path, member, problem));
        }
    }
    Ok(findings)
}
