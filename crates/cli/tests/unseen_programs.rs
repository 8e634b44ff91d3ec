//! Programs that the library cannot be in, and others that are preloaded beside it.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use site::{HEADSTART, TestSite};

/// A C program; nothing where it cannot be compiled so.
fn compiled(site: &TestSite, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (text, binary) = (site.path(&format!("{name}.c")), site.path(name));
    fs::write(&text, source).unwrap();
    let status =
        Command::new("cc").args(options).arg("-o").arg(&binary).arg(&text).status().expect("there is a C compiler");
    status.success().then_some(binary)
}

fn said(site: &TestSite, program: &[&str]) -> usize {
    let output = site.command(HEADSTART).args(["run", "--"]).args(program).output().unwrap();
    assert!(output.status.success(), "{program:?}: {}", site.say(&output));
    String::from_utf8_lossy(&output.stderr).matches("is statically linked").count()
}

#[test]
fn a_static_program_is_named_whoever_starts_it_once_a_run() {
    let site = TestSite::with_capacity("1MiB");
    if !Path::new("/usr/lib/x86_64-linux-gnu/libc.a").exists() {
        println!("SKIPPED: no static libc");
        return;
    }
    let program = compiled(&site, "static", "int main(void) { return 0; }", &["-static"]).unwrap();
    let (program, script) = (program.to_str().unwrap(), format!("for k in 1 2 3; do {}; done", program.display()));
    assert_eq!(said(&site, &[program]), 1);
    for _ in 0..2 {
        assert_eq!(said(&site, &["sh", "-c", &script]), 1, "once a run");
    }
    let python = format!("import subprocess\nfor k in range(3): subprocess.run(['{program}'], check=True)");
    assert_eq!(said(&site, &["python3", "-c", &python]), 1);
    assert_eq!(said(&site, &["sh", "-c", "ls /; cat /dev/null; python3 -c 'import os; os.system(\"true\")'"]), 0);
}

#[test]
fn a_library_that_the_user_preloads_stays_preloaded() {
    let site = TestSite::with_capacity("1MiB");
    let source =
        "#include <stdio.h>\n__attribute__((constructor)) static void here(void) { fputs(\"here\\n\", stderr); }";
    let library = compiled(&site, "here.so", source, &["-shared", "-fPIC"]).unwrap();
    let mut run = site.command(HEADSTART);
    run.args(["run", "--", "python3", "-c", "import os; os.write(os.open('f', os.O_RDWR | os.O_CREAT), b'x' * 4096)"]);
    let output = run.current_dir(&site.slow).env("LD_PRELOAD", &library).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    // Once in `headstart` itself, once in the program.
    assert!(String::from_utf8_lossy(&output.stderr).matches("here").count() >= 2, "{}", site.say(&output));
    assert_eq!(fs::read(site.slow.join("f")).unwrap(), [b'x'; 4096]);
    assert!(site.figure("/requests/absorbed_requests_total") >= 1);
}

#[test]
fn a_library_that_was_just_written_can_be_loaded() {
    let site = TestSite::with_capacity("16MiB");
    let library = compiled(&site, "seven.so", "int seven(void) { return 7; }", &["-shared", "-fPIC"]).unwrap();
    let python = format!(
        "import ctypes, os, shutil
shutil.copyfile('{}', 'seven.so')
assert ctypes.CDLL('./seven.so').seven() == 7",
        library.display()
    );
    let mut run = site.command(HEADSTART);
    let output = run.args(["run", "--", "python3", "-c", &python]).current_dir(&site.slow).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(site.figure("/requests/absorbed_requests_total") >= 1);
}
