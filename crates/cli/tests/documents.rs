//! Manual pages, completion and versions, as a package installs and a user sees them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

fn headstart(words: &[&str]) -> Output {
    Command::new(HEADSTART).args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The commands that `headstart --help` lists.
fn commands() -> Vec<String> {
    let help = text(&headstart(&["--help"]));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn each_command_that_help_lists_has_a_manual_page_and_hidden_ones_have_none() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("new/man1");
    text(&headstart(&["manual", pages.to_str().unwrap()]));
    let page = |name: &str| fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
    let commands = commands();
    assert!(commands.len() > 15 && commands.contains(&"run".into()), "{commands:?}");
    for name in &commands {
        assert!(page(&format!("headstart-{name}")).contains(".SH NAME"), "{name}");
        assert!(page(&format!("headstart-{name}")).contains("headstart\\fR(1)"), "it names the page above: {name}");
        assert!(page("headstart").contains(&format!("headstart\\-{name}(1)")), "{name} is named by the page above");
    }
    assert!(page("headstart").contains("Exit status") && page("headstart-volume-create").contains(".SH OPTIONS"));
    for hidden in ["agent", "launch", "hold-presence", "manual", "sim"] {
        assert!(!pages.join(format!("headstart-{hidden}.1")).exists(), "{hidden}");
        assert!(!page("headstart").contains(&format!("headstart\\-{hidden}(1)")), "{hidden}");
    }
    let output = headstart(&["manual", "/dev/null/man"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/null/man"));
}

/// `man` is what its readers use; its warnings are about pages that cannot be read as they are meant.
#[test]
fn man_takes_every_page_without_a_warning() {
    if Command::new("man").arg("--version").output().is_err() {
        println!("skipped: no man (apt: man-db)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    text(&headstart(&["manual", directory.path().to_str().unwrap()]));
    for entry in fs::read_dir(directory.path()).unwrap() {
        let page = entry.unwrap().path();
        let mut man = Command::new("man");
        let output = man.env("MANWIDTH", "100").args(["--warnings", "-l"]).arg(&page).output().unwrap();
        assert!(text(&output).len() > 200, "{}", page.display());
        assert!(output.stderr.is_empty(), "{}: {}", page.display(), String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn bash_completes_commands_and_their_options_and_nothing_that_is_hidden() {
    let complete = |words: &str, current: &str| {
        let script = format!(
            "source <({HEADSTART} completion bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _headstart headstart '{current}' ''; echo ${{COMPREPLY[@]}}"
        );
        text(&Command::new("bash").args(["-c", &script]).output().unwrap())
    };
    let names: Vec<String> = complete("headstart st", "st").split_whitespace().map(str::to_owned).collect();
    assert_eq!(names, ["status", "stop"]);
    assert!(complete("headstart run --k", "--k").contains("--keep-dirty"));
    assert!(complete("headstart volume cr", "cr").contains("create"));
    for hidden in ["agent", "launch", "hold-presence"] {
        assert!(!complete("headstart ''", "").split_whitespace().any(|word| word == hidden), "{hidden}");
    }
}

/// Shells that are there read their script; each is a different language.
#[test]
fn scripts_for_other_shells_can_be_read_by_them() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = directory.path().join(shell);
        fs::write(&script, text(&headstart(&["completion", shell]))).unwrap();
        match Command::new(shell).arg("-n").arg(&script).output() {
            Ok(output) => assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => println!("skipped: no {shell} (apt: {shell})"),
        }
    }
    let output = headstart(&["completion", "cmd"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("bash"));
}

#[test]
fn the_version_names_the_commit_and_what_must_fit_together() {
    let version = text(&headstart(&["--version"]));
    assert!(version.starts_with(concat!("headstart ", env!("CARGO_PKG_VERSION"), " (commit ")), "{version}");
    let protocol = format!("protocol of library and agent: {}", headstart_protocol::PROTOCOL_VERSION);
    for words in [&protocol, "journal ", "volume ", "trace "] {
        assert!(version.contains(words), "{version}");
    }
    if Path::new("../../.git").exists() {
        let git = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output().unwrap();
        assert!(version.contains(text(&git).trim()), "{version}");
    }
}
