//! What another node must know of a run, as one word. Launchers split commands at spaces, and a remote shell reads
//! them: the word has nothing that means anything to either.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Context, Result};

/// What another node must know of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The node where the run began, by its name as an owner.
    pub node: OsString,
    /// The boot of the node where the word was made.
    pub boot: OsString,
    /// `NAME=VALUE`: settings of the run's environment.
    pub environment: Vec<OsString>,
    /// What `headstart` is to be called with there, up to the program.
    pub arguments: Vec<OsString>,
}

impl Word {
    /// The word. Its second field is the boot: the library reads that too.
    pub fn to_text(&self) -> OsString {
        let nothing = OsString::new();
        let fields = [&self.node, &self.boot].into_iter().chain(&self.environment).chain([&nothing]);
        let mut text = Vec::new();
        for (k, field) in fields.chain(&self.arguments).enumerate() {
            if k > 0 {
                text.push(b',');
            }
            field.as_bytes().iter().for_each(|byte| escape(*byte, &mut text));
        }
        OsString::from_vec(text)
    }

    /// What a word says.
    pub fn parse(text: &OsStr) -> Result<Word> {
        let fields: Option<Vec<OsString>> = text.as_bytes().split(|byte| *byte == b',').map(unescaped).collect();
        let split = fields.and_then(|fields| {
            let end = fields.iter().position(|field| field.is_empty()).filter(|end| *end >= 2)?;
            Some((fields, end))
        });
        let (mut fields, end) = split.with_context(|| {
            format!("{} is not what 'headstart run' tells launchers; nobody else starts this", text.display())
        })?;
        let arguments = fields.split_off(end + 1);
        fields.truncate(end);
        let environment = fields.split_off(2);
        let [node, boot] = <[OsString; 2]>::try_from(fields).expect("two are left");
        Ok(Word { node, boot, environment, arguments })
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./=:+@".contains(&byte)
}

fn escape(byte: u8, text: &mut Vec<u8>) {
    if is_plain(byte) {
        text.push(byte);
    } else {
        text.extend_from_slice(format!("%{byte:02X}").as_bytes());
    }
}

fn unescaped(field: &[u8]) -> Option<OsString> {
    let mut text = Vec::new();
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        text.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    Some(OsString::from_vec(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word() -> Word {
        let strings = |texts: &[&[u8]]| texts.iter().map(|text| OsString::from_vec(text.to_vec())).collect();
        Word {
            node: "node1".into(),
            boot: "11111111-2222-3333-4444-555555555555".into(),
            environment: strings(&[b"HEADSTART_EXCLUDE=[\"a, b\", \"**/*.tmp\"]", b"HEADSTART_X="]),
            arguments: strings(&[b"--site", b"/home/m\xfcller/my site.toml", b"run", b"--include=", b"", b"--"]),
        }
    }

    #[test]
    fn what_was_said_is_understood_and_no_shell_or_launcher_finds_anything_in_it() {
        let text = word().to_text();
        assert_eq!(Word::parse(&text).unwrap(), word());
        let is_harmless = |byte: &u8| is_plain(*byte) || b",%".contains(byte);
        assert!(text.as_bytes().iter().all(is_harmless), "{}", text.display());
        assert_eq!(text.as_bytes().split(|byte| *byte == b',').nth(1), Some(word().boot.as_bytes()));
        let plain = Word { environment: Vec::new(), arguments: Vec::new(), ..word() };
        assert_eq!(Word::parse(&plain.to_text()).unwrap(), plain);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "orted", "node1,boot", "node1,,run", "a,b,%4", "a,b,%zz,", "a,b,,%"] {
            let error = Word::parse(OsStr::new(text)).unwrap_err();
            assert!(error.to_string().contains("headstart run"), "{text}: {error}");
        }
    }
}
