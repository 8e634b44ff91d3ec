//! The control socket of a served volume.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::control::{Answer, Client, Command, ControlError, directory};
use headstart_volume::server::Server;
use headstart_volume::settings::{Mode, Settings};
use headstart_volume::status::State;
use headstart_volume::trace::{DeviceName, Operation};

use crate::bench::{Files, UUID, filled, flash_bytes, settings};

#[test]
fn a_command_finds_its_server_by_name_or_device_and_is_carried_out() {
    let runtime = tempfile::tempdir().unwrap();
    let connect = |volume: &str| Client::connect_in(runtime.path(), volume);
    let uuid = directory::name(&UUID);
    assert!(matches!(connect(&uuid), Err(ControlError::NotServed(_))));

    let files = Files::new(4 << 20, flash_bytes(600));
    let server =
        Server::start(files.open(), Settings { control: Some(runtime.path().to_owned()), ..settings() }).unwrap();
    let socket = directory::socket(runtime.path(), &UUID);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let handle = server.handle();
    for name in [uuid.as_str(), files.disk().to_str().unwrap(), files.flash().to_str().unwrap()] {
        let mut client = connect(name).unwrap();
        assert_eq!(client.ask(&Command::TraceAddresses { count: 3 }).unwrap(), Answer::Trace(Vec::new()));
        let status = client.status().unwrap();
        assert_eq!((status.uuid.as_str(), status.state, status.mode), (uuid.as_str(), State::Serving, Mode::WriteBack));
        assert_eq!((status.disk.bytes, status.pid, status.guard), (4 << 20, std::process::id(), true));
    }
    assert!(matches!(connect("/no/such/device"), Err(ControlError::NotServed(_))));

    let mut client = connect(&uuid).unwrap();
    for index in 0..5 {
        handle.call(Request::Write { offset: 8192 * index, data: filled(4096, 1), fua: false }).unwrap();
    }
    handle.call(Request::Read(Range::new(1 << 20, 512))).unwrap();
    let Answer::Trace(accesses) = client.ask(&Command::TraceAddresses { count: 0 }).unwrap() else { panic!() };
    assert_eq!(accesses.len(), 3);
    let last = accesses[2];
    assert_eq!(
        (last.device, last.operation, last.offset, last.length),
        (DeviceName::Disk, Operation::Read, 1 << 20, 512)
    );
    assert!(accesses.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));

    assert_eq!(client.status().unwrap().dirty_bytes, 5 * 4096);
    client.flush().unwrap();
    assert_eq!(client.drain().unwrap(), 0);
    let status = client.status().unwrap();
    assert_eq!((status.dirty_bytes, status.state), (0, State::Serving));
    assert_eq!(status.counters.written_back_bytes_total, 5 * 4096);
    assert_eq!((status.requests.flush.requests_total, status.requests.write.bytes_total), (1, 5 * 4096));
    assert!(status.requests.write.p99_seconds >= status.requests.write.p50_seconds);

    // What is no command is told so, and the connection goes on.
    let mut raw = UnixStream::connect(&socket).unwrap();
    raw.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    use std::io::{BufRead, BufReader, Write};
    raw.write_all(b"{\"command\":\"explode\"}\n{\"command\":\"status\"}\n").unwrap();
    let mut lines = BufReader::new(&raw).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("{\"error\":\"not a command"));
    assert!(lines.next().unwrap().unwrap().starts_with("{\"status\":{"));

    client.stop(false).unwrap();
    assert!(server.wait().unwrap().is_released);
    assert!(!socket.exists());
    assert!(matches!(connect(&uuid), Err(ControlError::NotServed(_))));
    assert!(client.status().is_err());
    // A socket that a killed server left does not keep the next one from serving.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(matches!(connect(&uuid), Err(ControlError::NotServed(_))));
    let server =
        Server::start(files.open(), Settings { control: Some(runtime.path().to_owned()), ..settings() }).unwrap();
    assert!(connect(&uuid).unwrap().status().is_ok());
    assert!(!server.has_ended());
    server.kill();
}
