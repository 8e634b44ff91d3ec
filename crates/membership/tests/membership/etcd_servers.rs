//! Servers of an etcd cluster, in directories and at ports of their own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nix::sys::signal::Signal;

use crate::roles::Process;

/// A port that nobody listens at nor is given another time: below those that the system picks for connections, which
/// tests make all the while.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let range = 10_000..30_000_u32;
    let first = std::process::id() * 61;
    range
        .clone()
        .map(|_| (range.start + (first + GIVEN.fetch_add(1, Relaxed)) % range.len() as u32) as u16)
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a free port")
}

struct Server {
    client: u16,
    arguments: Vec<String>,
    /// What it says, shown where a test fails.
    log: PathBuf,
    process: Option<Process>,
}

impl Server {
    fn start(&mut self) {
        let mut command = Command::new("etcd");
        // Servers must not read settings of the machine's own etcd.
        command.args(&self.arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(Process::start(command));
    }
}

/// See the module.
pub struct Cluster {
    servers: Vec<Server>,
    scheme: &'static str,
    _directory: tempfile::TempDir,
}

/// Certificates of one test: who signs, a server at 127.0.0.1, and a client.
pub struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    /// None, and says so, where there is no openssl.
    pub fn make() -> Option<Certificates> {
        if Command::new("openssl").arg("version").output().is_err() {
            println!("SKIPPED: no openssl: apt-get install openssl");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("headstart-certificates-").tempdir().unwrap();
        let run = |line: &str| {
            let output = Command::new("sh").args(["-c", line]).current_dir(directory.path()).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        run(&format!("openssl req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=signer"));
        for name in ["server", "client"] {
            run("echo 'subjectAltName = IP:127.0.0.1, DNS:etcd.example' >names");
            run(&format!("openssl req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
            let sign = "openssl x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
            run(&format!("{sign} -in {name}.csr -out {name}.pem"));
        }
        Some(Certificates { directory })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Cluster {
    /// Starts so many servers; none, and says so, where there is no etcd.
    pub fn start(count: usize) -> Option<Cluster> {
        Cluster::start_with(count, None)
    }

    /// The same, with TLS for clients, who need a certificate.
    pub fn start_with(count: usize, certificates: Option<&Certificates>) -> Option<Cluster> {
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
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let client_url = |port: u16| format!("{scheme}://127.0.0.1:{port}");
        let server = |(at, &(client, peer)): (usize, &(u16, u16))| {
            let data = directory.path().join(format!("s{at}"));
            let options = [
                ("name", format!("s{at}")),
                ("data-dir", data.to_str().unwrap().into()),
                ("listen-client-urls", client_url(client)),
                ("advertise-client-urls", client_url(client)),
                ("listen-peer-urls", url(peer)),
                ("initial-advertise-peer-urls", url(peer)),
                ("initial-cluster", peers.join(",")),
                ("initial-cluster-token", token.clone()),
                ("initial-cluster-state", "new".into()),
            ];
            let mut arguments: Vec<String> =
                options.into_iter().map(|(name, value)| format!("--{name}={value}")).collect();
            if let Some(certificates) = certificates {
                let files = [("cert-file", "server.pem"), ("key-file", "server.key"), ("trusted-ca-file", "ca.pem")];
                let file = |(name, file)| format!("--{name}={}", certificates.path(file).display());
                arguments.extend(files.map(file));
                arguments.push("--client-cert-auth".into());
            }
            Server { client, arguments, log: data.with_extension("log"), process: None }
        };
        let mut servers: Vec<Server> = ports.iter().enumerate().map(server).collect();
        servers.iter_mut().for_each(Server::start);
        Some(Cluster { servers, scheme, _directory: directory })
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("{}://127.0.0.1:{}", self.scheme, server.client)).collect()
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
        self.post("kv/put", &format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value)));
    }

    pub fn delete(&self, key: &str) {
        self.post("kv/deleterange", &format!(r#"{{"key":"{}"}}"#, base64(key.as_bytes())));
    }

    /// From now on clients need the password of `root`.
    pub fn require_password(&self, password: &str) {
        self.post("auth/user/add", &format!(r#"{{"name":"root","password":"{password}"}}"#));
        self.post("auth/role/add", r#"{"name":"root"}"#);
        self.post("auth/user/grant", r#"{"user":"root","role":"root"}"#);
        self.post("auth/enable", "{}");
    }

    fn post(&self, what: &str, body: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.servers[0].client)).unwrap();
        let length = body.len();
        let head = format!("POST /v3/{what} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}");
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in self.servers.iter().filter(|_| std::thread::panicking()) {
            println!("{}:\n{}", server.log.display(), std::fs::read_to_string(&server.log).unwrap_or_default());
        }
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
