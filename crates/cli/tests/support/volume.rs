//! A volume of a test's own: a disk and flash in files, their server, and loop devices made of it.

#![allow(dead_code)]

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

/// No wait is longer; the machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits for something that will come.
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_there() {
        assert!(Instant::now() < limit, "{what} did not come within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether these programs are there; says that the test is skipped if not.
pub fn has(programs: &[(&str, &str)]) -> bool {
    for (program, package) in programs {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            println!("SKIPPED: {program} is missing; make setup installs it (Debian package {package})");
            return false;
        }
    }
    true
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command printed, which must succeed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// See the module.
pub struct TestVolume {
    /// Everything of the test.
    pub directory: TempDir,
    /// The files.
    pub hdd: PathBuf,
    /// The files.
    pub ssd: PathBuf,
    /// As the command line names them.
    pub names: [String; 2],
}

/// Options of a volume that writes nothing back before half of its log is full; under iTransformer an idle
/// disk is used for it.
pub const LAZY: &[&str] = &["--policy", "none"];

/// Options of volumes as people serve them: writes in front of the disk, LiU's heads, and both. Segments are
/// so short that there are many.
pub const POLICIES: [&[&str]; 3] = [
    &["--policy", "itransformer"],
    &["--policy", "liu", "--segment", "1MiB", "--head", "256KiB"],
    &["--policy", "liu,itransformer", "--segment", "1MiB", "--head", "256KiB"],
];

impl TestVolume {
    /// A new volume in sparse files.
    pub fn create(disk_bytes: u64, flash_bytes: u64) -> TestVolume {
        TestVolume::create_with(disk_bytes, flash_bytes, &[])
    }

    /// The same with more options.
    pub fn create_with(disk_bytes: u64, flash_bytes: u64, more: &[&str]) -> TestVolume {
        let directory = tempfile::Builder::new().prefix("headstart-volume-").tempdir().unwrap();
        let ssd = directory.path().join("ssd");
        TestVolume::in_files(directory, disk_bytes, &ssd, flash_bytes, more)
    }

    /// The same with the flash in a place of its own.
    pub fn create_in(directory: TempDir, disk_bytes: u64, ssd: &Path, flash_bytes: u64) -> TestVolume {
        TestVolume::in_files(directory, disk_bytes, ssd, flash_bytes, &[])
    }

    fn in_files(directory: TempDir, disk_bytes: u64, ssd: &Path, flash_bytes: u64, more: &[&str]) -> TestVolume {
        let hdd = directory.path().join("hdd");
        File::create(&hdd).unwrap().set_len(disk_bytes).unwrap();
        File::create(ssd).unwrap().set_len(flash_bytes).unwrap();
        let names = [hdd.as_path(), ssd].map(|path| path.to_str().unwrap().to_owned());
        let volume = TestVolume { directory, hdd, ssd: ssd.to_owned(), names };
        volume.succeed("create", more);
        volume
    }

    /// Its disk is slow from now on: as an emulated device of this profile.
    pub fn emulate_disk(&mut self, profile: &str) {
        self.names[0] = format!("emulated:{profile}:{}", self.hdd.display());
    }

    /// A path of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program that sees nothing of the user's own.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_remove("HEADSTART_LOG");
        command.env("HEADSTART_RUNTIME_BASE", self.path("runtime"));
        command
    }

    /// `headstart volume VERB` on the two devices.
    pub fn verb(&self, verb: &str, more: &[&str]) -> Command {
        let mut command = self.command(HEADSTART);
        command.args(["volume", verb, "--hdd", &self.names[0], "--ssd", &self.names[1]]).args(more);
        command
    }

    /// `headstart volume VERB` on the two devices, run to its end.
    pub fn run(&self, verb: &str, more: &[&str]) -> Output {
        self.verb(verb, more).output().unwrap()
    }

    /// The same, which must succeed.
    pub fn succeed(&self, verb: &str, more: &[&str]) -> String {
        succeed(&mut self.verb(verb, more))
    }

    /// `headstart volume ARGUMENTS`, run to its end.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.command(HEADSTART).arg("volume").args(arguments).output().unwrap()
    }

    /// The status of the served volume.
    pub fn status(&self) -> Value {
        let hdd = self.hdd.to_str().unwrap();
        let output = self.ask(&["status", "--json", hdd]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn start(&self, more: &[&str], is_ready: impl Fn() -> bool) -> Result<Served, String> {
        let log = self.path("serve.log");
        let said = File::options().append(true).create(true).open(&log).unwrap();
        let child = self.verb("serve", more).stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let mut served = Served { child, log };
        let limit = Instant::now() + LIMIT;
        while !is_ready() {
            if served.child.try_wait().unwrap().is_some() {
                return Err(served.said());
            }
            assert!(Instant::now() < limit, "the server does not come up: {}", served.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// Serves the volume as the file `disk`; nothing, and says so, where FUSE does not mount.
    pub fn serve_file(&self, more: &[&str]) -> Option<Served> {
        let path = self.path("disk");
        let size = fs::metadata(&self.hdd).unwrap().len();
        let is_ready = || fs::metadata(&path).is_ok_and(|status| status.len() == size);
        match self.start(&[&["--mount-file", path.to_str().unwrap()], more].concat(), is_ready) {
            Ok(served) => Some(served),
            Err(said) if said.contains("cannot mount on") => {
                println!("SKIPPED: FUSE files cannot be mounted here: {said}");
                None
            }
            Err(said) => panic!("{said}"),
        }
    }

    /// Serves the volume over NBD.
    pub fn serve_nbd(&self, more: &[&str]) -> Served {
        let socket = self.path("nbd.sock");
        let is_ready = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
        let served = self.start(&[&["--nbd", socket.to_str().unwrap()], more].concat(), is_ready);
        served.unwrap_or_else(|said| panic!("{said}"))
    }

    /// How NBD clients name the volume.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("nbd.sock").display())
    }
}

impl Drop for TestVolume {
    fn drop(&mut self) {
        // A killed server leaves its mount.
        let _ = nix::mount::umount2(&self.path("disk"), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// A server, killed with the test.
pub struct Served {
    child: Child,
    log: PathBuf,
}

impl Served {
    /// What it wrote to stderr so far, and those before it.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "it had ended before: {}", self.said());
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        let process = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).unwrap();
    }

    /// Waits for its end.
    pub fn wait(mut self) -> ExitStatus {
        wait_for("the server's end", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }

    /// Ctrl-C, and all is well.
    pub fn stop(self) {
        self.interrupt();
        let log = self.log.clone();
        let status = self.wait();
        assert!(status.success(), "{status}: {}", fs::read_to_string(log).unwrap());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A disk made of a file.
pub struct LoopDevice(pub PathBuf);

impl LoopDevice {
    /// Nothing, and says so, where there are no loop devices.
    pub fn of(file: &Path) -> Option<LoopDevice> {
        let output = Command::new("losetup").args(["--direct-io=on", "--find", "--show"]).arg(file).output();
        let output = output.expect("losetup is part of every Linux");
        if output.status.success() {
            return Some(LoopDevice(PathBuf::from(text(&output.stdout).trim_end())));
        }
        println!("SKIPPED: no loop device: {}", text(&output.stderr));
        None
    }

    /// Runs a program of a file system on it, such as `fsck.ext4 -fn`.
    pub fn run(&self, command: &str) -> String {
        let mut words = command.split(' ');
        succeed(Command::new(words.next().unwrap()).args(words).arg(&self.0))
    }

    /// Mounts it.
    pub fn mount(&self, on: &Path) -> Mounted {
        fs::create_dir_all(on).unwrap();
        succeed(Command::new("mount").arg(&self.0).arg(on));
        Mounted(on.to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).output();
    }
}

/// A mounted file system.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// Unmounts it, which must work; a killed server lets go of its files only a moment after it is gone.
    pub fn unmount(self) {
        wait_for("the end of the mount", || Command::new("umount").arg(&self.0).output().unwrap().status.success());
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
