//! What agents send to each other: messages of the protocol, notes, commands of people for another node and their answers,
//! and, between one that joins and a member, what the probe of their file systems asks and answers.

use headstart_membership::probe::{Act, Answer};
use serde::{Deserialize, Serialize};

const PROTOCOL: u8 = 0;
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;
const NOTES: u8 = 3;
const COMMAND: u8 = 4;
const OBEYED: u8 = 5;

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
    /// A command of the other node's command line: [`crate::status::Command`] as JSON.
    Command {
        /// What its answer is told by.
        number: u64,
        /// The command.
        text: &'a [u8],
    },
    /// Its answer: [`crate::status::Answer`] as JSON.
    Obeyed {
        /// As asked.
        number: u64,
        /// The answer.
        text: &'a [u8],
    },
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
            COMMAND => numbered(rest).map(|(number, text)| Letter::Command { number, text }),
            OBEYED => numbered(rest).map(|(number, text)| Letter::Obeyed { number, text }),
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
            Letter::Command { number, text } => put_numbered(COMMAND, *number, text, out),
            Letter::Obeyed { number, text } => put_numbered(OBEYED, *number, text, out),
        }
    }
}

fn numbered(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, text) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), text))
}

fn put_numbered(kind: u8, number: u64, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(text);
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
            Letter::Command { number: u64::MAX - 1, text: b"{}" },
            Letter::Obeyed { number: 1, text: b"" },
        ] {
            letter.encode(&mut bytes);
            assert_eq!(Letter::parse(&bytes), Some(letter));
        }
        Letter::Asked(Asked { number: 1, act: act("../../journal") }).encode(&mut bytes);
        assert_eq!(Letter::parse(&bytes), None);
        for bytes in [&b""[..], b"\x01", b"\x02{}", b"\x04", b"\x051234567", b"\x06"] {
            assert_eq!(Letter::parse(bytes), None);
        }
    }
}
