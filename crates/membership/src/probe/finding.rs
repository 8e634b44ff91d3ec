//! What a probe found, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Which directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// On the disks.
    Slow,
    /// On flash.
    Fast,
}

/// What is wrong with a directory that two nodes were to share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Problem {
    /// The two see different directories.
    OtherDirectory,
    /// A file has another inode number at each node.
    InodesDiffer(u64, u64),
    /// Both got the same lock.
    LocksUnseen,
    /// The file system takes no locks: why.
    NoLocks(String),
    /// A lock was refused after it had been given up.
    LocksStay,
    /// A node read bytes from before a write that it had been told of.
    StaleBytes,
    /// One node's write undid another's in the same page.
    LostBytes,
    /// A node saw a length from before a change that it had been told of.
    StaleSize,
    /// A node saw names from before a change that it had been told of.
    StaleNames,
    /// A name was taken twice.
    NamesTakenTwice,
    /// There are no hard links: why.
    NoLinks(String),
    /// A call failed: what.
    CallFailed(String),
    /// The other node gave no answer: why.
    NoAnswer(String),
}

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Another mount, or membership in etcd.
    MountOrEtcd,
    /// Another mount, else one node at a time.
    MountAlone,
    /// Something outside of the file system.
    LookInto,
}

impl Problem {
    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        match self {
            Problem::LocksUnseen | Problem::NoLocks(_) | Problem::LocksStay | Problem::NoLinks(_) => {
                Remedy::MountOrEtcd
            }
            Problem::InodesDiffer(..)
            | Problem::StaleBytes
            | Problem::LostBytes
            | Problem::StaleSize
            | Problem::StaleNames
            | Problem::NamesTakenTwice => Remedy::MountAlone,
            Problem::OtherDirectory | Problem::CallFailed(_) | Problem::NoAnswer(_) => Remedy::LookInto,
        }
    }
}

/// One thing that keeps a node out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which directory.
    pub tier: Tier,
    /// Where it is at this node.
    pub path: PathBuf,
    /// The type of its file system, as `/proc/self/mountinfo` names it.
    pub file_system: String,
    /// The member that it was probed with.
    pub member: String,
    /// What is wrong.
    pub problem: Problem,
}

impl Finding {
    pub(super) fn new(tier: Tier, path: &Path, member: &str, problem: Problem) -> Finding {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let file_system = file_system_of(&mounts, &path).unwrap_or_else(|| "unknown".into());
        Finding { tier, path, file_system, member: member.into(), problem }
    }

    fn advice(&self) -> String {
        let mount = mount_advice(&self.file_system);
        match self.problem.remedy() {
            Remedy::MountOrEtcd => format!("{mount}, or set membership = \"etcd\" in the site file's [cluster]"),
            Remedy::MountAlone => format!("{mount}; until then one node at a time may use the directory"),
            Remedy::LookInto => match self.problem {
                Problem::OtherDirectory => {
                    "mount the same file system at the same path on all nodes, and see that it is mounted".into()
                }
                _ => "see the agent's log at both nodes".into(),
            },
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, file_system, member, .. } = self;
        let path = path.display();
        write!(formatter, "{path} ({file_system}) cannot be shared with node {member}: ")?;
        match &self.problem {
            Problem::OtherDirectory => write!(formatter, "that node does not see files made here")?,
            Problem::InodesDiffer(here, there) => {
                write!(formatter, "a file has inode number {here} here and {there} there")?;
            }
            Problem::LocksUnseen => write!(formatter, "both nodes got the same file lock")?,
            Problem::NoLocks(why) => write!(formatter, "it takes no file locks ({why})")?,
            Problem::LocksStay => write!(formatter, "a file lock was refused after it had been given up")?,
            Problem::StaleBytes => write!(formatter, "a node read old bytes after another one had written new ones")?,
            Problem::LostBytes => write!(formatter, "one node's write undid another's beside it")?,
            Problem::StaleSize => write!(formatter, "a node saw a file's old length after another one had changed it")?,
            Problem::StaleNames => write!(formatter, "a node saw old names after another one had changed them")?,
            Problem::NamesTakenTwice => write!(formatter, "two nodes both made a file of the same name")?,
            Problem::NoLinks(why) => write!(formatter, "it has no hard links ({why})")?,
            Problem::CallFailed(what) => write!(formatter, "{what}")?,
            Problem::NoAnswer(why) => write!(formatter, "that node did not answer ({why})")?,
        }
        write!(formatter, "; {}", self.advice())
    }
}

/// What makes file systems of this type coherent between nodes, as far as they can be.
fn mount_advice(file_system: &str) -> &'static str {
    match file_system {
        "lustre" => "mount Lustre with -o flock, not localflock or noflock, on every node",
        "beegfs" => {
            "set tuneUseGlobalFileLocks = true and tuneFileCacheType = buffered in beegfs-client.conf on every node"
        }
        "nfs" | "nfs4" => "NFS keeps pages and names for seconds: use a parallel file system for this directory",
        "moosefs" => {
            "MooseFS keeps bytes at the nodes for a moment however it is mounted: use another file system for this \
             directory"
        }
        "fuse.glusterfs" => {
            "mount GlusterFS with direct-io-mode=enable,fopen-keep-cache=off,attribute-timeout=0,entry-timeout=0,\
             negative-timeout=0 on every node, and turn performance.write-behind, quick-read, io-cache, read-ahead, \
             stat-prefetch and open-behind off for the volume"
        }
        "ext4" | "xfs" | "btrfs" | "tmpfs" => "this is a node's own file system: name a directory that all nodes share",
        _ => "mount it without caches of pages, sizes and names, and with file locks between nodes, on every node",
    }
}

/// The type of the file system that `path` is in: of the last mount at its longest prefix. MooseFS calls itself no more
/// than `fuse`, with its server behind `mfs#` as the source, of which the kernel escapes the last sign.
fn file_system_of(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let at = unescape(mount.split(' ').nth(4)?);
        let mut kind = kind.split(' ');
        let (name, source) = (kind.next()?, kind.next().unwrap_or(""));
        let name = if name.starts_with("fuse") && source.starts_with("mfs\\043") { "moosefs" } else { name };
        path.starts_with(&at).then(|| (Path::new(&at).components().count(), name))
    });
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, name)| name.to_owned())
}

/// Blanks and backslashes in mount points are written in octal.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/a rw\n\
        30 22 0:40 / /scratch rw shared:1 - lustre mgs@tcp:/scratch rw,localflock\n\
        31 22 0:41 / /scratch/my\\040flash rw - fuse mfs\\043host:9421 rw\n\
        32 22 0:42 / /scratch rw - beegfs beegfs rw\n";

    #[test]
    fn the_file_system_is_that_of_the_innermost_and_last_mount() {
        let of = |path: &str| file_system_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(of("/home/me"), "ext4");
        assert_eq!(of("/scratch/dir"), "beegfs");
        assert_eq!(of("/scratchy"), "ext4");
        assert_eq!(of("/scratch/my flash/x"), "moosefs");
    }

    #[test]
    fn every_finding_names_directory_and_node_and_says_what_to_do() {
        let finding = |file_system: &str, problem| Finding {
            tier: Tier::Slow,
            path: "/scratch/run".into(),
            file_system: file_system.into(),
            member: "n17".into(),
            problem,
        };
        let locks = finding("lustre", Problem::LocksUnseen).to_string();
        assert!(["/scratch/run", "n17", "-o flock", "etcd"].iter().all(|word| locks.contains(word)), "{locks}");
        let bytes = finding("fuse.glusterfs", Problem::StaleBytes).to_string();
        assert!(bytes.contains("direct-io-mode=enable") && bytes.contains("one node at a time"), "{bytes}");
        assert!(!bytes.contains("etcd"), "etcd does not make caches coherent: {bytes}");
        let beegfs = finding("beegfs", Problem::NoLocks("ENOLCK".into())).to_string();
        assert!(beegfs.contains("tuneUseGlobalFileLocks") && beegfs.contains("ENOLCK"), "{beegfs}");
    }
}
