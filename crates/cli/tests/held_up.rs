//! Processes that do not go on in the middle of a request, stopped or waiting for something else: nobody
//! waits for them for ever, and what they keep from being written back is said, with their numbers. And
//! processes of other namespaces of process numbers, as containers have them, over a restart of the agent.
//!
//! A test plays its own program: it starts itself again under `headstart run`, as a role.

#[path = "support/site.rs"]
mod site;

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use nix::sys::signal::Signal;
use site::{TestSite, content, kill, managed, role, text, wait_for};

/// A file beside the managed directory, which Headstart does not see.
fn plain(name: &str) -> PathBuf {
    managed().with_file_name("plain").join(name)
}

/// Tells the test something.
fn say(name: &str, what: &str) {
    fs::write(plain("new"), what).unwrap();
    fs::rename(plain("new"), plain(name)).unwrap();
}

fn heard(site: &TestSite, name: &str) -> String {
    let path = site.path("plain").join(name);
    wait_for(name, || path.exists());
    fs::read_to_string(path).unwrap()
}

fn open(name: &str) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(managed().join(name)).unwrap()
}

/// What became of a process that is bound to end.
fn ended(mut child: Child) -> Output {
    wait_for("it ends", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

/// Spawns a program whose first file, which it is to cut, is this one, and whose second is a fifo that nobody
/// writes to yet: until somebody does, the cut is under way.
fn cut_and_wait() {
    open("f").write_all_at(&content(1, 0, 9000), 0).unwrap();
    say("pid", &std::process::id().to_string());
    let path = |path: PathBuf| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (file, fifo, program) = (path(managed().join("f")), path(plain("fifo")), c"/bin/true");
    // SAFETY: the actions are made before they are used, and strings and arrays live across the calls.
    unsafe {
        let mut actions = std::mem::zeroed();
        assert_eq!(libc::posix_spawn_file_actions_init(&mut actions), 0);
        let cut = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        assert_eq!(libc::posix_spawn_file_actions_addopen(&mut actions, 1, file.as_ptr(), cut, 0o644), 0);
        assert_eq!(libc::posix_spawn_file_actions_addopen(&mut actions, 0, fifo.as_ptr(), libc::O_RDONLY, 0), 0);
        let (mut child, arguments) = (0, [program.as_ptr().cast_mut(), std::ptr::null_mut()]);
        let environment = [std::ptr::null_mut()];
        let spawned = libc::posix_spawn(
            &mut child,
            program.as_ptr(),
            &actions,
            std::ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        assert_eq!(spawned, 0);
        let mut status = 0;
        assert_eq!((libc::waitpid(child, &mut status, 0), status), (child, 0));
    }
}

/// Writes and reads what another process is in the way of.
fn write_and_read() {
    let file = open("f");
    for generation in 2..5 {
        let bytes = content(generation, 0, 3000);
        file.write_all_at(&bytes, 0).unwrap();
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == bytes);
    }
}

#[test]
fn writes_and_drains_end_although_a_process_does_not_go_on_and_its_number_is_said() {
    let test = "writes_and_drains_end_although_a_process_does_not_go_on_and_its_number_is_said";
    match role().as_deref() {
        Some("cut") => return cut_and_wait(),
        Some(_) => return write_and_read(),
        None => {}
    }
    let site = TestSite::with_capacity("1MiB");
    let fifo = site.path("plain").join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let cutting = site.play(&["--keep-dirty"], test, "cut").spawn().unwrap();
    let pid = heard(&site, "pid");
    let held_up = || site.status().pointer("/held_up/0/pid").map(|pid| pid.to_string());
    wait_for("it is in the middle of the cut", || held_up().as_deref() == Some(&pid));
    let output = ended(site.play(&["--keep-dirty"], test, "write").spawn().unwrap());
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(site.figure("/agent/refused_held_up_total") > 0);
    let process = format!("process {pid} ");
    site.fail(75, &["drain"], &[&process, "in the middle of a write", "stay on flash"]);
    site.fail(125, &["drain", text(&site.slow.join("f"))], &[&process]);
    site.fail(125, &["stop", "--keep-dirty"], &[&pid, "let them end first"]);
    fs::write(&fifo, b"").unwrap();
    let output = ended(cutting);
    assert!(output.status.success(), "{}", site.say(&output));
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("f")).unwrap() == content(4, 0, 3000));
}

#[test]
fn a_write_ends_whatever_a_stopped_process_was_at() {
    let test = "a_write_ends_whatever_a_stopped_process_was_at";
    match role().as_deref() {
        Some("read") => {
            let (file, mut bytes) = (open("f"), vec![0; 32 << 20]);
            say("pid", &std::process::id().to_string());
            while !plain("stop").exists() {
                file.read_exact_at(&mut bytes, 0).unwrap();
            }
            return;
        }
        Some(_) => return write_and_read(),
        None => {}
    }
    let site = TestSite::with_capacity("1MiB");
    fs::write(site.slow.join("f"), vec![1; 32 << 20]).unwrap();
    let play = |role: &str| {
        // Reads stay with the disks.
        site.play(&["--keep-dirty"], test, role).env("HEADSTART_S4D_READ_SSD_S_PER_BYTE", "1.0").spawn().unwrap()
    };
    let reading = play("read");
    let pid = heard(&site, "pid").parse().unwrap();
    for _ in 0..5 {
        kill(pid, Signal::SIGSTOP);
        let writing = play("write");
        // Continued whatever becomes of it.
        let output = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ended(writing)));
        kill(pid, Signal::SIGCONT);
        let output = output.expect("it ends beside a stopped process");
        assert!(output.status.success(), "{}", site.say(&output));
    }
    fs::write(site.path("plain").join("stop"), b"").unwrap();
    let output = ended(reading);
    assert!(output.status.success(), "{}", site.say(&output));
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("f")).unwrap()[..3000] == content(4, 0, 3000));
}

#[test]
fn a_process_with_a_namespace_of_process_numbers_of_its_own_outlives_the_agent() {
    let test = "a_process_with_a_namespace_of_process_numbers_of_its_own_outlives_the_agent";
    if role().is_some() {
        let file = open("f");
        file.write_all_at(&content(1, 0, 9000), 0).unwrap();
        // A number that is another process's where the agent is.
        say("pid", &std::process::id().to_string());
        wait_for("another agent", || plain("killed").exists());
        file.write_all_at(&content(2, 3000, 3000), 3000).unwrap();
        let mut found = vec![0; 9000];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(
            found
                == [content(1, 0, 9000)[..3000].to_vec(), content(2, 3000, 3000), content(1, 0, 9000)[6000..].to_vec()]
                    .concat()
        );
        return;
    }
    for options in [&["--pid", "--fork"][..], &["--pid", "--fork", "--mount-proc"]] {
        if !Command::new("unshare").args(options).arg("true").status().is_ok_and(|status| status.success()) {
            println!("skipped: 'unshare {}' is not possible here", options.join(" "));
            continue;
        }
        let site = TestSite::with_capacity("1MiB");
        let mut run = site.command(site::HEADSTART);
        run.args(["run", "--keep-dirty", "--", "unshare"]).args(options).arg(std::env::current_exe().unwrap());
        run.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(site::ROLE, "write");
        let run = run.spawn().unwrap();
        assert!(heard(&site, "pid").parse::<u32>().unwrap() < 10, "a number of the new namespace");
        site.kill_agent();
        fs::write(site.path("plain").join("killed"), b"").unwrap();
        let output = ended(run);
        assert!(output.status.success(), "{options:?}: {}", site.say(&output));
        site.succeed(&["drain"]);
        assert!(fs::read(site.slow.join("f")).unwrap()[3000..6000] == content(2, 3000, 3000));
    }
}
