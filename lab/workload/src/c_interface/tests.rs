//! What C sees is what is here.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::layout::{CLASSES, OPERATIONS, ORDERS, SHAPES, WorkloadDescription};
use super::*;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/patterns");

#[test]
fn the_header_has_the_same_structures() {
    if Command::new("cc").arg("--version").output().is_err() {
        return println!("SKIPPED: no cc: apt-get install build-essential");
    }
    let layouts =
        [WorkloadDescription::layout(), WorkloadPhase::layout(), WorkloadPlan::layout(), WorkloadRegion::layout()];
    let (mut source, mut expected) =
        (String::from("#include <stdio.h>\n#include <workload.h>\nint main(void) {\n"), String::new());
    for (name, bytes, fields) in &layouts {
        source += &format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));\n");
        expected += &format!("{name} {bytes}\n");
        for (field, place, bytes) in fields {
            let of = format!("offsetof(struct {name}, {field}), sizeof ((struct {name} *)0)->{field}");
            source += &format!("printf(\"{name}.{field} %zu %zu\\n\", {of});\n");
            expected += &format!("{name}.{field} {place} {bytes}\n");
        }
    }
    source += "return 0; }\n";
    let directory = tempfile::tempdir().unwrap();
    let (source_path, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    fs::write(&source_path, source).unwrap();
    let output =
        Command::new("cc").args(["-std=c11", "-I", SOURCES, "-o"]).arg(&program).arg(&source_path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    for (found, expected) in printed.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(printed, expected);
}

/// Choices of the C program, in Rust's order: it hands over the place in the list.
#[test]
fn the_options_name_the_same_choices_in_the_same_order() {
    let options = fs::read_to_string(Path::new(SOURCES).join("options.c")).unwrap();
    fn check<T: Serialize + Debug>(options: &str, choices: &[T]) {
        #[derive(Serialize)]
        struct Table<'a, T> {
            choices: &'a [T],
        }
        let text = toml::to_string(&Table { choices }).unwrap();
        let names: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
        assert_eq!(names.len(), choices.len());
        let list = format!("\"{}\"", names.join("|"));
        assert!(options.contains(&list), "options.c has no {list}");
    }
    check(&options, &OPERATIONS);
    check(&options, &ORDERS);
    check(&options, &SHAPES);
    check(&options, &CLASSES);
}

#[test]
fn a_description_goes_through_c_and_back() {
    for kind in 0..6 {
        let defaults = WorkloadDescription::defaults(kind).unwrap();
        let description = defaults.description().unwrap();
        let again = toml::to_string(&description).unwrap();
        assert_eq!(toml::from_str::<crate::Description>(&again).unwrap(), description, "{again}");
        let named = format!("kind = \"{}\"\nranks = 1\n", again.split('"').nth(1).unwrap());
        assert_eq!(
            toml::from_str::<crate::Description>(&named).unwrap(),
            description,
            "defaults are the same in TOML and C"
        );
    }
    assert_eq!(WorkloadDescription::defaults(6), None);
    assert_eq!(WorkloadDescription::defaults(-1), None);
}

#[test]
fn regions_that_c_looks_up_are_those_of_the_steps() {
    for kind in 0..6 {
        let described = WorkloadDescription { ranks: 4, ..WorkloadDescription::defaults(kind).unwrap() };
        let program = described.description().unwrap().program().unwrap();
        let mut text = [0; 100];
        // SAFETY: a description, and as many bytes of text as it says.
        let workload = unsafe { workload_create(&described, text.as_mut_ptr(), text.len()) };
        assert!(!workload.is_null());
        // SAFETY: a workload, its phases and ranks, and what its plans say; each is freed once.
        unsafe {
            assert_eq!(workload_phases(workload) as usize, program.phases().len());
            for rank in 0..workload_ranks(workload) {
                let mut regions = Vec::new();
                for phase in 0..workload_phases(workload) {
                    let mut plan = WorkloadPlan::default();
                    let requests = workload_requests(workload, phase, rank, &mut plan);
                    let count = plan.requests * plan.regions_per_request;
                    regions.extend((0..count).map(|number| workload_region(requests, number)));
                    workload_requests_free(requests);
                }
                let ranges = program.steps(rank).flat_map(|step| match step {
                    crate::Step::Request { range, .. } => vec![range],
                    crate::Step::List { ranges, .. } => ranges,
                    _ => Vec::new(),
                });
                let bytes = regions.iter().map(|region| region.bytes as u64).sum::<u64>();
                let mut regions = regions.into_iter();
                let mut steps_bytes = 0;
                for range in ranges {
                    steps_bytes += range.length;
                    let mut end = range.offset;
                    while end < range.end() {
                        let region = regions.next().unwrap();
                        assert_eq!(region.offset as u64, end, "pattern {kind}, rank {rank}");
                        end += region.bytes as u64;
                    }
                }
                assert_eq!(steps_bytes, bytes);
            }
            workload_free(workload);
        }
    }
}

#[test]
fn a_description_that_makes_no_sense_is_refused_with_a_text_that_fits() {
    let described = WorkloadDescription { transfer: 0, ..WorkloadDescription::defaults(0).unwrap() };
    for bytes in [0, 1, 8, 200] {
        let mut text = vec![0x7f as c_char; 201];
        // SAFETY: a description, and no more bytes than there are.
        let workload = unsafe { workload_create(&described, text.as_mut_ptr(), bytes) };
        assert!(workload.is_null());
        assert_eq!(text[bytes], 0x7f, "nothing is written beyond");
        if bytes > 0 {
            let end = text.iter().position(|byte| *byte == 0).unwrap();
            let said: String = text[..end].iter().map(|byte| *byte as u8 as char).collect();
            assert!("block must be a multiple of transfer, or no less".starts_with(&said[..end.min(40)]), "{said}");
            assert!(end < bytes);
        }
    }
}
