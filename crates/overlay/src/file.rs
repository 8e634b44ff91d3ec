//! One known file: its parts, each with private fields, and what several of them say together.

pub(crate) mod length;
pub(crate) mod looks;
pub(crate) mod names;
pub(crate) mod placed;
pub(crate) mod users;

use self::length::Length;
use self::looks::Looks;
use self::names::Names;
use self::placed::Placed;
use self::users::Users;
use crate::extent_map::ExtentMap;
use crate::journal::Identity;
use crate::sooner::Sooner;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct File {
    identity: Identity,
    /// What it is called.
    pub(crate) names: Names,
    /// Who uses it.
    pub(crate) users: Users,
    /// How long it is.
    pub(crate) length: Length,
    /// What the journal says of the slow file.
    pub(crate) looks: Looks,
    /// Which regions of it belong on flash.
    pub(crate) placed: Placed,
    /// What of it is on flash.
    pub(crate) map: ExtentMap,
    /// How much of that the disk does not have.
    pub(crate) dirty_bytes: u64,
    /// What its last write-back failed with; nothing is written back until somebody asks for it again.
    pub(crate) write_back_error: Option<i32>,
    /// A write-back wrote the slow file since this agent knows it.
    pub(crate) written_back: bool,
    /// The data file that new bytes of it go to.
    pub(crate) data_file: Option<u32>,
    /// Opens are answered once this barrier has ended.
    pub(crate) open_barrier: u64,
    /// Which side answers reads sooner.
    pub(crate) sooner: Sooner,
}

impl File {
    /// A file that nobody uses, with nothing on flash.
    pub(crate) fn new(identity: Identity, path: Vec<u8>, size: u64) -> File {
        File {
            identity,
            names: Names::new(path),
            users: Users::default(),
            length: Length::new(size),
            looks: Looks::default(),
            placed: Placed::default(),
            map: ExtentMap::default(),
            dirty_bytes: 0,
            write_back_error: None,
            written_back: false,
            data_file: None,
            open_barrier: 0,
            sooner: Sooner::default(),
        }
    }

    /// Who it is.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Up to where it can be placed. While somebody has it open it may be longer than is known here.
    pub(crate) fn placeable_end(&self) -> u64 {
        let size = self.length.size();
        if self.users.are_there() { self.placed.end().max(size) } else { size }
    }

    /// Whether what is written of it goes to the slow file alone: others use it unseen, nobody would find its bytes,
    /// or they might be refused there later.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.users.bypass_us() || self.names.is_nameless() || self.users.is_sealed()
    }

    /// Whether it has neither a name nor anybody who is known to have it open.
    pub(crate) fn is_gone(&self) -> bool {
        self.names.is_unlinked() && !self.users.are_there()
    }
}
