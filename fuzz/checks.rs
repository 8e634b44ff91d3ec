//! The checks of the tests `crates/core/tests/parsers` and `crates/agent/tests/parsers`.
#![allow(dead_code)]

#[path = "../crates/core/tests/parsers/hostile.rs"]
pub mod hostile;
#[path = "../crates/core/tests/parsers/journal.rs"]
pub mod journal;
#[path = "../crates/core/tests/parsers/packets.rs"]
pub mod packets;
#[path = "../crates/core/tests/parsers/source.rs"]
pub mod source;
#[path = "../crates/core/tests/parsers/traces.rs"]
pub mod traces;
#[path = "../crates/core/tests/parsers/volumes.rs"]
pub mod volumes;
#[path = "../crates/agent/tests/parsers/text.rs"]
pub mod text;
