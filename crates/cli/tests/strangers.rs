//! Programs that the library is not in, beside others whose bytes are on flash: each reads the newest bytes,
//! and loses none.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use site::{HEADSTART, TestSite, wait_for};

/// Reads a file, overwrites its beginning, or lives on in a child until its input ends.
const TOOL: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char bytes[65536];
    const char *list = getenv("LD_PRELOAD");
    if (argc > 1 && !strcmp(argv[1], "hold")) {
        if (fork()) return 0;
        while (read(0, bytes, 1) > 0) {}
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "list")) return puts(list ? list : "") < 0;
    if (argc > 1 && !strcmp(argv[1], "write")) {
        int fd = open("f", O_WRONLY);
        return write(fd, memset(bytes, 'B', 4096), 4096) != 4096;
    }
    int fd = open("f", O_RDONLY);
    ssize_t length = read(fd, bytes, sizeof bytes);
    return write(1, bytes, length) != length;
}
"#;

/// The tool, linked in some way; nothing where it cannot be.
fn tool(site: &TestSite, options: &[&str]) -> Option<PathBuf> {
    let (source, binary) = (site.path("tool.c"), site.path("tool"));
    fs::write(&source, TOOL).unwrap();
    let mut compiler = Command::new("cc");
    let output = compiler.arg("-o").arg(&binary).arg(&source).args(options).output().expect("there is a C compiler");
    if !output.status.success() {
        println!("SKIPPED: the C compiler makes no program with {options:?} here");
        return None;
    }
    Some(binary)
}

/// A shell script under `run`, in the slow directory, with `$TOOL`.
fn script(site: &TestSite, tool: &Path, script: &str) -> Command {
    let mut run = site.command(HEADSTART);
    run.args(["run", "--", "sh", "-euc", script]).current_dir(&site.slow);
    run.env("TOOL", tool).env("HS", HEADSTART).env("W", site.directory.path());
    run
}

fn done(site: &TestSite, mut command: Command) -> String {
    let output: Output = command.output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    String::from_utf8(output.stderr).unwrap()
}

const FILL: &str = "head -c 65536 /dev/zero | tr '\\0' A | dd of=f bs=4096 iflag=fullblock status=none\n";

/// Beside a file on flash the tool reads it, overwrites a part, and a program of the run sees that.
fn sees_and_is_seen(site: &TestSite, tool: &Path, reason: &str) {
    let said = done(
        site,
        script(
            site,
            tool,
            &format!(
                "{FILL}\"$TOOL\" > \"$W/read\"\n\"$TOOL\" write\ncat f > \"$W/again\"\n{FILL}\"$TOOL\" > \"$W/last\""
            ),
        ),
    );
    assert_eq!(said.matches(reason).count(), 1, "said once: {said}");
    let (a, ba) = (vec![b'A'; 65536], [vec![b'B'; 4096], vec![b'A'; 61440]].concat());
    for (name, expected) in [("read", &a), ("again", &ba), ("last", &a)] {
        assert!(fs::read(site.path(name)).unwrap() == *expected, "{name}");
    }
    assert!(site.figure("/requests/absorbed_requests_total") >= 32, "before and between, flash served");
    assert_eq!(site.figure("/strangers"), 0);
    assert_eq!(site.figure("/service/strangers_total"), 3);
    assert!(fs::read(site.slow.join("f")).unwrap() == a);
}

#[test]
fn a_static_program_reads_what_was_on_flash_and_what_it_writes_is_seen() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-static"]) else { return };
    sees_and_is_seen(&site, &tool, "is statically linked");
}

#[test]
fn a_program_of_another_libc_starts_without_the_library_and_sees_what_was_on_flash() {
    let site = TestSite::with_capacity("16MiB");
    // glibc's linker under the name of musl's: what is looked at is the name.
    let linker = site.path("ld-musl-x86_64.so.1");
    let Some(real) =
        ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].into_iter().find(|path| Path::new(path).exists())
    else {
        return println!("SKIPPED: no dynamic linker of glibc where it usually is");
    };
    std::os::unix::fs::symlink(real, &linker).unwrap();
    let Some(tool) = tool(&site, &[&format!("-Wl,--dynamic-linker={}", linker.display())]) else { return };
    sees_and_is_seen(&site, &tool, "is linked with another libc");
    done(&site, script(&site, &tool, "LD_PRELOAD=\"libm.so.6:$LD_PRELOAD\" \"$TOOL\" list > \"$W/list\""));
    assert_eq!(fs::read_to_string(site.path("list")).unwrap(), "libm.so.6:\n");
    // `run` does the same for its own.
    let output = site.command(HEADSTART).args(["run", "--"]).arg(&tool).arg("list").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "\n", "{}", site.say(&output));
}

#[test]
fn a_program_of_thirty_two_bits_reads_what_was_on_flash() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-m32"]) else { return };
    sees_and_is_seen(&site, &tool, "is built for another machine");
}

#[test]
fn a_script_whose_interpreter_is_static_reads_what_was_on_flash() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-static"]) else { return };
    let text = site.path("script");
    // By another process: one that a test beside this one starts would have it open for writing, and it could
    // not be executed.
    let made = format!("echo '#!{}' > '{1}'; chmod 755 '{1}'", tool.display(), text.display());
    assert!(Command::new("sh").args(["-c", &made]).status().unwrap().success());
    let said = done(
        &site,
        script(
            &site,
            &text,
            &format!(
                "{FILL}\"$TOOL\" > \"$W/read\"; python3 -c 'import os, subprocess; subprocess.run([os.environ[\"TOOL\"]], stdout=open(os.environ[\"W\"] + \"/spawned\", \"w\"))'"
            ),
        ),
    );
    assert_eq!(said.matches("is statically linked").count(), 1, "{said}");
    // The kernel hands the script's own name to the tool, which takes it for no word that it knows.
    for name in ["read", "spawned"] {
        assert!(fs::read(site.path(name)).unwrap() == [b'A'; 65536], "{name}");
    }
}

#[test]
fn nothing_comes_to_flash_while_what_a_static_program_started_lives_also_under_an_agent_started_anew() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-static"]) else { return };
    let end = site.path("end");
    nix::unistd::mkfifo(&end, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = format!(
        "{FILL}\"$TOOL\" hold < \"$W/end\"
touch \"$W/held\"; while [ ! -e \"$W/go\" ]; do sleep 0.02; done
{FILL}touch \"$W/filled\"; while [ -e \"$W/go\" ]; do sleep 0.02; done
{FILL}cat f > \"$W/read\""
    );
    let mut run = script(&site, &tool, &text).spawn().unwrap();
    // Its input, which its child has as well.
    let writer = fs::OpenOptions::new().write(true).open(&end).unwrap();
    wait_for("the program has left a child", || site.path("held").exists());
    assert_eq!((site.figure("/strangers"), site.figure("/mapped_bytes")), (1, 0), "its child counts");
    site.kill_agent();
    wait_for("another agent serves", || site.agent().is_some());
    assert_eq!(site.figure("/strangers"), 1, "the next agent knows");
    fs::write(site.path("go"), "").unwrap();
    wait_for("the file was written again", || site.path("filled").exists());
    assert_eq!((site.figure("/mapped_bytes"), site.figure("/dirty_bytes")), (0, 0));
    assert!(fs::read(site.slow.join("f")).unwrap() == [b'A'; 65536], "on disk at once");
    let absorbed = site.figure("/requests/absorbed_requests_total");
    drop(writer);
    wait_for("the agent sees its end", || site.figure("/strangers") == 0);
    fs::remove_file(site.path("go")).unwrap();
    assert!(run.wait().unwrap().success());
    assert!(site.figure("/requests/absorbed_requests_total") >= absorbed + 16, "flash serves again");
    assert!(fs::read(site.path("read")).unwrap() == [b'A'; 65536]);
}

#[test]
fn a_site_may_only_name_such_programs_or_refuse_them() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-static"]) else { return };
    let warned = done(&site, {
        let mut run = script(&site, &tool, &format!("{FILL}\"$TOOL\" list"));
        run.env("HEADSTART_STRANGERS", "warn");
        run
    });
    assert!(warned.contains("it sees only what was written back"), "{warned}");
    assert_eq!(site.figure("/service/strangers_total"), 0);
    let refused = done(&site, {
        let text = format!(
            "{FILL}\"$TOOL\" list && exit 1; python3 -c 'import os, subprocess
try: subprocess.run([os.environ[\"TOOL\"]], close_fds=False)
except PermissionError: os._exit(7)' || test $? = 7"
        );
        let mut run = script(&site, &tool, &text);
        run.env("HEADSTART_STRANGERS", "refuse");
        run
    });
    assert!(refused.contains("it is not started"), "{refused}");
    let mut run = site.command(HEADSTART);
    let output = run.args(["run", "--"]).arg(&tool).arg("list").env("HEADSTART_STRANGERS", "refuse").output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", site.say(&output));
    site.fail(
        125,
        &["--site", wrong(&site).to_str().unwrap(), "run", "--", "true"],
        &["strangers", "wait, warn or refuse"],
    );
}

/// A site file with a word that nothing is called by.
fn wrong(site: &TestSite) -> PathBuf {
    let path = site.path("wrong.toml");
    fs::write(&path, format!("strangers = \"ignore\"\n{}", fs::read_to_string(&site.file).unwrap())).unwrap();
    path
}

#[test]
fn bytes_that_cannot_go_back_are_named_and_keep_no_program_from_starting() {
    let site = TestSite::with_capacity("16MiB");
    let Some(tool) = tool(&site, &["-static"]) else { return };
    let text = format!("{FILL}(export HEADSTART=off; exec sh -c 'echo changed > f')\n\"$TOOL\" list");
    let output = script(&site, &tool, &text).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", site.say(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not everything went back") && said.contains("/slow/f"), "{said}");
}

#[test]
fn a_program_with_capabilities_or_anothers_rights_reads_what_was_on_flash() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !nix::unistd::getuid().is_root() || !has("setpriv") || !has("setcap") {
        return println!("SKIPPED: not root, or no setpriv or setcap");
    }
    let nobody = 65534;
    // Not on a tmpfs, which may be mounted nosuid.
    let place = tempfile::Builder::new().prefix("rights-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let site = TestSite::with_capacity("16MiB");
    let Some(built) = tool(&site, &[]) else { return };
    for (name, reason) in
        [("capable", "has capabilities of its own"), ("setuid", "runs with the rights of another user")]
    {
        let program = place.path().join(name);
        assert!(Command::new("cp").args([&built, &program]).status().unwrap().success());
        if name == "setuid" {
            fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        } else if !Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status().unwrap().success() {
            println!("SKIPPED: files have no capabilities here");
            continue;
        }
        let site = TestSite::with_capacity("16MiB");
        let chown = Command::new("chown").args(["-R", "65534:65534"]).arg(site.directory.path()).status().unwrap();
        assert!(chown.success());
        let text = format!("{FILL}\"$TOOL\" > \"$W/read\"; cat f > \"$W/again\"");
        let mut run = site.command("setpriv");
        run.args([
            &format!("--reuid={nobody}"),
            &format!("--regid={nobody}"),
            "--clear-groups",
            HEADSTART,
            "run",
            "--",
        ]);
        run.args(["sh", "-euc", &text]).current_dir(&site.slow).env("TOOL", &program).env("W", site.directory.path());
        let output = run.output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("failed to execute") {
            return println!("SKIPPED: others may not run {HEADSTART}");
        }
        assert!(output.status.success(), "{}", site.say(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason), "{}", site.say(&output));
        for name in ["read", "again"] {
            assert!(fs::read(site.path(name)).unwrap() == [b'A'; 65536], "{name}");
        }
        let mut stop = site.command("setpriv");
        stop.args([&format!("--reuid={nobody}"), &format!("--regid={nobody}"), "--clear-groups", HEADSTART, "stop"]);
        assert!(stop.status().unwrap().success());
    }
}
