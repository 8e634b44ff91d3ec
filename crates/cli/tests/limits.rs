//! Sizes, numbers and names at their limits, end to end: what is written is what is read, under Headstart and after it.

#[path = "limits/memory.rs"]
mod memory;
#[path = "limits/names.rs"]
mod names;
#[path = "limits/numbers.rs"]
mod numbers;
#[path = "support/site.rs"]
mod site;
#[path = "limits/sizes.rs"]
mod sizes;

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headstart_agent::site::Site;
use headstart_agent::status::ServiceCounters;
use headstart_protocol::SOCKET_FILE;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use site::{TestSite, wait_for};

/// Opens a file for reading and writing, which exists afterwards.
fn opened(path: &Path) -> File {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.as_os_str().as_bytes().escape_ascii()))
}

#[test]
fn the_agents_log_is_bounded_and_the_one_before_it_kept() {
    let site = TestSite::with_capacity("1MiB");
    let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
    settings.agent.as_mut().unwrap().log_bytes_max = Some(2000);
    fs::write(&site.file, settings.to_toml()).unwrap();
    site.succeed(&["run", "--", "true"]);
    let service = || -> ServiceCounters { serde_json::from_value(site.status()["service"].clone()).unwrap() };
    wait_for("the log was put aside three times", || {
        // A packet that is no message is logged.
        let peer = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        use std::os::fd::AsRawFd;
        connect(peer.as_raw_fd(), &UnixAddr::new(&site.runtime().join(SOCKET_FILE)).unwrap()).unwrap();
        send(peer.as_raw_fd(), &[255; 40], MsgFlags::MSG_NOSIGNAL).unwrap();
        service().log_rotations_total >= 3
    });
    let mut logs: Vec<_> = fs::read_dir(site.runtime()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    logs.retain(|name| name.as_bytes().starts_with(b"log"));
    logs.sort();
    assert_eq!(logs, ["log", "log.1"]);
    let before = fs::read_to_string(site.runtime().join("log.1")).unwrap();
    assert!(before.contains("a connection is closed") && before.len() > 2000, "{before}");
    let now = fs::read_to_string(site.runtime().join("log")).unwrap();
    assert!(now.contains("the log before this one is log.1"), "{now}");
    site.succeed(&["run", "--", "true"]);
}
