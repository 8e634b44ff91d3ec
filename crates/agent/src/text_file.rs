//! Text that people write, read with a bound: a name may lead to what never ends, as `/dev/zero`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The text of a file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, is longer, or is no UTF-8.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    text_of(File::open(path)?, bytes_max)
}

/// The same of a file that Headstart wrote beside those of programs: what stands in its place may be a pipe,
/// which nobody waits for.
///
/// # Errors
/// It is no regular file, cannot be read, is longer, or is no UTF-8.
pub fn read_own(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    // One that is much too long is not read to find out.
    if found.len() > bytes_max { Err(too_long(bytes_max)) } else { text_of(file, bytes_max) }
}

fn too_long(bytes_max: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
}

fn text_of(file: File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let length = file.take(bytes_max + 1).read_to_string(&mut text)? as u64;
    if length > bytes_max {
        return Err(too_long(bytes_max));
    }
    Ok(text)
}

/// Makes names in a directory durable; what a file system cannot sync so is as durable as it makes it.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), "12345");
        assert!(read(file.path(), 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        assert!(read(Path::new("/dev/zero"), 1 << 20).is_err());
        assert_eq!(read_own(file.path(), 5).unwrap(), "12345");
        assert!(read_own(file.path(), 4).unwrap_err().to_string().contains("longer than 4 bytes"));
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_stands_in_the_place_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&pipe, Path::new("/dev/zero"), directory.path()] {
            assert!(read_own(path, 1 << 20).unwrap_err().to_string().contains("no regular file"), "{}", path.display());
        }
    }
}
