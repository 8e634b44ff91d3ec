//! A managed directory has one owner, who is named in it, and moves with it.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use serde_json::Value;
use site::{
    HEADSTART, TestSite, content, managed, role, said, text, verb_and_generation, wait_for, whole, write_whole,
};

/// Role `write N`: the whole of `a` at generation N, in pieces. `read N` expects it. `write-wait N` stays afterwards.
fn play() {
    let (verb, generation) = verb_and_generation();
    let path = managed().join("a");
    if verb == "read" {
        assert!(fs::read(path).unwrap() == whole(generation), "wrong bytes");
        return;
    }
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    write_whole(&file, generation);
    if verb == "write-wait" {
        fs::write(managed().with_file_name("written"), std::process::id().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    }
}

fn owner(site: &TestSite) -> Option<Value> {
    let text = fs::read(site.slow.join(".headstart-owner")).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// A command of the same site on another node, with a runtime directory of its own.
fn elsewhere(site: &TestSite, arguments: &[&str]) -> Output {
    let mut command = site.command(HEADSTART);
    command.env("HEADSTART_NODE", "elsewhere").env("HEADSTART_RUNTIME_BASE", site.path("elsewhere"));
    command.args(arguments).output().unwrap()
}

#[test]
fn a_claim_names_its_owner_and_goes_when_the_agent_ends_with_nothing_dirty() {
    let test = "a_claim_names_its_owner_and_goes_when_the_agent_ends_with_nothing_dirty";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.succeed(&["run", "--", "true"]);
    let found = owner(&site).expect("the agent claimed it");
    assert_eq!(found["uid"], nix::unistd::getuid().as_raw());
    assert_eq!(found["pid"].as_i64().unwrap() as i32, site.agent().unwrap());
    assert_eq!(found["fast"], text(&site.fast));
    let mode = fs::metadata(site.slow.join(".headstart-owner")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "others must be able to read who owns it");
    site.succeed(&["stop"]);
    assert_eq!(owner(&site), None);
    site.played(&["--keep-dirty"], test, "write 1");
    site.succeed(&["stop", "--keep-dirty"]);
    assert!(owner(&site).is_some(), "what is dirty is owed");
    site.succeed(&["drain"]);
    site.succeed(&["stop"]);
    assert_eq!(fs::read_dir(&site.slow).unwrap().count(), 1, "only the program's file is left");
}

#[test]
fn an_agent_that_was_killed_is_followed_by_one_of_the_same_user_and_node() {
    let test = "an_agent_that_was_killed_is_followed_by_one_of_the_same_user_and_node";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write 1");
    let first = owner(&site).unwrap();
    site.kill_agent();
    assert_eq!(owner(&site), Some(first.clone()));
    site.played(&[], test, "read 1");
    assert_ne!(owner(&site).unwrap()["pid"], first["pid"]);
}

#[test]
fn another_node_is_told_who_owns_the_directory_and_never_uses_the_slow_file_alone() {
    let test = "another_node_is_told_who_owns_the_directory_and_never_uses_the_slow_file_alone";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write 1");
    let node = owner(&site).unwrap()["node"].as_str().unwrap().to_string();
    // While its agent lives, other nodes join.
    site.succeed(&["stop", "--keep-dirty"]);
    let mark = site.path("ran");
    for command in [&["run", "--", "touch", text(&mark)][..], &["drain"]] {
        let output = elsewhere(&site, command);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        for word in [text(&site.slow), &node, "headstart drain", "headstart disown"] {
            assert!(said(&output).contains(word), "no '{word}' in {}", said(&output));
        }
    }
    assert!(!mark.exists(), "the program must not run on old bytes");
    let output = elsewhere(&site, &["check"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(said(&output).contains("0-60000"), "{}", said(&output));
    site.succeed(&["drain"]);
    site.succeed(&["stop"]);
    let output = elsewhere(&site, &["run", "--", "true"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(owner(&site).unwrap()["node"], "elsewhere");
    assert!(elsewhere(&site, &["stop"]).status.success());
}

#[test]
fn a_node_that_is_gone_for_good_is_disowned_and_its_flash_is_not_trusted_when_it_comes_back() {
    let test = "a_node_that_is_gone_for_good_is_disowned_and_its_flash_is_not_trusted_when_it_comes_back";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), whole(0)).unwrap();
    site.played(&["--keep-dirty"], test, "write 1");
    site.succeed(&["stop", "--keep-dirty"]);
    let gone = site.path("gone");
    fs::rename(site.fast.join(".headstart"), &gone).unwrap();

    let output = elsewhere(&site, &["disown"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("0-60000") && said(&output).contains("--yes"), "{}", said(&output));
    assert!(owner(&site).is_some(), "nothing was given up");
    let output = elsewhere(&site, &["disown", "--yes", text(&site.slow)]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(owner(&site), None);
    let output = elsewhere(&site, &["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    // The node comes back with its flash: what it kept must not go over what was made of the file since.
    fs::rename(&gone, site.fast.join(".headstart")).unwrap();
    fs::write(site.slow.join("a"), whole(2)).unwrap();
    site.played(&[], test, "read 2");
    assert!(fs::read(site.slow.join("a")).unwrap() == whole(2));
    site.played(&["--keep-dirty"], test, "write 3");
    site.kill_agent();
    site.played(&[], test, "read 3");
}

#[test]
fn another_user_is_told_who_owns_the_directory() {
    let test = "another_user_is_told_who_owns_the_directory";
    if role().is_some() {
        return play();
    }
    if !nix::unistd::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return println!("SKIPPED: being another user needs root and setpriv");
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write 1");
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(site.directory.path(), 0o755);
    open(&site.slow, 0o777);
    // Nobody's own site: the same slow directory, flash of its own.
    let mine = site.path("nobodys");
    fs::create_dir_all(mine.join("fast")).unwrap();
    let toml = fs::read_to_string(&site.file).unwrap().replace(text(&site.fast), text(&mine.join("fast")));
    fs::write(mine.join("site.toml"), toml).unwrap();
    nix::unistd::chown(&mine, Some(65534.into()), Some(65534.into())).unwrap();
    nix::unistd::chown(&mine.join("fast"), Some(65534.into()), Some(65534.into())).unwrap();
    // The program itself may lie where only root can go.
    let program = mine.join("headstart");
    fs::copy(HEADSTART, &program).unwrap();
    fs::copy(Path::new(HEADSTART).with_file_name("libheadstart.so"), mine.join("libheadstart.so")).unwrap();
    open(&program, 0o755);
    let nobody = |arguments: &[&str]| {
        let mut command = site.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(arguments);
        command.env("HEADSTART_SITE", mine.join("site.toml")).env("HEADSTART_RUNTIME_BASE", mine.join("runtime"));
        command.current_dir("/").output().unwrap()
    };
    for alive in [true, false] {
        if !alive {
            site.succeed(&["stop", "--keep-dirty"]);
        }
        let output = nobody(&["run", "--", "true"]);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        for word in [text(&site.slow), "uid 0", "headstart drain", text(&site.fast)] {
            assert!(said(&output).contains(word), "no '{word}' in {}", said(&output));
        }
        assert_eq!(nobody(&["check"]).status.code(), Some(78));
    }
    site.succeed(&["drain"]);
    site.succeed(&["stop"]);
    let output = nobody(&["run", "--", "true"]);
    assert!(output.status.success(), "{}", said(&output));
    site.fail(125, &["run", "--", "true"], &["uid 65534"]);
    assert!(nobody(&["stop"]).status.success());
}

/// A site inside or around another one, with flash of its own; its site file.
fn neighbour(site: &TestSite, slow: &Path) -> String {
    let fast = site.path("other-fast");
    fs::create_dir_all(&fast).unwrap();
    let toml = fs::read_to_string(&site.file).unwrap();
    let toml = toml.replace(&format!("\"{}\"", text(&site.slow)), &format!("\"{}\"", text(slow)));
    let toml = toml.replace(text(&site.fast), text(&fast));
    let file = site.path("other.toml");
    fs::write(&file, toml).unwrap();
    text(&file).to_string()
}

/// What the list of a directory's nodes says, and how often it was changed.
fn roster(fast: &Path) -> (usize, String) {
    let views = fast.join(".headstart/cluster/views");
    let is_view = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "view");
    let views = fs::read_dir(views).unwrap().map(|entry| entry.unwrap().path()).filter(is_view);
    let newest = views.max().unwrap();
    let version = newest.extension().unwrap().to_str().unwrap().parse().unwrap();
    (version, String::from_utf8_lossy(&fs::read(newest).unwrap()).into_owned())
}

#[test]
fn a_node_alone_lists_itself_and_has_nothing_else_of_a_cluster() {
    let site = TestSite::with_capacity("64MiB");
    site.succeed(&["run", "--", "sh", "-c", &format!("echo x >{}", site.slow.join("f").display())]);
    let (version, said) = roster(&site.fast);
    assert!(said.contains("\"standing\":\"unarmed\"") && said.contains("\"addresses\":[]"), "{said}");
    assert!(!site.slow.join(".headstart-cluster").exists(), "nothing is there to lock");
    site.succeed(&["run", "--", "true"]);
    assert_eq!(roster(&site.fast).0, version, "who only looks changes nothing");
    site.kill_agent();
    site.succeed(&["run", "--", "true"]);
    let (next, said) = roster(&site.fast);
    assert!(next == version + 1 && said.contains("\"incarnation\":1"), "{said}");
    site.succeed(&["stop"]);
    let (last, said) = roster(&site.fast);
    assert!(last == next + 1 && said.contains("\"standing\":\"left\""), "{said}");
}

#[test]
fn a_directory_inside_a_managed_one_is_refused_and_so_is_flash_there() {
    let site = TestSite::with_capacity("64MiB");
    let inner = site.slow.join("inner");
    fs::create_dir(&inner).unwrap();
    site.succeed(&["run", "--", "true"]);
    let other = neighbour(&site, &inner);
    site.fail(125, &["--site", &other, "run", "--", "true"], &[text(&inner), text(&site.slow), "managed already"]);
    assert!(!inner.join(".headstart-owner").exists());
    let toml = fs::read_to_string(&other).unwrap();
    let beside = site.path("beside");
    fs::create_dir(&beside).unwrap();
    let swapped = toml.replace(text(&inner), text(&beside)).replace(text(&site.path("other-fast")), text(&inner));
    fs::write(&other, swapped).unwrap();
    site.fail(125, &["--site", &other, "run", "--", "true"], &[text(&inner), "managed already"]);
}

#[test]
fn a_directory_around_a_managed_one_cannot_open_its_files() {
    let site = TestSite::with_capacity("64MiB");
    let inner = site.slow.join("deep/inner");
    fs::create_dir_all(&inner).unwrap();
    let other = neighbour(&site, &inner);
    site.succeed(&["--site", &other, "run", "--", "true"]);
    fs::write(inner.join("a"), b"x").unwrap();
    fs::write(site.slow.join("b"), b"x").unwrap();
    let output = site.headstart(&["run", "--", "cp", text(&inner.join("a")), text(&site.path("copy"))]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("managed already") && said(&output).contains(text(&inner)), "{}", said(&output));
    site.succeed(&["run", "--", "cp", text(&site.slow.join("b")), text(&site.path("copy"))]);
    site.succeed(&["--site", &other, "stop"]);
    site.succeed(&["run", "--", "cp", text(&inner.join("a")), text(&site.path("copy"))]);
}

#[test]
fn two_jobs_on_one_file_see_each_other() {
    let test = "two_jobs_on_one_file_see_each_other";
    let (piece, pieces) = (4000u64, 200u64);
    if let Some(role) = role() {
        // Each writes its own pieces, then waits for the other's, one after the other.
        let mine: u64 = role.parse().unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(managed().join("a")).unwrap();
        for k in 0..pieces {
            let own = (2 * k + mine) * piece;
            file.write_all_at(&content(1, own, piece as usize), own).unwrap();
            let theirs = (2 * k + 1 - mine) * piece;
            let expected = content(1, theirs, piece as usize);
            let mut found = vec![0; piece as usize];
            wait_for("the other job's piece", || {
                file.read_exact_at(&mut found, theirs).unwrap();
                found == expected
            });
        }
        return;
    }
    let site = TestSite::with_capacity("256KiB");
    fs::write(site.slow.join("a"), vec![0; (2 * pieces * piece) as usize]).unwrap();
    let jobs: Vec<_> = ["0", "1"]
        .iter()
        .map(|role| site.play(&[], test, role).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for job in jobs {
        let output = job.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", output.status, site.say(&output));
    }
    let expected: Vec<u8> = (0..2 * pieces).flat_map(|k| content(1, k * piece, piece as usize)).collect();
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == expected);
}

#[test]
fn a_drained_agent_that_was_stopped_is_started_again_with_the_next_run() {
    let test = "a_drained_agent_that_was_stopped_is_started_again_with_the_next_run";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    for generation in 1..4 {
        site.played(&[], test, &format!("write {generation}"));
        site.succeed(&["stop"]);
        assert!(fs::read(site.slow.join("a")).unwrap() == whole(generation));
        site.played(&[], test, &format!("read {generation}"));
        assert!(site.figure("/requests/flash_read_bytes_total") > 0, "clean bytes are found again");
    }
}

#[test]
fn a_claim_is_kept_while_programs_outlive_a_terminated_agent() {
    let test = "a_claim_is_kept_while_programs_outlive_a_terminated_agent";
    if role().is_some() {
        return play();
    }
    use std::os::unix::process::CommandExt;
    let site = TestSite::with_capacity("64MiB");
    let mut run = site.play(&["--keep-dirty"], test, "write-wait 1").process_group(0).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    let agent = site.agent().unwrap();
    site::kill(agent, Signal::SIGTERM);
    wait_for("the agent has ended", || site::has_ended(agent));
    assert!(owner(&site).is_some());
    wait_for("its process is written", || fs::metadata(site.path("written")).unwrap().len() > 0);
    let program: i32 = fs::read_to_string(site.path("written")).unwrap().parse().unwrap();
    site::kill(-(run.id() as i32), Signal::SIGKILL);
    run.wait().unwrap();
    wait_for("the program has ended", || site::has_ended(program));
    site.played(&[], test, "read 1");
}

/// What `work` does as another user, in a thread of its own: the kernel knows users by thread.
#[expect(clippy::disallowed_methods, reason = "no hook is at work in this program")]
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let nobody = || {
        // SAFETY: the call looks at nothing but its numbers; the library's own would tell the other threads.
        let result = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, -1, 65534, -1) };
        assert_eq!(result, 0, "root may be anybody");
        work()
    };
    std::thread::scope(|scope| scope.spawn(nobody).join().unwrap())
}

fn connected(path: &Path) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(60, 0))?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

#[test]
fn only_its_user_and_root_reach_an_agent() {
    if !nix::unistd::getuid().is_root() {
        println!("SKIPPED: being another user needs root");
        return;
    }
    let site = TestSite::with_capacity("1MiB");
    site.succeed(&["run", "--", "true"]);
    let runtime = site.runtime();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&runtime), 0o700);
    let is_socket = |path: &PathBuf| fs::metadata(path).unwrap().file_type().is_socket();
    let sockets: Vec<PathBuf> =
        fs::read_dir(&runtime).unwrap().map(|entry| entry.unwrap().path()).filter(is_socket).collect();
    assert!(!sockets.is_empty(), "{runtime:?}");
    for socket in sockets {
        assert_eq!(mode(&socket), 0o600);
        let refused = as_nobody(|| connected(&socket)).unwrap_err();
        assert_eq!(refused, nix::errno::Errno::EACCES, "{socket:?}");
        // And if somebody opened the way.
        for (path, mode) in
            [(site.directory.path(), 0o711), (&site.runtime_base(), 0o711), (&runtime, 0o711), (&socket, 0o666)]
        {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut answer = [0; 100];
        let connection = as_nobody(|| connected(&socket)).unwrap();
        assert_eq!(
            recv(connection.as_raw_fd(), &mut answer, MsgFlags::empty()),
            Ok(0),
            "{socket:?} is closed to others"
        );
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert!(site.agent().is_some(), "it serves its own user");
}
