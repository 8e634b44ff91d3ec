//! The account of libc's symbols in docs/reference/symbols.md, against libc and the library.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::fake_agent::Agent;
use crate::programs::{compiled, library};

/// Functions that a library exports, without versions; glibc's private ones are its own affair.
fn exported(library: &Path) -> BTreeSet<String> {
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm comes with the compiler");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let functions = text.lines().filter(|line| !line.ends_with("@GLIBC_PRIVATE")).filter_map(|line| {
        let (kind, name) = line.get(17..)?.split_once(' ')?;
        matches!(kind, "T" | "W" | "i").then(|| name.split('@').next().unwrap().to_string())
    });
    functions.collect()
}

/// The libc that programs here run with.
fn libc_path(agent: &Agent) -> std::path::PathBuf {
    let output = Command::new("ldd").arg(compiled(agent, "close_all")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("libc.so")).expect("the program uses libc");
    line.split_whitespace().find(|word| word.starts_with('/')).unwrap().into()
}

/// The words in backquotes in column `column` of the table under a heading.
fn table(document: &str, heading: &str, column: usize) -> BTreeSet<String> {
    let section = document.split(&format!("\n## {heading}\n")).nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(column + 1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_string).collect()
}

/// Whether a pattern with stars matches.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        Some((b'[', rest)) => {
            let end = rest.iter().position(|&byte| byte == b']').expect("a bracket is closed");
            name.split_first()
                .is_some_and(|(first, name)| rest[..end].contains(first) && matches(&rest[end + 1..], name))
        }
        Some((b'?', rest)) => !name.is_empty() && matches(rest, &name[1..]),
        Some((byte, rest)) => name.first() == Some(byte) && matches(rest, &name[1..]),
    }
}

#[test]
fn every_symbol_of_libc_is_hooked_or_accounted_for() {
    let agent = Agent::start();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/symbols.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (hooked, left) = (table(&document, "Hooked", 1), table(&document, "Left alone", 1));
    let (ours, libc) = (exported(&library()), exported(&libc_path(&agent)));
    let ours: BTreeSet<_> =
        ours.into_iter().filter(|name| !name.starts_with("_R") && !name.starts_with("rust_")).collect();
    assert_eq!(ours.difference(&hooked).collect::<Vec<_>>(), Vec::<&String>::new(), "hooked, but not in the document");
    assert_eq!(hooked.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "in the document, but not hooked");
    let accounted = |name: &&String| {
        hooked.contains(*name) || left.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    };
    let forgotten: Vec<_> = libc.iter().filter(|name| !accounted(name)).collect();
    assert!(forgotten.is_empty(), "neither hooked nor in docs/reference/symbols.md: {forgotten:?}");
    let named: Vec<_> = hooked.iter().filter(|name| left.contains(*name)).collect();
    assert!(named.is_empty(), "both hooked and left alone: {named:?}");
    assert!(libc.len() > 2000 && hooked.len() > 180);
}
