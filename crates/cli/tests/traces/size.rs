//! Memory does not grow with a trace.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use headstart_trace::Operation;
use headstart_trace::block::{BLOCK_BYTES, Encoder, HEAD_BYTES, Request};
use headstart_trace::header::{HEADER_BYTES, Header};

use crate::site::{HEADSTART, TestSite};

/// Address space of `convert`, in KiB: what it needs anyhow, a chunk to sort, and little more.
const KIB_MAX: u64 = 140_000;

/// `convert` in so little memory; how many requests it found.
fn converted(site: &TestSite, trace: &Path) -> u64 {
    let script = format!("ulimit -v {KIB_MAX}; exec {HEADSTART} convert {} -o /dev/null", trace.display());
    let output = site.command("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("warning"), "{}: {said}", output.status);
    let words: Vec<&str> = said.split_whitespace().collect();
    words[words.iter().position(|word| *word == "requests").unwrap() - 1].parse().unwrap()
}

#[test]
fn a_trace_larger_than_memory_is_read() {
    let site = TestSite::with_capacity("64MiB");
    let path = site.path("large.hstrace");
    let mut page = vec![0; HEADER_BYTES];
    Header {
        process: 1,
        rank: None,
        monotonic_ns: 0,
        unix_ns: 1,
        boot_id: [1; 16],
        has_flash: false,
        host: b"n",
        root: b"/slow",
    }
    .encode(&mut page);
    let mut file = BufWriter::new(File::create(&path).unwrap());
    file.write_all(&page).unwrap();
    let mut count = 0u64;
    // 32 MiB, and 160 MiB of records.
    for number in 0..1024u32 {
        let mut block = vec![0; BLOCK_BYTES];
        let mut encoder = Encoder::new(number, 0, number);
        encoder.name(&mut block[HEAD_BYTES..], 1, 2, 3, b"/slow/a").unwrap();
        loop {
            let (offset, start_ns) = (count % 9973 * 65536, count * 1000);
            let request =
                Request { file: 1, operation: Operation::Read, offset, length: 512, start_ns, end_ns: start_ns + 900 };
            if encoder.request(&mut block[HEAD_BYTES..], &request).is_err() {
                break;
            }
            count += 1;
        }
        block[..8].copy_from_slice(&encoder.head().to_le_bytes());
        block[12..16].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block).unwrap();
    }
    file.flush().unwrap();
    assert!(count > 2_000_000, "{count}");
    assert_eq!(converted(&site, &path), count);
}

#[test]
fn a_text_larger_than_memory_is_read() {
    let site = TestSite::with_capacity("64MiB");
    let path = site.path("large");
    let count = 2_500_000u64;
    let mut file = BufWriter::new(File::create(&path).unwrap());
    file.write_all(b"fio version 3 iolog\n").unwrap();
    for k in 0..count {
        writeln!(file, "{} /a write {} 512", (k * 7919) % count, k * 512).unwrap();
    }
    file.flush().unwrap();
    drop(file);
    assert_eq!(converted(&site, &path), count);
    fs::remove_file(path).unwrap();
}

#[test]
fn the_limit_is_one_that_a_trace_in_memory_would_exceed() {
    let script = format!("ulimit -v {KIB_MAX}; exec /usr/bin/python3 -c 'bytearray(160 << 20)'");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(!output.status.success(), "the limit holds");
}
