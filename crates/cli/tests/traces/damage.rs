//! Traces that are cut, damaged, or none.

use std::fs;
use std::path::PathBuf;

use headstart_trace::block::{BLOCK_BYTES, HEAD_BYTES};
use headstart_trace::header::HEADER_BYTES;

use crate::site::TestSite;
use crate::{Request, expected, lines, request, succeed, trace, trace_of};

const COUNT: u64 = 8000;

/// The only file of a trace of [`COUNT`] requests, in several blocks.
fn recorded(site: &TestSite) -> PathBuf {
    let script = format!(
        "import os\nfd = os.open('a', os.O_RDWR | os.O_CREAT)\nfor k in range({COUNT}): os.pwrite(fd, bytes(5), k * 9)"
    );
    succeed(site, &mut trace(site, &["/usr/bin/python3", "-c", &script]));
    let mut entries = fs::read_dir(trace_of(site)).unwrap();
    entries.next().unwrap().unwrap().path()
}

fn whole() -> Vec<Request> {
    (0..COUNT).map(|k| expected("a", "write", k * 9, 5)).collect()
}

/// Bytes of entries of each block.
fn lengths(bytes: &[u8]) -> Vec<usize> {
    let blocks = bytes[HEADER_BYTES..].chunks(BLOCK_BYTES);
    blocks.map(|block| u32::from_le_bytes(block[..4].try_into().unwrap()) as usize).collect()
}

#[test]
fn a_trace_cut_anywhere_is_read_to_its_last_whole_block_and_the_rest_is_counted() {
    let site = TestSite::with_capacity("64MiB");
    let bytes = fs::read(recorded(&site)).unwrap();
    let lengths = lengths(&bytes);
    assert!(lengths.len() >= 2, "{} blocks", lengths.len());
    let start = |block: usize| HEADER_BYTES + block * BLOCK_BYTES;
    let ends: Vec<usize> = lengths.iter().enumerate().map(|(k, length)| start(k) + HEAD_BYTES + length).collect();
    // All that matters lies at the borders; between them every 997th byte.
    let near = |at: usize| ends.iter().enumerate().any(|(k, end)| at.abs_diff(*end) < 3 || at.abs_diff(start(k)) < 20);
    let cuts: Vec<usize> = (0..bytes.len()).filter(|at| at % 997 == 0 || near(*at)).collect();
    let cut_file = site.path("cut.hstrace");
    let mut seen = Vec::new();
    for cut in cuts {
        fs::write(&cut_file, &bytes[..cut]).unwrap();
        if cut < HEADER_BYTES {
            let word = if cut == 0 { "is empty" } else { "damaged header" };
            site.fail(125, &["convert", cut_file.to_str().unwrap()], &[word]);
            continue;
        }
        let (lines, said) = lines(&site, &cut_file);
        let found: Vec<Request> = lines.iter().map(request).collect();
        let (blocks, held) =
            (ends.iter().filter(|end| **end <= cut).count(), (cut - HEADER_BYTES).div_ceil(BLOCK_BYTES));
        assert!(found == whole()[..found.len()], "cut at {cut}: a prefix");
        assert_eq!(found.len() == COUNT as usize, blocks == ends.len(), "cut at {cut}");
        assert_eq!(said.contains("blocks are missing"), held < ends.len(), "cut at {cut}: {said}");
        assert_eq!(said.contains("cut or damaged"), blocks < held, "cut at {cut}: {said}");
        seen.push((blocks, found.len()));
    }
    seen.dedup();
    assert_eq!(seen.len(), ends.len() + 1, "as many prefixes as blocks: {seen:?}");
}

#[test]
fn a_damaged_block_costs_its_own_requests_alone() {
    let site = TestSite::with_capacity("64MiB");
    let file = recorded(&site);
    let mut bytes = fs::read(&file).unwrap();
    let first = HEADER_BYTES + HEAD_BYTES + lengths(&bytes)[0] / 2;
    bytes[first] ^= 4;
    fs::write(&file, &bytes).unwrap();
    let (lines, said) = lines(&site, &trace_of(&site));
    let found: Vec<Request> = lines.iter().map(request).collect();
    assert!(!found.is_empty() && found == whole()[whole().len() - found.len()..], "a suffix");
    assert!(said.contains("warning: 1 blocks are cut or damaged"), "{said}");
}

#[test]
fn another_version_and_foreign_files_are_refused_with_a_reason() {
    let site = TestSite::with_capacity("64MiB");
    let file = recorded(&site);
    let (mut bytes, directory) = (fs::read(&file).unwrap(), trace_of(&site));
    bytes[6..8].copy_from_slice(b"99");
    fs::write(&file, &bytes).unwrap();
    for path in [&file, &directory] {
        site.fail(125, &["convert", path.to_str().unwrap()], &["another version of Headstart", "format 99"]);
    }
    fs::write(&file, b"\x7fELF and so on").unwrap();
    site.fail(125, &["convert", file.to_str().unwrap()], &["no trace that is known"]);
    site.fail(125, &["convert", directory.to_str().unwrap()], &["is not a trace of Headstart"]);
    let log = site.path("log");
    fs::write(&log, "fio version 1 iolog\n").unwrap();
    site.fail(125, &["convert", log.to_str().unwrap()], &["another version than 2 and 3"]);
    site.fail(125, &["convert", site.path("missing").to_str().unwrap()], &["cannot open", "missing"]);
}

#[test]
fn a_process_that_was_killed_as_it_began_costs_nothing_but_itself() {
    let site = TestSite::with_capacity("64MiB");
    recorded(&site);
    fs::write(trace_of(&site).join("empty.hstrace"), b"").unwrap();
    fs::write(trace_of(&site).join("blank.hstrace"), [0; 4096]).unwrap();
    let (lines, said) = lines(&site, &trace_of(&site));
    assert_eq!(lines.len() as u64, COUNT);
    assert!(said.contains("warning: 2 files of processes cannot be read"), "{said}");
}
