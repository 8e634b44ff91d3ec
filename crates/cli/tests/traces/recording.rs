//! What is recorded of programs.

use std::fs::{self, OpenOptions};
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, raise};
use nix::sys::uio::{preadv, pwritev};

use crate::site::{HEADSTART, TestSite, managed, role};
use crate::{expected, lines, requests, succeed, trace, trace_of, trace_role};

#[test]
fn every_call_is_recorded_with_the_bytes_it_moved() {
    if role().is_some() {
        let options = || OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
        let mut file = options().open(managed().join("a")).unwrap();
        file.write_all_at(&[1; 1000], 5000).unwrap();
        file.write_all(&[2; 300]).unwrap();
        file.seek(SeekFrom::Start(5500)).unwrap();
        assert_eq!(file.read(&mut [0; 4096]).unwrap(), 500);
        assert_eq!(file.read(&mut [0; 4096]).unwrap(), 0);
        assert_eq!(pwritev(&file, &[IoSlice::new(&[3; 10]), IoSlice::new(&[4; 20])], 7000).unwrap(), 30);
        let (mut one, mut other) = ([0; 5], [0; 6]);
        preadv(&file, &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)], 100).unwrap();
        file.read_at(&mut [], 0).unwrap();
        assert!(OpenOptions::new().read(true).open(managed().join("a")).unwrap().write_at(b"x", 0).is_err());
        let mut log = OpenOptions::new().append(true).create(true).open(managed().join("log")).unwrap();
        log.write_all(b"one").unwrap();
        log.write_all(b"three").unwrap();
        fs::write(managed().with_file_name("plain").join("outside"), b"not managed").unwrap();
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    let test = "recording::every_call_is_recorded_with_the_bytes_it_moved";
    succeed(&site, &mut trace_role(&site, test, "calls"));
    let all = [
        expected("a", "write", 5000, 1000),
        expected("a", "write", 0, 300),
        expected("a", "read", 5500, 500),
        expected("a", "read", 6000, 0),
        expected("a", "write", 7000, 30),
        expected("a", "read", 100, 11),
        expected("a", "read", 0, 0),
        expected("log", "append", 0, 3),
        expected("log", "append", 3, 5),
    ];
    assert_eq!(requests(&site, &trace_of(&site)), all);
    assert!(site.agent().is_none() && !site.runtime_base().exists(), "nobody asked for an agent");
    assert_eq!(fs::read(site.slow.join("log")).unwrap(), b"onethree");
}

#[test]
fn the_exit_status_is_the_programs_and_a_program_without_requests_leaves_no_trace() {
    let site = TestSite::with_capacity("64MiB");
    let output = trace(&site, &["sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no request"), "{}", site.say(&output));
    assert!(!trace_of(&site).exists(), "an empty directory is left");
    fs::create_dir(trace_of(&site)).unwrap();
    site.fail(125, &["convert", trace_of(&site).to_str().unwrap()], &["holds no trace"]);
    let output = trace(&site, &["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn a_program_traced_on_all_files_there_are_uses_pipes_and_devices_as_ever() {
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.path("in"), [7; 5000]).unwrap();
    // A pipe between two processes, devices, files of the kernel's, a name without a directory.
    let script = "cat in | dd of=out bs=1000 count=4 iflag=fullblock status=none && \
                  dd if=/dev/zero of=/dev/null bs=100 count=3 status=none && \
                  cat /proc/self/status /sys/kernel/mm/transparent_hugepage/enabled > /dev/null && echo told";
    let mut command = site.command(HEADSTART);
    command.args(["trace", "--slow", "/", "-o", "trace", "--", "sh", "-c", script]).current_dir(site.directory.path());
    let output = succeed(&site, &mut command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "told\n", "{}", site.say(&output));
    assert_eq!(fs::read(site.path("out")).unwrap(), [7; 4000]);
    let out = site.path("out").to_str().unwrap().to_string();
    let (lines, _) = lines(&site, &trace_of(&site));
    let written: u64 = lines
        .iter()
        .filter(|line| line["file"] == out.as_str() && line["op"] == "write")
        .map(|line| line["length"].as_u64().unwrap())
        .sum();
    assert_eq!(written, 4000);
}

#[test]
fn a_killed_process_loses_no_request_that_had_returned() {
    const COUNT: u64 = 5000;
    if role().is_some() {
        let file = fs::File::create(managed().join("a")).unwrap();
        (0..COUNT).for_each(|k| file.write_all_at(&[7; 13], k * 100).unwrap());
        raise(Signal::SIGKILL).unwrap();
    }
    let site = TestSite::with_capacity("64MiB");
    let test = "recording::a_killed_process_loses_no_request_that_had_returned";
    let status = trace_role(&site, test, "die").status().unwrap();
    assert_eq!(status.code(), Some(128 + 9));
    let all: Vec<_> = (0..COUNT).map(|k| expected("a", "write", k * 100, 13)).collect();
    assert!(requests(&site, &trace_of(&site)) == all);
}

#[test]
fn threads_children_and_executed_programs_are_all_recorded() {
    let site = TestSite::with_capacity("64MiB");
    let script = "import os, threading
fd = os.open('a', os.O_RDWR | os.O_CREAT)
def work(k):
    for i in range(2000): os.pwrite(fd, bytes(8), (k * 2000 + i) * 8)
for round in range(2):
    threads = [threading.Thread(target=work, args=(k + 4 * round,)) for k in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
child = os.fork()
if child == 0:
    os.pwrite(fd, b'child', 1 << 20)
    os._exit(0)
os.waitpid(child, 0)
os.pwrite(fd, b'parent', 1 << 21)
os.execvp('dd', ['dd', 'if=a', 'of=b', 'bs=100000', 'count=1', 'status=none'])";
    succeed(&site, &mut trace(&site, &["/usr/bin/python3", "-c", script]));
    let mut found = requests(&site, &trace_of(&site));
    found.sort();
    let mut all: Vec<_> = (0..16_000).map(|k| expected("a", "write", k * 8, 8)).collect();
    all.extend([expected("a", "write", 1 << 20, 5), expected("a", "write", 1 << 21, 6)]);
    all.extend([expected("a", "read", 0, 100_000), expected("b", "write", 0, 100_000)]);
    all.sort();
    assert!(found == all, "{} requests of {}", found.len(), all.len());
    let (lines, _) = lines(&site, &trace_of(&site));
    let mut processes: Vec<u64> = lines.iter().map(|line| line["pid"].as_u64().unwrap()).collect();
    processes.sort();
    processes.dedup();
    assert_eq!(processes.len(), 2, "the program and its child");
    assert_eq!(fs::read_dir(trace_of(&site)).unwrap().count(), 3, "and a file for what it executed");
}

#[test]
fn the_rank_is_what_the_launcher_says() {
    for variable in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"] {
        let site = TestSite::with_capacity("64MiB");
        succeed(
            &site,
            trace(&site, &["dd", "if=/dev/zero", "of=a", "bs=9", "count=1", "status=none"]).env(variable, "11"),
        );
        assert_eq!(lines(&site, &trace_of(&site)).0[0]["rank"], 11, "{variable}");
    }
}

#[test]
fn ranks_of_open_mpi_are_recorded_each_with_its_own() {
    let mpirun = "/usr/bin/mpirun.openmpi";
    if !Path::new(mpirun).exists() {
        println!("SKIPPED: no Open MPI");
        return;
    }
    let site = TestSite::with_capacity("64MiB");
    let script =
        "dd if=/dev/zero of=shared bs=1000 count=2 seek=$((2 * OMPI_COMM_WORLD_RANK)) conv=notrunc status=none";
    succeed(&site, &mut trace(&site, &[mpirun, "--oversubscribe", "-n", "4", "sh", "-c", script]));
    let (lines, _) = lines(&site, &trace_of(&site));
    let mut found: Vec<_> =
        lines.iter().map(|line| (line["rank"].as_u64().unwrap(), line["offset"].as_u64().unwrap())).collect();
    found.sort();
    assert_eq!(found, (0..8).map(|k| (k / 2, k * 1000)).collect::<Vec<_>>());
}

#[test]
fn what_fio_says_it_did_is_what_is_recorded() {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("SKIPPED: no fio");
        return;
    }
    for engine in ["psync", "sync", "pvsync2", "posixaio"] {
        let site = TestSite::with_capacity("64MiB");
        fs::write(site.slow.join("a"), vec![5; 1 << 20]).unwrap();
        let log = site.path("log");
        let options =
            ["--name=j", "--filename=a", "--size=1m", "--bsrange=512-16k", "--rw=randrw", "--randseed=7", "--thread"];
        let (engine_option, log_option) = (format!("--ioengine={engine}"), format!("--write_iolog={}", log.display()));
        let mut program = vec!["fio", "--iodepth=4", &engine_option, &log_option];
        program.extend(options);
        succeed(&site, &mut trace(&site, &program));
        let mut found = requests(&site, &trace_of(&site));
        let mut said = requests(&site, &log);
        found.sort();
        said.sort();
        assert!(said.len() > 50 && found == said, "{engine}: {} requests recorded of {}", found.len(), said.len());
    }
}

#[test]
fn what_cannot_be_seen_is_said() {
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), [1; 5000]).unwrap();
    let script = "import mmap, os
f = os.open('a', os.O_RDWR); m = mmap.mmap(f, 0); m[0] = 9; m = mmap.mmap(f, 0); os.pread(f, 10, 4)";
    succeed(&site, &mut trace(&site, &["/usr/bin/python3", "-c", script]));
    let (lines, said) = lines(&site, &trace_of(&site));
    assert_eq!((lines.len(), lines[0]["length"].as_u64()), (1, Some(10)));
    assert!(said.contains("warning: 1 times a process used a file by a mapping"), "{said}");
    assert_eq!(fs::read(site.slow.join("a")).unwrap()[0], 9);
}

#[test]
fn files_of_rings_and_kernel_aio_are_named_as_not_seen() {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("SKIPPED: no fio");
        return;
    }
    for engine in ["io_uring", "libaio"] {
        let site = TestSite::with_capacity("64MiB");
        fs::write(site.slow.join("a"), vec![5; 1 << 20]).unwrap();
        let engine_option = format!("--ioengine={engine}");
        let options = ["--name=j", "--filename=a", "--size=1m", "--rw=randread", "--thread", "--direct=0"];
        let output = trace(&site, &[["fio", &engine_option].as_slice(), &options].concat()).output().unwrap();
        if !output.status.success() {
            println!("SKIPPED: no {engine} here: {}", String::from_utf8_lossy(&output.stderr));
            continue;
        }
        let (_, said) = lines(&site, &trace_of(&site));
        assert!(said.contains("which are not traced"), "{engine}: {said}");
    }
}

#[test]
fn a_full_trace_directory_ends_the_recording_and_not_the_program() {
    const COUNT: u64 = 20_000;
    let played = role();
    if let Some(role) = &played {
        if role == "limited" {
            let bytes = 4096 + 32768 * 2;
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE, bytes, bytes).unwrap();
        }
        let file = fs::File::create(managed().join("a")).unwrap();
        (0..COUNT).for_each(|k| file.write_all_at(b"bytes", k % 1000 * 5).unwrap());
        return;
    }
    let test = "recording::a_full_trace_directory_ends_the_recording_and_not_the_program";
    for (role, why) in [("limited", "the limit on the size of files"), ("full", "no space is left")] {
        let site = TestSite::with_capacity("64MiB");
        fs::create_dir(trace_of(&site)).unwrap();
        let mounted = Mount::of(role, &trace_of(&site));
        if role == "full" && mounted.is_none() {
            println!("SKIPPED: a tmpfs cannot be mounted");
            return;
        }
        let output = succeed(&site, &mut trace_role(&site, test, role));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.matches("records nothing more").count(), 1, "{said}");
        assert!(said.contains(why), "{said}");
        assert_eq!(fs::read(site.slow.join("a")).unwrap().len(), 5000);
        let (lines, said) = lines(&site, &trace_of(&site));
        let lost = format!("warning: {} requests were not recorded", COUNT - lines.len() as u64);
        assert!(lines.len() > 1000 && said.contains(&lost), "{} lines, {said}", lines.len());
    }
}

/// A small tmpfs, until it is dropped.
struct Mount(PathBuf);

impl Mount {
    fn of(role: &str, directory: &Path) -> Option<Mount> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=96k", "tmpfs"]).arg(directory);
        (role == "full" && mount.status().is_ok_and(|status| status.success())).then(|| Mount(directory.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_run_with_flash_is_recorded_as_well() {
    let site = TestSite::with_capacity("64MiB");
    let trace = trace_of(&site);
    let script = "dd if=/dev/zero of=$HEADSTART_SLOW/a bs=4096 count=50 status=none; cat $HEADSTART_SLOW/a > /dev/null";
    site.succeed(&["run", "--trace", trace.to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!(site.figure("/requests/absorbed_requests_total"), 50);
    let found = requests(&site, &trace);
    assert_eq!(found[..50], (0..50).map(|k| expected("a", "write", k * 4096, 4096)).collect::<Vec<_>>());
    let read: u64 =
        found[50..].iter().map(|(_, operation, _, length)| if operation == "read" { *length } else { 0 }).sum();
    assert_eq!(read, 50 * 4096);
    site.fail(125, &["run", "--trace", trace.to_str().unwrap(), "--", "true"], &["holds a trace already"]);
}

#[test]
fn a_run_whose_fast_directory_is_gone_is_recorded_all_the_same() {
    let site = TestSite::with_capacity("64MiB");
    fs::remove_dir_all(&site.fast).unwrap();
    let (trace, file) = (trace_of(&site), site.slow.join("a"));
    let output = format!("of={}", file.display());
    let program = ["dd", "if=/dev/zero", &output, "bs=10", "count=1", "status=none"];
    site.succeed(&[&["run", "--trace", trace.to_str().unwrap(), "--"], program.as_slice()].concat());
    assert_eq!(requests(&site, &trace), [expected("a", "write", 0, 10)]);
}

#[test]
fn tracing_alone_is_refused_where_flash_holds_newer_bytes() {
    let site = TestSite::with_capacity("64MiB");
    let script = "dd if=/dev/urandom of=$HEADSTART_SLOW/a bs=4096 count=5 status=none";
    site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", script]);
    let output = trace(&site, &["touch", "ran"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("run --trace") && !site.slow.join("ran").exists(), "{said}");
    site.succeed(&["drain"]);
    succeed(&site, &mut trace(&site, &["touch", "ran"]));
}

#[test]
fn tracing_a_directory_within_a_managed_one_is_refused_where_flash_holds_newer_bytes() {
    let site = TestSite::with_capacity("1MiB");
    let inside = site.slow.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let trace = trace_of(&site);
    let trace = ["trace", "--slow", inside.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--", "true"];
    site.succeed(&trace);
    site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", &format!("echo new > {}/a", inside.display())]);
    site.fail(125, &trace, &["tracing alone", site.slow.to_str().unwrap()]);
}

#[test]
fn tracing_a_directory_around_the_managed_one_is_refused_where_flash_holds_newer_bytes() {
    let site = TestSite::with_capacity("1MiB");
    let (around, trace) = (site.slow.parent().unwrap(), trace_of(&site));
    let trace = ["trace", "--slow", around.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--", "true"];
    site.succeed(&trace);
    site.succeed(&["run", "--keep-dirty", "--", "sh", "-c", &format!("echo new > {}/a", site.slow.display())]);
    site.fail(125, &trace, &["tracing alone", site.slow.to_str().unwrap()]);
    site.succeed(&["drain"]);
    site.succeed(&trace);
}

#[test]
fn the_switch_disables_recording() {
    let site = TestSite::with_capacity("64MiB");
    let mut command = site.command(HEADSTART);
    command
        .args(["trace", "--", "sh", "-c", "echo hi > a; echo hi >> a"])
        .env("HEADSTART", "off")
        .current_dir(&site.slow);
    succeed(&site, &mut command);
    assert_eq!(fs::read_dir(&site.slow).unwrap().count(), 1, "the file, and no trace");
}
