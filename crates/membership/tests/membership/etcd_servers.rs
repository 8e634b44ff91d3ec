//! Servers of an etcd cluster, in directories and at ports of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::roles::Process;

/// A port that nobody listens at.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Server {
    client: u16,
    arguments: Vec<String>,
    process: Option<Process>,
}

impl Server {
    fn start(&mut self) {
        let mut command = Command::new("etcd");
        // Servers must not read settings of the machine's own etcd.
        command.args(&self.arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process::start(command));
    }
}

/// See the module.
pub struct Cluster {
    servers: Vec<Server>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// Starts so many servers; none, and says so, where there is no etcd.
    pub fn start(count: usize) -> Option<Cluster> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("SKIPPED: no etcd: apt-get install etcd-server");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("headstart-etcd-").tempdir().unwrap();
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let token = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<String> =
            ports.iter().enumerate().map(|(at, (_, peer))| format!("s{at}={}", url(*peer))).collect();
        let server = |(at, &(client, peer)): (usize, &(u16, u16))| {
            let data = directory.path().join(format!("s{at}"));
            let options = [
                ("name", format!("s{at}")),
                ("data-dir", data.to_str().unwrap().into()),
                ("listen-client-urls", url(client)),
                ("advertise-client-urls", url(client)),
                ("listen-peer-urls", url(peer)),
                ("initial-advertise-peer-urls", url(peer)),
                ("initial-cluster", peers.join(",")),
                ("initial-cluster-token", token.clone()),
                ("initial-cluster-state", "new".into()),
            ];
            let arguments = options.into_iter().map(|(name, value)| format!("--{name}={value}")).collect();
            Server { client, arguments, process: None }
        };
        let mut servers: Vec<Server> = ports.iter().enumerate().map(server).collect();
        servers.iter_mut().for_each(Server::start);
        Some(Cluster { servers, _directory: directory })
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("http://127.0.0.1:{}", server.client)).collect()
    }

    pub fn kill(&mut self, at: usize) {
        self.servers[at].process.take().unwrap().kill();
    }

    pub fn restart(&mut self, at: usize) {
        self.servers[at].start();
    }

    pub fn signal(&self, at: usize, signal: Signal) {
        self.servers[at].process.as_ref().unwrap().signal(signal);
    }

    /// Stores a value as other programs would, through the gateway for HTTP.
    pub fn put(&self, key: &str, value: &[u8]) {
        self.post("put", &format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value)));
    }

    pub fn delete(&self, key: &str) {
        self.post("deleterange", &format!(r#"{{"key":"{}"}}"#, base64(key.as_bytes())));
    }

    fn post(&self, what: &str, body: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.servers[0].client)).unwrap();
        let length = body.len();
        let head =
            format!("POST /v3/kv/{what} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}");
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = |chunk: &[u8]| {
        let word = chunk.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        let letter = move |at: usize| LETTERS[(word >> (18 - 6 * at)) as usize & 63] as char;
        let count = chunk.len() + 1;
        (0..4).map(move |at| if at < count { letter(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(letters).collect()
}
