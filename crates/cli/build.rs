//! Tells the program of which commit it is: what `git archive` wrote into a source package, else what git says.

use std::process::Command;

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit.txt");
    let exported = std::fs::read_to_string("commit.txt").expect("the package has a commit.txt");
    let exported = exported.trim();
    let commit = if exported.starts_with("$Format") {
        // What changes when something is committed, in a work tree of its own too.
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
        git(&["rev-parse", "--short=10", "HEAD"])
    } else {
        Some(exported.to_owned())
    };
    println!("cargo::rustc-env=HEADSTART_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}
