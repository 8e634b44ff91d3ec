//! Notes as bytes: addresses, numbers, the notes, each a byte of kind and its fields.

use super::fields::{Field, Source};
use crate::note::{Note, Told};

impl Field for Told {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.to.put(out);
        self.answered.put(out);
        self.first.put(out);
        self.notes.put(out);
        self.heard.put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        Some(Told {
            from: Field::take(from)?,
            to: Field::take(from)?,
            answered: Field::take(from)?,
            first: Field::take(from)?,
            notes: Field::take(from)?,
            heard: Field::take(from)?,
        })
    }
}

impl Field for Note {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Note::Unlinked { file, passed } => {
                out.push(0);
                file.put(out);
                passed.put(out);
            }
            Note::Renamed { old, new, exchanged } => {
                out.push(1);
                old.put(out);
                new.put(out);
                exchanged.put(out);
            }
            Note::At { file, birth_ns, path } => {
                out.push(2);
                file.put(out);
                birth_ns.put(out);
                path.put(out);
            }
            Note::Named { file, stays, path } => {
                out.push(3);
                file.put(out);
                stays.put(out);
                path.put(out);
            }
            Note::WhereIs { file, birth_ns } => {
                out.push(4);
                file.put(out);
                birth_ns.put(out);
            }
            Note::KeepOff { on, question } => {
                out.push(5);
                on.put(out);
                question.put(out);
            }
            Note::Off { question, problem } => {
                out.push(6);
                question.put(out);
                problem.put(out);
            }
            Note::TimesSet { file, birth_ns } => {
                out.push(7);
                file.put(out);
                birth_ns.put(out);
            }
            Note::Stuck { file, errno } => {
                out.push(8);
                file.put(out);
                errno.put(out);
            }
            Note::Needs { bytes } => {
                out.push(9);
                bytes.put(out);
            }
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Note::Unlinked { file: Field::take(from)?, passed: Field::take(from)? },
            1 => Note::Renamed { old: Field::take(from)?, new: Field::take(from)?, exchanged: Field::take(from)? },
            2 => Note::At { file: Field::take(from)?, birth_ns: Field::take(from)?, path: Field::take(from)? },
            3 => Note::Named { file: Field::take(from)?, stays: Field::take(from)?, path: Field::take(from)? },
            4 => Note::WhereIs { file: Field::take(from)?, birth_ns: Field::take(from)? },
            5 => Note::KeepOff { on: Field::take(from)?, question: Field::take(from)? },
            6 => Note::Off { question: Field::take(from)?, problem: Field::take(from)? },
            7 => Note::TimesSet { file: Field::take(from)?, birth_ns: Field::take(from)? },
            8 => Note::Stuck { file: Field::take(from)?, errno: Field::take(from)? },
            9 => Note::Needs { bytes: Field::take(from)? },
            _ => return None,
        })
    }
}
