//! Who a member is, and whether two of them belong together.
//!
//! The first frame in each direction is a HELLO:
//!
//! ```text
//! "HSTM"  version u32  name      the head, the same in every version: any two can say how they differ
//! directory  incarnation u64     strings are a u16 and so many bytes; numbers little endian
//! ```

use std::net::SocketAddr;

use crate::error::{Error, Result};

const MAGIC: [u8; 4] = *b"HSTM";
/// Longest name and id of a directory; twice the longest host name.
const NAME_BYTES_MAX: usize = 512;

/// An agent, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Its node's name.
    pub name: String,
    /// Grows with each start on that node.
    pub incarnation: u64,
}

/// What a member tells whom it is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the agents' protocol.
    pub version: u32,
    /// The managed directory.
    pub directory: String,
    /// Who it is.
    pub member: Member,
}

impl Identity {
    /// Refuses names that no HELLO can carry.
    pub(crate) fn check_names(&self) -> Result<()> {
        for name in [&self.member.name, &self.directory] {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::Name { name: name.clone(), problem: "it has no letter, or more than 512 bytes" });
            }
        }
        Ok(())
    }

    /// What the HELLO says.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.version.to_le_bytes());
        put(&mut out, &self.member.name);
        put(&mut out, &self.directory);
        out.extend(self.member.incarnation.to_le_bytes());
        out
    }

    /// Who the peer at `address` is, which this member called as `expected` if it called.
    ///
    /// # Errors
    /// What differs on which node.
    pub fn check(
        &self,
        hello: &[u8],
        expected: Option<&Member>,
        address: SocketAddr,
    ) -> std::result::Result<Member, String> {
        let own = &self.member.name;
        let mut rest = hello;
        let version = head(&mut rest).ok_or_else(|| format!("what answers at {address} is no agent of Headstart"))?;
        let name = text(&mut rest).ok_or_else(|| format!("the agent at {address} says no name"))?;
        if version != self.version {
            return Err(format!(
                "{name} at {address} speaks version {version} of the agents' protocol, {own} speaks {}: both nodes \
                 need the same Headstart",
                self.version
            ));
        }
        let (Some(directory), Some(incarnation), true) = (text(&mut rest), number(&mut rest), rest.is_empty()) else {
            return Err(format!("{name} at {address} does not say which directory it serves"));
        };
        if directory != self.directory {
            return Err(format!(
                "{name} at {address} serves the managed directory {directory}, {own} serves {}: the site files of \
                 the two nodes differ, or an address is another agent's now",
                self.directory
            ));
        }
        let found = Member { name, incarnation };
        if &found.name == own {
            return Err(format!("{own} at {address} has the name of this member: give one of the two another"));
        }
        match expected {
            Some(expected) if found.name != expected.name => {
                Err(format!("{} answers at {address}, where {own} expected {}", found.name, expected.name))
            }
            Some(expected) if found != *expected => Err(format!(
                "incarnation {} of {} answers at {address}, where {own} expected {}",
                found.incarnation, found.name, expected.incarnation
            )),
            _ => Ok(found),
        }
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

fn head(rest: &mut &[u8]) -> Option<u32> {
    if take(rest, 4)? != MAGIC {
        return None;
    }
    take(rest, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16::from_le_bytes(*take(rest, 2)?.first_chunk()?));
    let bytes = take(rest, length).filter(|_| (1..=NAME_BYTES_MAX).contains(&length))?;
    String::from_utf8(bytes.to_vec()).ok()
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity { version: 1, directory: "d".into(), member: Member { name: name.into(), incarnation: 5 } }
    }

    fn refusal(other: &Identity, expected: Option<&Member>) -> String {
        identity("a").check(&other.encode(), expected, "127.0.0.1:7".parse().unwrap()).unwrap_err()
    }

    #[test]
    fn who_belongs_to_the_directory_is_known_by_name_and_incarnation() {
        let (a, b) = (identity("a"), identity("b"));
        let address = "127.0.0.1:7".parse().unwrap();
        assert_eq!(a.check(&b.encode(), None, address), Ok(b.member.clone()));
        assert_eq!(a.check(&b.encode(), Some(&b.member), address), Ok(b.member.clone()));
    }

    #[test]
    fn a_refusal_says_what_differs_on_which_node() {
        let b = identity("b");
        let says = |other: &Identity, expected: Option<&Member>, words: &[&str]| {
            let text = refusal(other, expected);
            words.iter().for_each(|word| assert!(text.contains(word), "{text}: {word}"));
        };
        says(&Identity { version: 2, ..b.clone() }, None, &["b at 127.0.0.1:7", "version 2", "a speaks 1"]);
        says(&Identity { directory: "e".into(), ..b.clone() }, None, &["directory e", "a serves d"]);
        says(&b, Some(&identity("c").member), &["b answers", "a expected c"]);
        let newer = Member { incarnation: 6, ..b.member.clone() };
        says(&b, Some(&newer), &["incarnation 5 of b", "a expected 6"]);
        says(&identity("a"), None, &["the name of this member"]);
    }

    #[test]
    fn another_versions_head_is_enough_to_say_so() {
        let mut hello = Identity { version: 9, ..identity("b") }.encode();
        hello.truncate(MAGIC.len() + 4 + 2 + 1);
        let text = identity("a").check(&hello, None, "127.0.0.1:7".parse().unwrap()).unwrap_err();
        assert!(text.contains("version 9"), "{text}");
    }

    #[test]
    fn a_hello_that_is_cut_or_too_long_is_refused() {
        let whole = identity("b").encode();
        let address = "127.0.0.1:7".parse().unwrap();
        for length in 0..whole.len() {
            assert!(identity("a").check(&whole[..length], None, address).is_err(), "{length} bytes");
        }
        assert!(identity("a").check(&[whole, vec![0]].concat(), None, address).is_err());
    }

    #[test]
    fn a_name_that_no_hello_can_carry_is_refused() {
        assert!(identity("").check_names().is_err());
        assert!(identity(&"n".repeat(513)).check_names().is_err());
        assert!(identity("n").check_names().is_ok());
    }
}
