//! What lies around the requests, and what descriptions say.

use headstart_units::request::Direction;
use headstart_workload::{Description, Rate};

use crate::observed::{problem, program, words};

#[test]
fn ior_has_no_barrier_between_transfers() {
    let program = program("kind = 'ior'\nranks = 2\ntransfer = 4\nblock = 8\nsync = true\nthink-us = 3\n");
    let expected = "| mark0 open0w w0:8+4 think3000 w0:12+4 sync0 close0 mark1 | \
                    | mark2 open0r r0:8+4 think3000 r0:12+4 close0 mark3 |";
    assert_eq!(words(&*program, 1), expected);
    assert_eq!(program.phases().len(), 2);
    assert_eq!((program.phases()[1].name, program.phases()[1].direction), ("read", Direction::Read));
}

#[test]
fn repetitions_repeat_all_phases_and_count_their_marks_on() {
    let program = program("kind = 'ior'\nranks = 1\ntransfer = 4\nblock = 4\nrepetitions = 2\noperation = 'write'\n");
    assert_eq!(words(&*program, 0), "| mark0 open0w w0:0+4 close0 mark1 | | mark2 open0w w0:0+4 close0 mark3 |");
    assert_eq!(program.phases().len(), 2);
}

#[test]
fn mpi_io_test_has_a_barrier_before_each_request() {
    let program =
        program("kind = 'mpi-io-test'\nranks = 2\nblock = 4\niterations = 2\nthink-us = 1\noperation = 'read'\n");
    assert_eq!(words(&*program, 1), "| mark0 open0r | r0:4+4 think1000 | r0:12+4 close0 mark1 |");
}

#[test]
fn tile_has_barriers_after_open_and_before_close_and_one_call() {
    let program =
        program("kind = 'tile'\nranks = 2\nnx = 2\nsx = 4\nsy = 3\nelement = 1\noperation = 'write'\nsync = true\n");
    assert_eq!(words(&*program, 0), "| mark0 open0w | list0:3 sync0 | close0 mark1 |");
}

#[test]
fn a_call_for_rows_that_touch_is_one_request() {
    let program = program("kind = 'tile'\nranks = 1\nsx = 4\nsy = 3\nelement = 1\noperation = 'write'\n");
    assert_eq!(words(&*program, 0), "| mark0 open0w | w0:0+12 | close0 mark1 |");
}

#[test]
fn btio_has_a_barrier_and_computes_before_each_dump() {
    let text = "kind = 'btio'\nranks = 1\ngrid = 2\ndumps = 2\nthink-us = 7\noperation = 'write'\n";
    let row = |number: u32| format!("w0:{}+80", number * 80);
    let dump = |first: u32| (first..first + 4).map(row).collect::<Vec<_>>().join(" ");
    let expected = format!("| mark0 open0w | {} think7000 | {} close0 mark1 |", dump(0), dump(4));
    assert_eq!(words(&*program(text), 0), expected);
    let full = program(&format!("{text}collective = true\n"));
    assert_eq!(words(&*full, 0), "| mark0 open0w | w0:0+320 think7000 | w0:320+320 close0 mark1 |");
}

/// Whoever has fewer requests than others meets them all the same.
#[test]
fn ranks_of_a_collective_job_meet_equally_often() {
    let program =
        program("kind = 'ior'\nranks = 5\ntransfer = 1\nblock = 20\norder = 'deal_global'\ncollective = true\n");
    let count = |rank, word: &str| words(&*program, rank).split(' ').filter(|found| *found == word).count();
    let barriers: Vec<_> = (0..5).map(|rank| count(rank, "|")).collect();
    assert!(barriers.iter().all(|count| *count == barriers[0] && *count > 44), "{barriers:?}");
    let requests: Vec<_> = (0..5).map(|rank| words(&*program, rank).matches("w0:").count()).collect();
    assert_eq!(requests.iter().sum::<usize>(), 100);
    assert!(requests.iter().any(|count| *count != requests[0]));
}

/// S4D, V-B in small: instances with files of their own, each written and then read, and all read once more.
#[test]
fn a_sequence_runs_instances_one_after_another_on_files_of_their_own() {
    let text = "kind = 'sequence'\norder = [0, 1, 0]\nread-again = true\n\
                [[instances]]\nkind = 'ior'\nranks = 2\ntransfer = 4\nblock = 8\n\
                [[instances]]\nkind = 'ior'\nranks = 2\ntransfer = 4\nblock = 32\norder = 'perm_own_block'\n";
    let program = program(text);
    assert_eq!((program.ranks(), program.file_bytes()), (2, vec![16, 64, 16]));
    assert_eq!(program.phases().len(), 9);
    let said = words(&*program, 0);
    let opens: Vec<&str> = said.split(' ').filter(|word| word.starts_with("open")).collect();
    assert_eq!(opens, ["open0w", "open0r", "open1w", "open1r", "open2w", "open2r", "open0r", "open1r", "open2r"]);
    let marks: Vec<String> = said.split(' ').filter(|word| word.starts_with("mark")).map(String::from).collect();
    assert!(marks.iter().map(String::as_str).eq((0..18).map(|mark| format!("mark{mark}")).collect::<Vec<_>>().iter()));
    let reads = |file: u32| -> Vec<&str> {
        let prefix = format!("r{file}:");
        said.split(' ').filter(|word| word.starts_with(&prefix)).collect()
    };
    let second = reads(1);
    assert_eq!(second[..8], second[8..], "the second run reads in the same order");
    assert_eq!(reads(2).len(), 4);
}

#[test]
fn an_interfering_job_goes_on_until_it_is_stopped() {
    let text = "kind = 'repeat'\n[program]\nkind = 'ior'\nranks = 1\ntransfer = 4\nblock = 4\noperation = 'read'\n";
    let endless = program(text);
    let pass = program("kind = 'ior'\nranks = 1\ntransfer = 4\nblock = 4\noperation = 'read'\n");
    let once: Vec<_> = pass.steps(0).collect();
    let steps = endless.steps(0).take(once.len() * 1000);
    assert!(steps.enumerate().all(|(index, step)| step == once[index % once.len()]));
    let twice = program(&text.replace("[program]", "times = 2\n[program]"));
    assert_eq!(twice.steps(0).count(), 2 * once.len());
}

#[test]
fn descriptions_say_what_is_wrong_with_them() {
    for (text, said) in [
        ("kind = 'ior'\n", "missing field `ranks`"),
        ("kind = 'iorr'\nranks = 1\n", "unknown variant `iorr`"),
        ("kind = 'ior'\nranks = 0\n", "ranks must be at least 1"),
        ("kind = 'ior'\nranks = 1\nrepetitions = 0\n", "repetitions must be from 1"),
        ("kind = 'ior'\nranks = 1\ntransfre = 1\n", "no key 'transfre'"),
        ("kind = 'btio'\nranks = 1\ntransfer = 1\n", "no key 'transfer'"),
        ("kind = 'ior'\nranks = 1\ntransfer = 'x'\n", "'x' is not a size"),
        ("kind = 'ior'\nranks = 1\ntransfer = -1\n", "expected bytes"),
        ("kind = 'ior'\nranks = 1\ntransfer = 0\n", "block must be a multiple of transfer"),
        ("kind = 'ior'\nranks = 1\ntransfer = 3\nblock = 8\n", "block must be a multiple of transfer"),
        ("kind = 'ior'\nranks = 1\nrequests = 8\n", "requests is for the orders"),
        ("kind = 'ior'\nranks = 1\nsegments = 0\n", "segments must be at least 1"),
        ("kind = 'ior'\nranks = 1\nshift-windows = 2\n", "a hot region that shifts"),
        (
            "kind = 'ior'\nranks = 1\norder = 'zipf_own_block'\nshift-windows = 9000000000000000000\n",
            "more than 2^64 requests",
        ),
        ("kind = 'ior'\nranks = 1\ntheta = 101.0\n", "theta must be from 0 to 100"),
        ("kind = 'ior'\nranks = 1\norder = 'deal_global'\nfile-per-process = true\n", "needs a shared file"),
        ("kind = 'ior'\nranks = 1\norder = 'random'\n", "unknown variant `random`"),
        ("kind = 'ior'\nranks = 4000000000\nblock = '1TiB'\n", "exceed 2^61 bytes"),
        ("kind = 'mpi-io-test'\nranks = 1\niterations = 0\n", "block and iterations must be above 0"),
        ("kind = 'mpi-io-test'\nranks = 1\ncollective = true\nfile-per-process = true\n", "not collective"),
        ("kind = 'tile'\nranks = 3\nnx = 2\nny = 2\n", "4 tiles need as many ranks, there are 3"),
        ("kind = 'tile'\nranks = 3\nsx = 4\noverlap-x = 4\n", "overlap-x must be below sx"),
        ("kind = 'hpio'\nranks = 1\nregion-size = 0\n", "region-count and region-size must be above 0"),
        ("kind = 'hpio'\nranks = 1\nregion-spacing = '3GiB'\n", "none may exceed 2^31 - 1"),
        ("kind = 'btio'\nranks = 9\ngrid = 2\n", "grid must be at least 3 for 9 ranks"),
        ("kind = 'iozone'\nranks = 9\ntests = []\n", "tests is a list"),
        ("kind = 'iozone'\nranks = 9\ntests = [4]\n", "tests is a list"),
        ("kind = 'iozone'\nranks = 9\ntests = [1]\noperation = 'write'\n", "none of these tests"),
        ("kind = 'iozone'\nranks = 9\nrecord = 3\n", "file-size must be a multiple of record"),
        ("kind = 'sequence'\ninstances = []\n", "at least one"),
        (
            "kind = 'sequence'\norder = [1]\n[[instances]]\nkind = 'ior'\nranks = 1\n",
            "order names instance 1; there are 1",
        ),
        (
            "kind = 'sequence'\n[[instances]]\nkind = 'ior'\nranks = 1\n[[instances]]\nkind = 'ior'\nranks = 2\n",
            "instance 1: 2 ranks take part, 1 in what comes first",
        ),
        (
            "kind = 'sequence'\n[[instances]]\nkind = 'repeat'\nprogram = { kind = 'ior', ranks = 1 }\n",
            "instance 0 never ends",
        ),
        ("kind = 'sequence'\nfiles = 3\n", "unknown field `files`"),
        ("kind = 'repeat'\ntimes = 0\nprogram = { kind = 'ior', ranks = 1 }\n", "times must be at least 1"),
    ] {
        let found = problem(text);
        assert!(found.contains(said), "{text}: {found}");
    }
}

#[test]
fn each_benchmark_has_its_own_rate() {
    let rate = |text: &str| toml::from_str::<Description>(text).unwrap().rate();
    assert_eq!(rate("kind = 'ior'\nranks = 1\n"), Some(Rate::OpenToClose));
    assert_eq!(rate("kind = 'mpi-io-test'\nranks = 1\n"), Some(Rate::SlowestRequests));
    assert_eq!(rate("kind = 'btio'\nranks = 1\n"), Some(Rate::MeanOfRanks));
    assert_eq!(rate("kind = 'iozone'\nranks = 1\n"), Some(Rate::SumOfRanks));
    assert_eq!(rate("kind = 'repeat'\nprogram = { kind = 'ior', ranks = 1 }\n"), None);
}
