//! What can go wrong, with the file it went wrong on and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call on a file or directory failed.
    #[error("cannot {action} {}: {source}{hint}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do, with a leading separator; may be empty.
        hint: &'static str,
    },
    /// A call that concerns no file failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no site file.
    #[error(
        "no site file at {}: it names the slow and the fast directory and what each costs. 'headstart-lab \
         testbed up' writes one for the testbed; to write one by hand, see 'headstart site example'", path.display()
    )]
    NoSiteFile {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The site file says something senseless.
    #[error("site file {}: {problem}", path.display())]
    Site {
        /// The file.
        path: PathBuf,
        /// What is wrong and what it should be.
        problem: String,
    },
    /// A plan file is none, or makes no sense.
    #[error("plan {}: {problem}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        problem: String,
    },
    /// The file system of the runtime directory is full.
    #[error(
        "no room in {}: {source}. Make room in that file system, or set HEADSTART_RUNTIME_BASE to a directory \
         on another tmpfs when no agent and program uses this one", path.display()
    )]
    NoMemory {
        /// The runtime directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another agent owns the runtime directory.
    #[error("an agent already serves {}", path.display())]
    AlreadyServed {
        /// The runtime directory.
        path: PathBuf,
    },
    /// An agent with another runtime directory uses the flash.
    #[error("another agent uses {}; stop that one, or give this site a fast directory of its own", path.display())]
    FlashInUse {
        /// Its directory on flash.
        path: PathBuf,
    },
    /// Processes of an earlier agent still run, under which this one cannot start.
    #[error(
        "process {pid} still runs with an earlier agent of {}, {why}; wait for it or end it, then start again",
        path.display()
    )]
    LivingRank {
        /// The process.
        pid: u32,
        /// The runtime directory.
        path: PathBuf,
        /// What of that agent cannot be used, as a clause.
        why: &'static str,
    },
    /// What programs wrote may be in memory alone that an agent of another version left, and only such a one can read.
    #[error(
        "{} was left by an agent of protocol {version}, and may hold bytes that programs wrote and no journal has. Run \
         'headstart drain' and 'headstart stop' of the version that it was, then start again. Where that version is \
         gone, remove the file: what only it holds is lost", path.display()
    )]
    OtherVersion {
        /// The shared file.
        path: PathBuf,
        /// Which version.
        version: u64,
    },
    /// The agent does not answer.
    #[error("no agent answers at {}: {source}", path.display())]
    NoAgent {
        /// The runtime directory.
        path: PathBuf,
        /// Why connecting failed.
        source: io::Error,
    },
    /// The agent ended before it was ready.
    #[error("the agent did not start; the end of its log {}:\n{log}", path.display())]
    NotStarted {
        /// The log.
        path: PathBuf,
        /// Its last lines.
        log: String,
        /// It found that somebody may keep newer bytes than the disk.
        in_use: bool,
    },
    /// The journal in the fast directory cannot be used.
    #[error("journal {}: {problem}; its bytes are kept, move it away to start without them", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The fast or the slow directory failed, so that what lies on flash would not survive power loss.
    #[error("{}: bytes there could not be made durable; see {}", fast.display(), log.display())]
    NotDurable {
        /// The fast directory.
        fast: PathBuf,
        /// The agent's log.
        log: PathBuf,
    },
    /// Somebody else owns the managed directory.
    #[error(
        "{} belongs to {owner}: one agent owns a managed directory. Run 'headstart drain' and 'headstart stop' \
         there; if that node or flash is gone for good, 'headstart disown {}' gives up what it kept, \
         after saying what is lost",
        slow.display(), slow.display()
    )]
    Owned {
        /// The managed directory.
        slow: PathBuf,
        /// Who owns it.
        owner: Box<crate::owner::Owner>,
    },
    /// Another fast directory of the same user keeps bytes of the managed directory.
    #[error(
        "{} is served from the fast directory {} (agent process {}), not from that of this site: 'headstart drain' and \
         'headstart stop' with that site file first, or 'headstart disown {}' if that flash is gone for good",
        slow.display(), owner.fast, owner.pid, slow.display()
    )]
    OtherFlash {
        /// The managed directory.
        slow: PathBuf,
        /// The claim found.
        owner: Box<crate::owner::Owner>,
    },
    /// The claim of a managed directory says nothing.
    #[error(
        "the claim {} cannot be understood ({problem}), so that nobody knows who keeps newer bytes of the \
         directory: see 'headstart check', and remove it with 'headstart disown' if nobody does", path.display()
    )]
    Claim {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A directory lies inside another one that is managed.
    #[error(
        "{} lies inside {}, which is managed already: manage one of the two, or directories beside each other",
        inner.display(), outer.display()
    )]
    Nested {
        /// The directory of this site.
        inner: PathBuf,
        /// The managed one around it.
        outer: PathBuf,
    },
    /// Bytes lie on flash that is not there, or not the same.
    #[error(
        "{}: {dirty_bytes} bytes of {files} files are newer on the flash in {fast} (node {node}) than on disk, \
         but its journal cannot be used: make it available again. If it is gone for good, 'headstart check' \
         names what is lost and 'headstart drain --discard' gives it up", slow.display()
    )]
    Owed {
        /// The managed directory.
        slow: PathBuf,
        /// Where the bytes lie.
        fast: String,
        /// On which node.
        node: String,
        /// How many.
        dirty_bytes: u64,
        /// Of how many files, those open for writing included.
        files: u64,
    },
    /// The fast directory cannot be used.
    #[error("site file {}: fast = {}: {problem}", path.display(), fast.display())]
    FastDirectory {
        /// The site file.
        path: PathBuf,
        /// The slow directory.
        slow: PathBuf,
        /// The fast one.
        fast: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The agent refused a command.
    #[error("{0}")]
    Refused(String),
    /// The membership service, or what it rests on, failed.
    #[error(transparent)]
    Membership(#[from] headstart_membership::Error),
    /// What the membership service keeps is no roster, or one that cannot be gone on with.
    #[error(
        "the list of this directory's nodes cannot be used: {problem}. 'headstart check' says how the directory stands"
    )]
    Roster {
        /// What is wrong.
        problem: String,
    },
    /// Connections to other nodes' agents cannot be had.
    #[error(transparent)]
    Transport(#[from] headstart_transport::Error),
    /// Other nodes have the directory, and go by other settings.
    #[error(
        "{} is in use on node {}, where {what} is {there}, and here it is {here}: nodes that share a directory need the \
         same Headstart and the same site file", slow.display(), nodes.join(", ")
    )]
    Terms {
        /// The managed directory.
        slow: PathBuf,
        /// Their names.
        nodes: Vec<String>,
        /// What differs.
        what: &'static str,
        /// On this node.
        here: String,
        /// On theirs.
        there: String,
    },
    /// Other nodes have the directory, and none of their agents answers.
    #[error(
        "{} is in use on node {}, and no agent answers there: run 'headstart drain' and 'headstart stop' there; if it is \
         down, 'headstart cluster down NODE' lets this node go on with what it had synced; if that is gone for good too, \
         'headstart cluster forget NODE', or 'headstart disown {}' where no other node is left, gives it up, after \
         saying what is lost",
        slow.display(), nodes.join(", "), slow.display()
    )]
    NoMemberAnswers {
        /// The managed directory.
        slow: PathBuf,
        /// Their names.
        nodes: Vec<String>,
    },
    /// Nodes cannot share the directories.
    #[error(
        "this node cannot share its directories with those that have them now, and nothing was changed:\n{}",
        findings.join("\n")
    )]
    NotShareable {
        /// What was found, each with what to do.
        findings: Vec<String>,
    },
    /// The other nodes have given this one up.
    #[error(
        "the other nodes of {} have given this one up, as it was silent for too long: what its programs had not been \
         told to be done since does not count", slow.display()
    )]
    Expelled {
        /// The managed directory.
        slow: PathBuf,
    },
}

impl Error {
    /// Whether somebody may keep newer bytes than the disk, so that nobody must go on with the slow directory alone.
    pub fn means_in_use(&self) -> bool {
        matches!(
            self,
            Error::AlreadyServed { .. }
                | Error::FlashInUse { .. }
                | Error::LivingRank { .. }
                | Error::OtherVersion { .. }
                | Error::Owned { .. }
                | Error::OtherFlash { .. }
                | Error::Claim { .. }
                | Error::Nested { .. }
                | Error::Owed { .. }
                | Error::Membership(headstart_membership::Error::Unreachable { .. })
                | Error::Membership(headstart_membership::Error::RefusedServer { .. })
                | Error::Roster { .. }
                | Error::Terms { .. }
                | Error::NoMemberAnswers { .. }
                | Error::NotShareable { .. }
                | Error::NotStarted { in_use: true, .. }
        )
    }

    /// Whether a file could not be written because its file system is full, or its owner has had what is allowed of it.
    pub(crate) fn is_no_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::File { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// A failed call on `path`.
    pub fn file(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::File { action, path: path.to_path_buf(), source: source.into(), hint: "" }
    }

    /// A failed call that concerns no file.
    pub fn system(action: &'static str, source: impl Into<io::Error>) -> Error {
        Error::System { action, source: source.into() }
    }
}

/// The `errno` of an I/O error; `EIO` where it has none.
pub fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
