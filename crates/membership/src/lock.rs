//! Open-file-description locks on whole files.
//!
//! Such a lock is given up when the last descriptor of its open file description is closed: that of a process which
//! dies, once the last of its threads has left the kernel.

use std::fs::File;
use std::io;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

fn whole_file(kind: i32) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Locks the file for its description alone; false if another one has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives the description's lock up.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)))?;
    Ok(())
}

/// Whether another description has a lock on the file.
pub(crate) fn is_held(file: &File) -> io::Result<bool> {
    let mut found = whole_file(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_anothers_until_the_last_copy_of_its_descriptor_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (first, second) = (open(), open());
        assert!(!is_held(&second).unwrap() && try_lock(&first).unwrap());
        assert!(is_held(&second).unwrap() && !try_lock(&second).unwrap());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(is_held(&second).unwrap(), "the copy is the same description");
        drop(copy);
        crate::until(|| !is_held(&second).unwrap() && try_lock(&second).unwrap());
        unlock(&second).unwrap();
        assert!(!is_held(&open()).unwrap());
    }
}
