//! Sizes in descriptions: a number of bytes, or text such as "64KiB".

use std::fmt;

use headstart_units::ByteSize;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

struct Size;

impl Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, or text such as \"64KiB\"")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        text.parse().map(|ByteSize(bytes)| bytes).map_err(E::custom)
    }
}

/// For `serde(with)`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Size)
}

/// For `serde(with)`; always a number, which is exact.
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(*bytes)
}
