//! The library comes up in what `run` starts, or it is said that it did not.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use site::{HEADSTART, TestSite};

const FILL: &str = "head -c 65536 /dev/zero | tr '\\0' A | dd of=f bs=4096 iflag=fullblock status=none\n";

/// A directory of the test with the program and its library.
fn installed(site: &TestSite, name: &str) -> PathBuf {
    let directory = site.path(name);
    fs::create_dir(&directory).unwrap();
    // By another process: one that a test beside this one starts would have the copy open for writing, and it
    // could not be executed.
    let files = ["headstart", "libheadstart.so"].map(|file| Path::new(HEADSTART).with_file_name(file));
    assert!(Command::new("cp").args(files).arg(&directory).status().unwrap().success());
    directory
}

#[test]
fn an_installation_whose_path_the_dynamic_linker_would_split_works_whatever_the_runtime_directory_is_called() {
    for (name, base) in [("my tools", "runtime"), ("tools:2", "run time"), ("$LIB", "runtime")] {
        let site = TestSite::with_capacity("16MiB");
        let program = installed(&site, name).join("headstart");
        let mut run = site.command(&program);
        let text = format!("{FILL}env -i /bin/cat f | cmp - \"$W/expected\"; cat f | cmp - \"$W/expected\"");
        fs::write(site.path("expected"), [b'A'; 65536]).unwrap();
        run.args(["run", "--keep-dirty", "--", "sh", "-euc", &text])
            .current_dir(&site.slow)
            .env("W", site.directory.path());
        let output = run.env("HEADSTART_RUNTIME_BASE", site.path(base)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", site.say(&output));
        let mut stop = site.command(&program);
        stop.env("HEADSTART_RUNTIME_BASE", site.path(base));
        assert!(fs::read(site.slow.join("f")).unwrap() != [b'A'; 65536], "{name}: the bytes are on flash");
        assert!(stop.args(["drain"]).status().unwrap().success());
        let mut stop = site.command(&program);
        assert!(stop.env("HEADSTART_RUNTIME_BASE", site.path(base)).arg("stop").status().unwrap().success());
        assert!(fs::read(site.slow.join("f")).unwrap() == [b'A'; 65536], "{name}");
    }
}

#[test]
fn a_library_that_cannot_be_one_is_refused_before_the_program_starts() {
    let site = TestSite::with_capacity("16MiB");
    let library = site.path("libheadstart.so");
    fs::write(&library, "no library").unwrap();
    let mut run = site.command(HEADSTART);
    let output = run.args(["run", "--", "touch", "started"]).env("HEADSTART_LIBRARY", &library).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is none for this machine"), "{}", site.say(&output));
}

#[test]
fn a_library_that_the_dynamic_linker_ignores_is_noticed_while_the_program_runs_and_when_it_has_ended() {
    let site = TestSite::with_capacity("16MiB");
    // Of a system that the dynamic linker does not know, and so grumbles about.
    let library = site.path("libheadstart.so");
    let mut bytes = fs::read(Path::new(HEADSTART).with_file_name("libheadstart.so")).unwrap();
    bytes[7] = 0xfd;
    fs::write(&library, bytes).unwrap();
    let run = |strangers: &str, program: &[&str]| {
        let mut run = site.command(HEADSTART);
        run.args(["run", "--"]).args(program).env("HEADSTART_LIBRARY", &library).env("HEADSTART_STRANGERS", strangers);
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("runs without the library"), "{said}");
        output.status.code()
    };
    assert_eq!(run("wait", &["true"]), Some(0));
    assert_eq!(run("wait", &["sh", "-c", "sleep 2; exit 3"]), Some(3));
    assert_eq!(site.figure("/service/strangers_total"), 1, "flash was emptied for the one that ran on");
    assert_eq!(run("refuse", &["sleep", "100"]), Some(125));
}

#[test]
fn a_library_that_is_removed_while_programs_run_costs_no_byte() {
    let site = TestSite::with_capacity("16MiB");
    let library = installed(&site, "installed").join("libheadstart.so");
    let text = format!("{FILL}rm \"$HEADSTART_LIBRARY\"\n/bin/cat f > \"$W/read\"");
    let mut run = site.command(HEADSTART);
    run.args(["run", "--", "sh", "-euc", &text]).current_dir(&site.slow).env("W", site.directory.path());
    let output = run.env("HEADSTART_LIBRARY", &library).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("whose file is gone"), "{}", site.say(&output));
    assert!(fs::read(site.path("read")).unwrap() == [b'A'; 65536]);
}

#[test]
fn a_program_built_with_a_sanitizer_has_its_runtime_first_and_what_it_starts_does_not() {
    let site = TestSite::with_capacity("16MiB");
    let (source, program) = (site.path("p.c"), site.path("p"));
    let text = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *bytes = malloc(4096);
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    for (int k = 0; k < 4096; k++) bytes[k] = (char)k;
    int bad = pwrite(fd, bytes, 4096, 0) != 4096 || pread(fd, bytes, 4096, 0) != 4096 || bytes[77] != 77;
    free(bytes);
    /* What a user chose himself goes for all that is started. */
    return bad || argc == 1 && system("case \"$LD_PRELOAD\" in *lib?san*) exit 1; esac; cat f | wc -c | grep -q 4096");
}
"#;
    fs::write(&source, text).unwrap();
    for sanitizer in ["address", "thread", "leak", "undefined"] {
        let mut compiler = Command::new("cc");
        compiler.arg(format!("-fsanitize={sanitizer}")).arg("-o").arg(&program).arg(&source);
        // A runtime may refuse to start at all here (a tracer, an address space laid out at random).
        let plain = || Command::new(&program).current_dir(site.path("plain")).env("LD_PRELOAD", "").output();
        if !compiler.output().unwrap().status.success() || !plain().is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: no program with -fsanitize={sanitizer} runs here");
            continue;
        }
        let needed = Command::new("ldd").arg(&program).output().unwrap();
        let needed = String::from_utf8(needed.stdout).unwrap();
        let runtime =
            needed.split_whitespace().find(|word| word.starts_with('/') && word.contains("san.so")).unwrap_or("");
        let library = Path::new(HEADSTART).with_file_name("libheadstart.so");
        let first = format!("LD_PRELOAD={runtime}:{}", library.display());
        let (program, shell) = (program.to_str().unwrap(), format!("'{0}'; env -i '{0}'", program.display()));
        let ways: [&[&str]; 4] = [
            &[program],
            &["sh", "-euc", &shell],
            &["env", "ASAN_OPTIONS=verify_asan_link_order=0", program],
            &["env", &first, program, "alone"],
        ];
        for way in ways {
            let absorbed = || site.agent().map_or(0, |_| site.figure("/requests/absorbed_requests_total"));
            let before = absorbed();
            let output =
                site.command(HEADSTART).args(["run", "--"]).args(way).current_dir(&site.slow).output().unwrap();
            assert!(output.status.success(), "{sanitizer}, {way:?}: {}", site.say(&output));
            assert!(absorbed() > before, "{sanitizer}, {way:?}");
        }
    }
}
