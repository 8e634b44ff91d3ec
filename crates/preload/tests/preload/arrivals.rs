//! Descriptors that come by other ways than `open`, and bytes that go by other ways than `write`.

use std::fs;
use std::path::Path;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, compiled_fortified, compiled_static, library, python, shell, succeed};

#[test]
fn a_managed_descriptor_is_found_however_it_came() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "arrivals")));
    assert!(agent.counter(Counter::AbsorbedRequests) > 8);
}

#[test]
fn files_that_libc_gives_a_name_are_managed_from_the_start() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "made")));
    // What two of them are opened to append is never absorbed.
    assert_eq!((agent.logged("Open"), agent.disk_bytes("write")), (16, 2 * 9000));
    agent.drain();
    for number in 0..8usize {
        let bytes: Vec<u8> = (0..9000).map(|k| (k * 31 + number * 7 + (k >> 8)) as u8).collect();
        assert!(fs::read(agent.slow.join(format!("kept.{number}"))).unwrap() == bytes, "file {number}");
    }
}

#[test]
fn reads_whose_length_libc_checks_see_what_is_dirty_on_flash() {
    let agent = Agent::start();
    let program = compiled_fortified(&agent, "fortified");
    let names = fs::read(&program).unwrap();
    for name in [&b"__read_chk"[..], b"__pread_chk", b"__pread64_chk"] {
        assert!(names.windows(name.len()).any(|window| window == name), "the program calls {}", name.escape_ascii());
    }
    succeed(command(&agent, program).arg("4000"));
    assert_eq!((agent.disk_bytes("write"), agent.disk_bytes("read")), (0, 0));
}

#[test]
fn programs_scripts_and_libraries_are_whole_when_they_are_executed_or_loaded() {
    let agent = Agent::start();
    let (program, plugin) = (compiled(&agent, "close_all"), library());
    python(
        &agent,
        &format!(
            "import os, subprocess, ctypes
def copy(source, target):
    to = os.open(target, os.O_WRONLY | os.O_CREAT, 0o755)
    os.pwrite(to, open(source, 'rb').read(), 0); os.close(to)
for k in range(5): copy('/bin/true', 't%d' % k)
fd = os.open('script', os.O_WRONLY | os.O_CREAT, 0o755); os.write(fd, b'#!/bin/sh\\nexit 7\\n'); os.close(fd)
subprocess.run(['./t0'], check=True)                                      # vfork, where Python can
subprocess.run(['./t1'], check=True, preexec_fn=lambda: None)             # fork
pid = os.posix_spawn('./t2', ['t2'], os.environ); assert os.waitpid(pid, 0)[1] == 0
os.environ['PATH'] += ':.'
pid = os.posix_spawnp('t3', ['t3'], os.environ); assert os.waitpid(pid, 0)[1] == 0
assert subprocess.run(['./script']).returncode == 7
if os.fork() == 0: os.execv('./t4', ['t4'])
assert os.wait()[1] == 0
copy('{}', 'plugin.so')
handle = ctypes.CDLL('./plugin.so')
assert handle.dup",
            plugin.display()
        ),
    );
    assert!(program.exists());
    shell(
        &agent,
        "dd if=/bin/true of=shell bs=64k status=none; chmod +x shell; ./shell; \
         python3 -c 'import os; os.system(\"./shell\")'",
    );
    assert!(agent.counter(Counter::AbsorbedBytes) > 100_000);
}

#[test]
fn what_is_to_be_written_unseen_is_off_flash_durably_before() {
    let agent = Agent::start();
    let script = "import os, mmap
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'flash' * 2000, 0)
HOW";
    for (count, how) in
        ["mmap.mmap(fd, 0)", "open('f', 'r')", "mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)"].iter().enumerate()
    {
        python(&agent, &script.replace("HOW", how).replace("'f'", &format!("'f{count}'")));
        assert_eq!(agent.logged("Sync"), 1, "after {how}");
    }
}

#[test]
fn space_that_ioctl_allocates_removes_or_zeroes_is_what_it_is_outside() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, fcntl, struct, errno
def played(path):
    fd = os.open(path, os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'flash' * 2000, 0); os.lseek(fd, 4096, 0)
    said = []
    for k, call in enumerate((40, 41, 42, 43, 57)):
        start = (100 * k, -1000, -3000)[k % 3]
        space = struct.pack('hhxxxxqqiI16x', 0, k % 3, start, 1000, 0, 0)
        try: fcntl.ioctl(fd, 1 << 30 | len(space) << 16 | ord('X') << 8 | call, space); said.append(0)
        except OSError as e: said.append(e.errno)
        said.append(os.pread(fd, 20000, 0))
    return said
assert played('f') == played(os.environ['OUTSIDE'] + '/f')",
    );
    agent.drain();
    assert!(fs::read(agent.slow.join("f")).unwrap() == fs::read(agent.root.join("outside/f")).unwrap());
}

#[test]
fn sync_and_syncfs_speak_for_the_files_of_the_process() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, ctypes
os.sync()
f = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'x', 0)
g = os.open('g', os.O_RDWR | os.O_CREAT); os.pwrite(g, b'x', 0)
clean = os.open('clean', os.O_RDWR | os.O_CREAT)
os.sync()
assert ctypes.CDLL(None).syncfs(clean) == 0",
    );
    assert_eq!(agent.logged("Sync"), 4);
}

#[test]
fn a_static_program_is_named_once_with_what_to_do() {
    let agent = Agent::start();
    let Some(program) = compiled_static(&agent, "close_all") else { return };
    let run = |script: &str| {
        let output = shell(&agent, &script.replace("STATIC", &program.display().to_string()));
        String::from_utf8_lossy(&output.stderr).matches("statically linked").count()
    };
    assert_eq!(run("STATIC || true; for k in 1 2 3; do (cd /; STATIC || true); done"), 1);
    assert_eq!(run("STATIC || true"), 0, "it was said");
    for mark in fs::read_dir(&agent.runtime).unwrap().flatten() {
        if mark.file_name().to_string_lossy().starts_with("unseen.") {
            fs::remove_file(mark.path()).unwrap();
        }
    }
    let spawned = "python3 -c 'import subprocess; subprocess.run([\"STATIC\"])'; ls / > /dev/null";
    assert_eq!(run(spawned), 1);
    assert_eq!(run("/lib64/ld-linux-x86-64.so.2 /bin/true"), 0);
}

#[test]
fn files_that_rings_and_kernel_aio_use_bypass_flash() {
    if !Path::new("/usr/bin/fio").exists() {
        println!("SKIPPED: no fio");
        return;
    }
    for engine in ["libaio", "io_uring"] {
        let agent = Agent::start();
        fs::write(agent.slow.join("f"), vec![0; 4 << 20]).unwrap();
        python(
            &agent,
            "import os\nfd = os.open('f', os.O_RDWR)\nfor k in range(64): os.pwrite(fd, b'x' * 65536, k * 65536)",
        );
        assert_eq!(agent.mapped_bytes(), 4 << 20);
        let mut run = command(&agent, "/usr/bin/fio");
        run.args(["--name=verify", "--filename=f", "--iodepth=8", "--rw=randwrite", "--bs=4k", "--size=4m"]);
        run.args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--output=/dev/null"]);
        let output = run.arg(format!("--ioengine={engine}")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("Function not implemented") || text.contains("Operation not permitted") {
            println!("SKIPPED: no {engine} here");
            continue;
        }
        assert!(output.status.success(), "{engine}: {text}");
        assert!(agent.mapped_bytes() < 4096, "{engine}: {} bytes stay on flash", agent.mapped_bytes());
        assert_eq!(text.contains("io_uring"), engine == "io_uring", "{text}");
        // What the kernel wrote is what others read.
        let slow = fs::read(agent.slow.join("f")).unwrap();
        fs::write(agent.root.join("outside/f"), &slow).unwrap();
        shell(&agent, "cmp f $OUTSIDE/f");
    }
}
