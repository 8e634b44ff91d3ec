//! Text that people write, read with a bound: a name may lead to what never ends, as `/dev/zero`.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The text of a file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, is longer, or is no UTF-8.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let length = File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)? as u64;
    if length > bytes_max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes")));
    }
    Ok(text)
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
    }
}
