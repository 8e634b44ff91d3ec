//! What library and agent say to each other: the shared file's layout and the messages on the socket.
//!
//! Both sides compile this one module, so that the layout has a single source. It holds atomics and byte
//! encodings only; mapping memory and sending bytes is the runtimes' work. What is written to the shared file
//! in which order is checked by a model checker (`crates/protocol/tests/handshake`), which swaps the atomics
//! for its own.
#![forbid(unsafe_code)]

pub mod call;
pub mod counters;
pub mod deadline;
pub mod handover;
pub mod handshake;
pub mod hints;
pub mod lease;
mod limits;
pub mod listing;
pub mod marks;
pub mod memory;
pub mod message;
pub mod read_times;
pub mod ring;
pub mod shared;

/// Changes whenever the shared layout or a message changes; library and agent refuse each other when it differs.
pub const PROTOCOL_VERSION: u32 = 16;

/// Name of the shared file in the agent's runtime directory.
pub const SHARED_FILE: &str = "shared";
/// Name of the agent's socket (unix, SEQPACKET) in its runtime directory.
pub const SOCKET_FILE: &str = "socket";
/// How names of marks begin that the library leaves in the runtime directory: one for each program it told of that it
/// cannot be in.
pub const MARK_PREFIX: &str = "unseen.";
/// A fifo in the runtime directory: whoever has it open for writing is a program that the library is not in,
/// or was started by one.
pub const STRANGERS_FILE: &str = "strangers";
/// How names of files in the runtime directory begin that say of a process, by number and start time, that it
/// is such a program.
pub const STRANGER_PREFIX: &str = "stranger.";
/// Directory in the fast directory that holds the journal and the data files.
pub const FLASH_DIRECTORY: &str = ".headstart";
/// The claim at the top of a managed directory: there while an agent owns it, and until its dirty bytes are on disk.
pub const OWNER_FILE: &str = ".headstart-owner";
/// The list of dirty files at the top of a managed directory: there while it is not on disk what it seems to be.
pub const DIRTY_LIST_FILE: &str = "HEADSTART-DIRTY";

/// Environment: the agent's runtime directory. Its absence disables the library.
pub const ENVIRONMENT_RUNTIME: &str = "HEADSTART_RUNTIME";
/// Environment: the managed (slow) directory, absolute, no trailing slash.
pub const ENVIRONMENT_SLOW: &str = "HEADSTART_SLOW";
/// Environment: `off` disables everything.
pub const ENVIRONMENT_SWITCH: &str = "HEADSTART";
/// Environment: the policies of this run, by a name of [`headstart_policy::client::chain::Chain`].
pub const ENVIRONMENT_POLICY: &str = "HEADSTART_POLICY";

/// Environment: what becomes of programs that the library cannot be in, by a name of [`Strangers`].
pub const ENVIRONMENT_STRANGERS: &str = "HEADSTART_STRANGERS";
/// Environment of one program: a descriptor to write a byte to when the library has come up in it, as `run`
/// waits for that.
pub const ENVIRONMENT_ARRIVAL: &str = "HEADSTART_ARRIVAL";
/// Environment of one program: what was put before the library in LD_PRELOAD for this program alone.
pub const ENVIRONMENT_FIRST: &str = "HEADSTART_FIRST";
/// Environment: the directory that each process records its requests in; absolute. Without a runtime
/// directory beside it requests are recorded alone.
pub const ENVIRONMENT_TRACE: &str = "HEADSTART_TRACE";
/// Environment: how a process on another node than the run's starts an agent there. The program, and behind the last
/// space the word that `headstart launch` takes, whose second field, between commas, is the boot of the run's node.
pub const ENVIRONMENT_LAUNCH: &str = "HEADSTART_LAUNCH";
/// Environment: where launchers tell a process its rank: Open MPI, Hydra, PMIx, Slurm.
pub const ENVIRONMENT_RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// What becomes of a program that the library cannot be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// Before it starts what is dirty goes back, and nothing comes to flash while it lives.
    #[default]
    Wait,
    /// It is named on stderr, and starts.
    Warn,
    /// It is named on stderr, and does not start.
    Refuse,
}

impl Strangers {
    /// All of them.
    pub const ALL: [Strangers; 3] = [Strangers::Wait, Strangers::Warn, Strangers::Refuse];

    /// What the site file calls it.
    pub fn name(self) -> &'static str {
        match self {
            Strangers::Wait => "wait",
            Strangers::Warn => "warn",
            Strangers::Refuse => "refuse",
        }
    }

    /// The one of that name.
    pub fn named(name: &[u8]) -> Option<Strangers> {
        Strangers::ALL.into_iter().find(|strangers| strangers.name().as_bytes() == name)
    }
}

/// Name of a data file, relative to [`FLASH_DIRECTORY`].
pub fn data_file_name(data_file: u32) -> String {
    format!("data.{data_file:08x}")
}
