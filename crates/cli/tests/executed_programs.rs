//! Programs that are built on the managed directory, and executed from there.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use site::{HEADSTART, TestSite};

/// A site with the source of a program that says what its file is called; nothing where there is no compiler.
fn site_with_source() -> Option<TestSite> {
    let site = TestSite::with_capacity("16MiB");
    if !Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: there is no C compiler");
        return None;
    }
    fs::write(site.slow.join("name.c"), "#include <stdio.h>\nint main(int n, char **v) { return puts(v[0]) < 0; }")
        .unwrap();
    Some(site)
}

fn run(site: &TestSite, options: &[&str], script: &str) -> Output {
    let mut command = site.command(HEADSTART);
    command.current_dir(&site.slow).arg("run").args(options).args(["--", "sh", "-c", script]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}: {}\n{}", output.status, site.say(&output));
    output
}

#[test]
fn a_program_just_built_is_executed_in_the_same_run_and_right_after_it() {
    let Some(site) = site_with_source() else { return };
    for number in 0..5 {
        let script = format!("cc -o built name.c && ./built && cp built copy{number} && ./copy{number}; rm built");
        let output = run(&site, &[], &script);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("./built\n./copy{number}\n"));
        let after = Command::new(site.slow.join(format!("copy{number}"))).output().expect("it can be executed");
        assert!(after.status.success());
    }
    assert!(site.figure("/files_known") > 0, "the agent still knows them");
    assert!(site.figure("/requests/absorbed_requests_total") > 0, "{:#}", site.status());
}

#[test]
fn a_program_is_executed_whose_bytes_were_on_flash_alone() {
    let Some(site) = site_with_source() else { return };
    run(&site, &[], "cc -o built name.c");
    // `dd` writes in small pieces, which are absorbed, and nothing but the execution writes them back.
    let copied = "dd if=built of=copy bs=512 status=none && chmod 755 copy";
    let output = run(&site, &[], &format!("{copied} && ./copy && sh -c 'exec ./copy' && ./copy"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "./copy\n".repeat(3));
    assert_eq!(fs::read(site.slow.join("built")).unwrap(), fs::read(site.slow.join("copy")).unwrap());
    // It can be written again, as soon as nobody executes it, and executed again.
    let output =
        run(&site, &[], "dd if=name.c of=copy bs=512 status=none; dd if=built of=copy bs=512 status=none; ./copy");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "./copy\n");
}

/// A site, with a file `source`, of a user whom modes bind; nothing where nobody can be one.
fn site_of_a_user() -> Option<TestSite> {
    if !nix::unistd::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        println!("SKIPPED: being a user whom modes bind needs root and setpriv");
        return None;
    }
    let site = TestSite::with_capacity("16MiB");
    fs::write(site.slow.join("source"), vec![7; 100_000]).unwrap();
    // The programs themselves may lie where only root can go.
    let program = site.path("headstart");
    fs::copy(HEADSTART, &program).unwrap();
    fs::copy(Path::new(HEADSTART).with_file_name("libheadstart.so"), site.path("libheadstart.so")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let user = Some(65534);
    for path in [site.directory.path(), &site.slow, &site.fast, &site.slow.join("source"), &site.file] {
        std::os::unix::fs::chown(path, user, user).unwrap();
    }
    Some(site)
}

/// `headstart ARGUMENTS` as that user, which must succeed.
fn as_user(site: &TestSite, arguments: &[&str]) {
    let mut command = site.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(site.path("headstart")).args(arguments);
    let output = command.current_dir(&site.slow).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}\n{}", output.status, site.say(&output));
}

#[test]
fn a_file_made_read_only_while_its_bytes_wait_on_flash_is_written_back() {
    let Some(site) = site_of_a_user() else { return };
    let headstart = |arguments: &[&str]| as_user(&site, arguments);
    // Synced, closed and read-only, and all of it on flash; the barrier of the second sync finds nobody who
    // has it open.
    let script = "dd if=source of=a bs=512 conv=fsync status=none && chmod 444 a && \
                  dd if=source of=b bs=512 conv=fsync status=none";
    headstart(&["run", "--keep-dirty", "--", "sh", "-c", script]);
    assert!(site.figure("/dirty_bytes") >= 200_000, "{:#}", site.status());
    headstart(&["drain"]);
    for name in ["a", "b"] {
        assert!(fs::read(site.slow.join(name)).unwrap() == vec![7; 100_000], "{name}");
    }
    headstart(&["stop"]);
}

#[test]
fn a_file_created_with_a_mode_that_forbids_writing_is_written_all_the_same() {
    let Some(site) = site_of_a_user() else { return };
    as_user(&site, &["run", "--", "sh", "-c", "umask 222; dd if=source of=a bs=512 status=none && cmp source a"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == vec![7; 100_000]);
    assert_eq!(fs::metadata(site.slow.join("a")).unwrap().permissions().mode() & 0o777, 0o444);
    as_user(&site, &["stop"]);
}
