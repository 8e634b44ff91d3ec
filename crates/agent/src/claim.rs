//! Who owns a managed directory: a file at its top, made durably before an agent uses the directory and
//! removed when one ends with nothing dirty.
//!
//! | claim found | what a starting agent does |
//! |---|---|
//! | none | makes one, exclusively |
//! | of this user and node, its agent gone | takes it over |
//! | of this user and node, its agent alive | refuses: it uses another fast or runtime directory |
//! | of this user and node, for another fast directory, and the dirty list is there | refuses: those bytes lie there |
//! | of another user or node | refuses, and names the owner |
//! | unreadable | refuses |
//!
//! A directory inside a managed one cannot be managed by itself: the claims of all directories above are looked for.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use headstart_protocol::{FLASH_DIRECTORY, OWNER_FILE};

use crate::cluster::register;
use crate::error::{Error, Result};
use crate::identity::birth_ns;
use crate::node_files::NodeFiles;
use crate::owner::hexadecimal;
pub use crate::owner::{Owner, Relation};
use crate::process::{self, start_time};
use crate::text_file::sync_directory;
use crate::{dirty_list, node, text_file};

/// Longest claim: two paths of the kernel's length with every byte escaped, and room.
const BYTES_MAX: u64 = 256 << 10;

impl Owner {
    /// This process as the owner.
    pub fn this(slow: &Path, fast: &Path) -> Result<Owner> {
        let (user, uid, node) = (node::user(), nix::unistd::getuid().as_raw(), node::this());
        let note = format!(
            "Headstart keeps newer bytes of files below this directory on flash, for user {user} on node {}. Do \
             not remove this file: another node would read and write old bytes. \
             'headstart check' says how things stand.",
            node.name
        );
        let pid = std::process::id();
        let directory = std::fs::metadata(slow).map_err(|error| Error::file("look at", slow, error))?;
        Ok(Owner {
            note,
            user,
            uid,
            node: node.name,
            machine_id: node.machine_id,
            slow: slow.display().to_string(),
            inode: directory.ino(),
            birth_ns: birth_ns(&directory),
            fast: fast.display().to_string(),
            boot_id: hexadecimal(&process::boot_id().map_err(|error| Error::system("read the boot id", error))?),
            pid,
            start_time: start_time(pid).unwrap_or(0),
            version: env!("CARGO_PKG_VERSION").into(),
        })
    }
}

/// The claim on a directory; none if nobody owns it.
pub fn read(slow: &Path) -> Result<Option<Owner>> {
    let path = slow.join(OWNER_FILE);
    match text_file::read_own(&path, BYTES_MAX) {
        Ok(text) => Owner::parse(&text).map(Some).map_err(|problem| Error::Claim { path, problem }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // Whoever cannot look must not think that nobody owns it; one that is no claim is damaged.
        Err(error) if error.raw_os_error().is_some() => Err(Error::file("read the claim", &path, error)),
        Err(error) => Err(Error::Claim { path, problem: error.to_string() }),
    }
}

/// Refuses a directory that somebody else owns, or that lies inside a managed one.
pub fn examine(slow: &Path, fast: &Path) -> Result<()> {
    if let Some(owner) = read(slow)? {
        let shares = owner.relation() == Relation::OtherNode && register::is_there(fast);
        if !shares || may_share(slow, fast).is_err() {
            may_take_over(slow, fast, &owner)?;
        }
    }
    refuse_nested(slow, fast)
}

fn may_take_over(slow: &Path, fast: &Path, owner: &Owner) -> Result<()> {
    let refused = || Error::Owned { slow: slow.to_path_buf(), owner: Box::new(owner.clone()) };
    if owner.relation() != Relation::Own {
        return Err(refused());
    }
    if owner.fast != fast.display().to_string() && (owner.is_alive() || dirty_list::is_there(slow)) {
        return Err(Error::OtherFlash { slow: slow.to_path_buf(), owner: Box::new(owner.clone()) });
    }
    Ok(())
}

/// Refuses a directory that another user, or another flash, has; else whose claim there is. Nodes of one user that
/// share the fast directory too may share it: their list of nodes says how.
pub(crate) fn may_share(slow: &Path, fast: &Path) -> Result<Option<Owner>> {
    let found = read(slow)?;
    match &found {
        Some(owner) if owner.uid != nix::unistd::getuid().as_raw() || owner.fast != fast.display().to_string() => {
            Err(Error::Owned { slow: slow.to_path_buf(), owner: Box::new(owner.clone()) })
        }
        _ => Ok(found),
    }
}

/// Refuses to go on with the slow directory alone while somebody owns it or flash may hold newer bytes.
pub fn refuse_if_owed(slow: &Path, fast: &Path) -> Result<()> {
    if let Some(owner) = read(slow)? {
        may_take_over(slow, fast, &owner)?;
        if owner.is_alive() {
            return Err(Error::Owned { slow: slow.to_path_buf(), owner: Box::new(owner) });
        }
    }
    refuse_debt(slow)
}

/// Refuses a directory whose list says that flash may hold newer bytes.
pub fn refuse_debt(slow: &Path) -> Result<()> {
    for number in dirty_list::numbers(slow)? {
        let list = slow.join(NodeFiles::of(Path::new(""), number).list());
        if let Some(listed) = dirty_list::read_at(&list)?.filter(dirty_list::Listed::owes) {
            let dirty_list::Heading { fast, node, dirty_bytes, files, .. } = listed.heading;
            return Err(Error::Owed { slow: slow.to_path_buf(), fast, node, dirty_bytes, files });
        }
    }
    Ok(())
}

/// A claim above the slow directory, one at or above the fast one, or flash of another site at or above the slow one.
fn refuse_nested(slow: &Path, fast: &Path) -> Result<()> {
    let claimed = |directory: &&Path| directory.join(OWNER_FILE).exists();
    let nested = |inner: &Path, outer: &Path| Error::Nested { inner: inner.into(), outer: outer.into() };
    if let Some(outer) = slow.ancestors().skip(1).find(claimed) {
        return Err(nested(slow, outer));
    }
    if let Some(outer) = fast.ancestors().find(claimed) {
        return Err(nested(fast, outer));
    }
    let on_flash = |directory: &&Path| directory.join(FLASH_DIRECTORY).join("lock").exists();
    slow.ancestors().find(on_flash).map_or(Ok(()), |outer| Err(nested(slow, outer)))
}

/// A managed directory strictly between the top and `path`, or none.
pub fn inner(slow: &Path, path: &Path) -> Option<PathBuf> {
    let between = path.ancestors().skip(1).take_while(|directory| *directory != slow && directory.starts_with(slow));
    between.filter(|directory| directory.join(OWNER_FILE).exists()).map(Path::to_path_buf).last()
}

/// The right to use a managed directory.
#[derive(Debug)]
pub struct SlowClaim {
    slow: PathBuf,
    owner: Owner,
}

impl SlowClaim {
    /// Claims the directory durably, or takes over what this user and node left behind. The caller holds the
    /// locks that make it the only agent of this site.
    pub fn take(slow: &Path, fast: &Path) -> Result<SlowClaim> {
        let owner = Owner::this(slow, fast)?;
        let path = slow.join(OWNER_FILE);
        let fresh = slow.join(format!("{OWNER_FILE}.{}.{}", owner.node.replace('/', "_"), owner.pid));
        let failed = |error| Error::file("claim the slow directory with", &path, error);
        write(&fresh, &owner).map_err(failed)?;
        let taken = loop {
            match read(slow) {
                Err(error) => break Err(error),
                Ok(Some(found)) => {
                    if found.is_alive() && found.relation() == Relation::Own {
                        break Err(Error::OtherFlash { slow: slow.into(), owner: Box::new(found) });
                    }
                    break may_take_over(slow, fast, &found)
                        .and_then(|()| std::fs::rename(&fresh, &path).map_err(failed).map(|()| false));
                }
                Ok(None) => match publish(&fresh, &path, &owner) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    published => break published.map(|()| true).map_err(failed),
                },
            }
        };
        let _ = std::fs::remove_file(&fresh);
        let made = taken?;
        let claim = SlowClaim { slow: slow.to_path_buf(), owner };
        sync_directory(slow).map_err(failed)?;
        if let Err(error) = refuse_nested(slow, fast) {
            if made {
                claim.release()?;
            }
            return Err(error);
        }
        Ok(claim)
    }

    /// The right of one of several nodes that have the directory: whoever of them made the claim, it stands.
    pub fn share(slow: &Path, fast: &Path) -> Result<SlowClaim> {
        let owner = Owner::this(slow, fast)?;
        let path = slow.join(OWNER_FILE);
        let failed = |error| Error::file("claim the slow directory with", &path, error);
        let found = may_share(slow, fast)?;
        if found.is_none_or(|found| found.relation() == Relation::Own) {
            let fresh = slow.join(format!("{OWNER_FILE}.{}.{}", owner.node.replace('/', "_"), owner.pid));
            let made = write(&fresh, &owner).and_then(|()| std::fs::rename(&fresh, &path));
            made.inspect_err(|_| drop(std::fs::remove_file(&fresh))).map_err(failed)?;
            sync_directory(slow).map_err(failed)?;
        }
        refuse_nested(slow, fast)?;
        Ok(SlowClaim { slow: slow.to_path_buf(), owner })
    }

    /// This node leaves the directory to others: a claim of its own names one of those from now on.
    pub(crate) fn hand_over(self, node: &str, machine_id: Option<&str>, boot_id: &str) -> Result<()> {
        if read(&self.slow)?.as_ref() != Some(&self.owner) {
            return Ok(());
        }
        let path = self.slow.join(OWNER_FILE);
        let note = self.owner.note.replace(&format!("on node {}", self.owner.node), &format!("on node {node}"));
        let (node, machine_id, boot_id) = (node.into(), machine_id.map(str::to_owned), boot_id.into());
        let owner = Owner { note, node, machine_id, boot_id, pid: 0, start_time: 0, ..self.owner.clone() };
        let fresh = self.slow.join(format!("{OWNER_FILE}.{}.{}", self.owner.node.replace('/', "_"), self.owner.pid));
        write(&fresh, &owner)
            .and_then(|()| std::fs::rename(&fresh, &path))
            .and_then(|()| sync_directory(&self.slow))
            .map_err(|error| Error::file("hand over the claim", &path, error))
    }

    /// Who this process is as an owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Gives the directory back: nothing of it is only on flash.
    pub fn release(self) -> Result<()> {
        if read(&self.slow)?.as_ref() == Some(&self.owner) {
            remove(&self.slow)?;
        }
        Ok(())
    }
}

/// Removes the claim, whoever made it.
pub fn remove(slow: &Path) -> Result<()> {
    let path = slow.join(OWNER_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove the claim", &path, error)),
        _ => sync_directory(slow).map_err(|error| Error::file("sync", slow, error)),
    }
}

fn write(path: &Path, owner: &Owner) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(owner.to_text().as_bytes())?;
    file.sync_all()
}

/// Gives a whole claim its name, which nobody else may have taken: by a link, as other nodes may try at the
/// same time, or by creating it where there are no links.
fn publish(fresh: &Path, path: &Path, owner: &Owner) -> io::Result<()> {
    match std::fs::hard_link(fresh, path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS)) => {
            drop(OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?);
            write(path, owner)
        }
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (slow, fast) = (directory.path().join("slow"), directory.path().join("fast"));
        std::fs::create_dir(&slow).unwrap();
        std::fs::create_dir(&fast).unwrap();
        (directory, slow, fast)
    }

    fn put(slow: &Path, owner: &Owner) {
        write(&slow.join(OWNER_FILE), owner).unwrap();
    }

    #[test]
    fn a_claim_is_there_until_it_is_released_and_leaves_nothing_behind() {
        let (_directory, slow, fast) = directories();
        let claim = SlowClaim::take(&slow, &fast).unwrap();
        assert_eq!(read(&slow).unwrap().as_ref(), Some(claim.owner()));
        assert_eq!(std::fs::read_dir(&slow).unwrap().count(), 1);
        claim.release().unwrap();
        assert_eq!(std::fs::read_dir(&slow).unwrap().count(), 0);
    }

    #[test]
    fn a_dead_agents_claim_is_taken_over_and_that_of_others_is_not() {
        let (_directory, slow, fast) = directories();
        let this = Owner::this(&slow, &fast).unwrap();
        put(&slow, &Owner { pid: u32::MAX, ..this.clone() });
        assert_eq!(SlowClaim::take(&slow, &fast).unwrap().owner().pid, std::process::id());
        for other in [Owner { uid: this.uid + 1, ..this.clone() }, Owner { node: "elsewhere".into(), ..this.clone() }] {
            put(&slow, &other);
            let message = SlowClaim::take(&slow, &fast).unwrap_err().to_string();
            assert!(message.contains(&other.node) && message.contains("headstart disown"), "{message}");
            assert_eq!(read(&slow).unwrap().as_ref(), Some(&other), "it is left as it was");
        }
    }

    #[test]
    fn nodes_of_one_user_and_one_flash_share_a_claim_and_who_leaves_hands_it_over() {
        let (_directory, slow, fast) = directories();
        let this = Owner::this(&slow, &fast).unwrap();
        let elsewhere = Owner { node: "elsewhere".into(), ..this.clone() };
        put(&slow, &elsewhere);
        let claim = SlowClaim::share(&slow, &fast).unwrap();
        assert_eq!(read(&slow).unwrap().as_ref(), Some(&elsewhere), "it stands");
        claim.hand_over("third", None, "boot").unwrap();
        assert_eq!(read(&slow).unwrap().as_ref(), Some(&elsewhere), "it was not this node's");
        for other in [
            Owner { uid: this.uid + 1, ..elsewhere.clone() },
            Owner { fast: "/other/flash".into(), ..elsewhere.clone() },
        ] {
            put(&slow, &other);
            assert!(matches!(SlowClaim::share(&slow, &fast), Err(Error::Owned { .. })));
        }
        remove(&slow).unwrap();
        let claim = SlowClaim::share(&slow, &fast).unwrap();
        assert_eq!(read(&slow).unwrap().as_ref(), Some(claim.owner()));
        claim.hand_over("third", None, "boot").unwrap();
        let found = read(&slow).unwrap().unwrap();
        assert!(found.node == "third" && found.note.contains("on node third") && !found.is_alive(), "{found:?}");
    }

    #[test]
    fn dirty_bytes_on_another_fast_directory_are_not_forgotten() {
        let (_directory, slow, fast) = directories();
        let elsewhere = Owner { fast: "/elsewhere".into(), pid: u32::MAX, ..Owner::this(&slow, &fast).unwrap() };
        put(&slow, &elsewhere);
        std::fs::write(slow.join(headstart_protocol::DIRTY_LIST_FILE), b"").unwrap();
        assert!(SlowClaim::take(&slow, &fast).unwrap_err().to_string().contains("/elsewhere"));
        std::fs::remove_file(slow.join(headstart_protocol::DIRTY_LIST_FILE)).unwrap();
        assert!(SlowClaim::take(&slow, &fast).is_ok());
    }

    #[test]
    fn a_claim_that_says_nothing_is_refused() {
        let (_directory, slow, fast) = directories();
        for text in ["", "{}", "nonsense"] {
            std::fs::write(slow.join(OWNER_FILE), text).unwrap();
            assert!(matches!(SlowClaim::take(&slow, &fast), Err(Error::Claim { .. })), "{text}");
        }
    }

    #[test]
    fn directories_inside_managed_ones_are_refused_and_found() {
        let (_directory, slow, fast) = directories();
        let (inside, deep) = (slow.join("inside"), slow.join("inside/deep"));
        std::fs::create_dir_all(&deep).unwrap();
        let outer = SlowClaim::take(&slow, &fast).unwrap();
        assert!(matches!(SlowClaim::take(&inside, &fast), Err(Error::Nested { .. })));
        assert!(!inside.join(OWNER_FILE).exists());
        outer.release().unwrap();
        SlowClaim::take(&inside, &fast).unwrap();
        assert_eq!(inner(&slow, &deep.join("file")), Some(inside.clone()));
        assert_eq!(inner(&slow, &slow.join("file")), None);
        assert!(matches!(SlowClaim::take(&fast, &inside), Err(Error::Nested { .. })));
    }
}
