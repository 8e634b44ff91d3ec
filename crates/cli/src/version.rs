//! What `--version` says: the release, the commit, and all that must fit together between what is installed on
//! different nodes or was written by other releases.

use std::sync::LazyLock;

use headstart_protocol::PROTOCOL_VERSION;

/// The number in the last two digits of a format's first bytes.
fn format(magic: &[u8; 8]) -> u32 {
    magic[6..].iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

/// For `clap`.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{} (commit {})\nprotocol of library and agent: {PROTOCOL_VERSION}\nformats: journal {}, volume {}, trace {}",
            env!("CARGO_PKG_VERSION"),
            env!("HEADSTART_COMMIT"),
            format(headstart_overlay::journal::MAGIC),
            format(headstart_block::superblock::MAGIC),
            format(&headstart_trace::header::MAGIC),
        )
    });
    &LONG
}
