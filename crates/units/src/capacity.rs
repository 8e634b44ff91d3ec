//! How much flash may be used, as people write it.

use crate::ByteSize;

/// How much flash may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// Bytes.
    Bytes(u64),
    /// A share, 0 to 1, of the size of the files known.
    Share(f64),
}

impl std::str::FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Capacity, String> {
        if let Some(percent) = text.trim().strip_suffix('%') {
            let share: f64 = percent.trim().parse().map_err(|_| format!("'{text}' is not a percentage"))?;
            return if (0.0..=100.0).contains(&share) {
                Ok(Capacity::Share(share / 100.0))
            } else {
                Err(format!("'{text}' is not between 0% and 100%"))
            };
        }
        let bytes = text.parse::<ByteSize>().map_err(|error| format!("{error}, or a share such as 20%"))?.0;
        if (1..=100).contains(&bytes) && text.trim().ends_with(|end: char| end.is_ascii_digit()) {
            return Err(format!(
                "'{text}' would be {bytes} bytes; write {bytes}% for a share, or a size with its unit"
            ));
        }
        Ok(Capacity::Bytes(bytes))
    }
}

impl std::fmt::Display for Capacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Capacity::Bytes(bytes) => write!(f, "{}", ByteSize(*bytes)),
            Capacity::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}
