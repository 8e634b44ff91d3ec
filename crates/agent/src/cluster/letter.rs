//! What agents send to each other: messages of the protocol, notes, and, between one that joins and a member, what the
//! probe of their file systems asks and answers.

use headstart_membership::probe::{Act, Answer};
use serde::{Deserialize, Serialize};

const PROTOCOL: u8 = 0;
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;
const NOTES: u8 = 3;

/// One act of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What its answer is told by.
    pub number: u64,
    /// What is to be done.
    pub act: Act,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// As asked.
    pub number: u64,
    /// What was found.
    pub answer: Answer,
}

/// A letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter<'a> {
    /// A message of `headstart_cluster`, as its bytes.
    Protocol(&'a [u8]),
    /// Notes of `headstart_cluster`, as their bytes.
    Notes(&'a [u8]),
    /// Of a probe.
    Asked(Asked),
    /// Of a probe.
    Answered(Answered),
}

impl Letter<'_> {
    /// What the bytes say; nothing if they are none, or ask for what no probe does.
    pub fn parse(bytes: &[u8]) -> Option<Letter<'_>> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            PROTOCOL => Some(Letter::Protocol(rest)),
            NOTES => Some(Letter::Notes(rest)),
            ASKED => {
                let asked: Asked = serde_json::from_slice(rest).ok()?;
                asked.act.stays_within().then_some(Letter::Asked(asked))
            }
            ANSWERED => serde_json::from_slice(rest).ok().map(Letter::Answered),
            _ => None,
        }
    }

    /// Puts the bytes that say it in the place of what `out` had.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Letter::Protocol(message) => {
                out.push(PROTOCOL);
                out.extend_from_slice(message);
            }
            Letter::Notes(notes) => {
                out.push(NOTES);
                out.extend_from_slice(notes);
            }
            Letter::Asked(asked) => put(ASKED, asked, out),
            Letter::Answered(answered) => put(ANSWERED, answered, out),
        }
    }
}

fn put(kind: u8, value: &impl Serialize, out: &mut Vec<u8>) {
    out.push(kind);
    serde_json::to_writer(out, value).expect("it has a JSON form");
}

#[cfg(test)]
mod tests {
    use headstart_membership::probe::{Action, Tier};

    use super::*;

    #[test]
    fn letters_come_back_and_what_reaches_beyond_a_probes_files_is_none() {
        let mut bytes = Vec::new();
        let act = |name: &str| Act { tier: Tier::Fast, name: name.into(), action: Action::Make(vec![0, 255]) };
        let name = format!("{}.0.data", "0123456789abcdef0123456789abcdef");
        for letter in [
            Letter::Protocol(b"\0\n"),
            Letter::Notes(b"\n\0"),
            Letter::Asked(Asked { number: 7, act: act(&name) }),
            Letter::Answered(Answered { number: 7, answer: Answer::Bytes(vec![1, 2]) }),
        ] {
            letter.encode(&mut bytes);
            assert_eq!(Letter::parse(&bytes), Some(letter));
        }
        Letter::Asked(Asked { number: 1, act: act("../../journal") }).encode(&mut bytes);
        assert_eq!(Letter::parse(&bytes), None);
        for bytes in [&b""[..], b"\x01", b"\x02{}", b"\x04"] {
            assert_eq!(Letter::parse(bytes), None);
        }
    }
}
