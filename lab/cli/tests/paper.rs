//! `headstart-lab paper`: the calibration rows, and that a row is a file. Rows of policies at the papers' scale
//! are `make bench-sim`'s.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn paper(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headstart-lab")).arg("paper").args(arguments).output().unwrap()
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = paper(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).unwrap()
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenarios/paper")
}

/// A directory with the machines that came with the program and no rows.
fn machines_alone() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("machines")).unwrap();
    for entry in fs::read_dir(scenarios().join("machines")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join("machines").join(entry.file_name())).unwrap();
    }
    directory
}

#[test]
fn output_does_not_depend_on_the_number_of_threads() {
    let rows = "L1,L2,L19,L20,L22,I5";
    let [one, many] = ["1", "5"].map(|threads| printed(&["--id", rows, "--json", "--threads", threads]));
    assert!(one.contains("L22") && one == many);
    let text = |threads| printed(&["--id", rows, "--threads", threads]);
    assert_eq!(text("1"), text("3"));
}

#[test]
fn the_rows_of_lius_cluster_that_knobs_are_fitted_to_are_met() {
    let found = json(&["--id", "L19,L20"]);
    for row in ["L19", "L20"] {
        let cell = &found["row"][row]["series"]["mpi-io-test"]["stock"];
        assert!(cell["deviation"].as_f64().unwrap().abs() <= 0.15, "{row}: {cell}");
        assert_eq!(found["row"][row]["role"], "calibration");
    }
    assert_eq!((&found["rows"], &found["passed"]), (&2.into(), &2.into()));
}

/// S8's first point, which is stock.
#[test]
fn the_row_of_the_sun_cluster_that_a_knob_is_fitted_to_is_met() {
    let directory = machines_alone();
    let row = fs::read_to_string(scenarios().join("S8.toml")).unwrap();
    let mut row: toml::Table = row.parse().unwrap();
    row["point"].as_array_mut().unwrap().truncate(1);
    row.remove("claim");
    row["series"].as_array_mut().unwrap().truncate(1);
    fs::write(directory.path().join("S8.toml"), toml::to_string(&row).unwrap()).unwrap();
    let calibration = fs::read_to_string(scenarios().join("calibration.toml")).unwrap();
    let mut calibration: toml::Table = calibration.parse().unwrap();
    calibration["knob"].as_array_mut().unwrap().retain(|knob| knob["row"].as_str() == Some("S8"));
    fs::write(directory.path().join("calibration.toml"), toml::to_string(&calibration).unwrap()).unwrap();
    let found = json(&["--from", directory.path().to_str().unwrap()]);
    let cell = &found["row"]["S8"]["series"]["stock"]["0 GB"];
    assert!(cell["deviation"].as_f64().unwrap().abs() <= 0.15, "{cell}");
}

const ROW: &str = "
id = 'X1'
where = 'nowhere'
what = 'reads of two sizes'
class = 'T1'
role = 'held-out'
machines = 'disk'
x = 'size'
y = 'MB/s'
reduced = 'nothing'

[[scenario.job]]
name = 'reader'
[scenario.job.workload]
kind = 'ior'
ranks = 1
block = '1GiB'
order = 'uniform_own_block'
requests = 200
operation = 'read'

[[run]]
name = 'disk'

[[point]]
name = 'small'
set = { 'job.0.workload.transfer' = '4KiB' }

[[point]]
name = 'large'
set = { 'job.0.workload.transfer' = '4MiB' }

[[series]]
name = 'random'
of = 'disk'
paper = ['n.p.', 1.0]

[[claim]]
text = 'larger is faster'
series = 'random'
must = 'rise'
";

#[test]
fn a_row_is_added_by_adding_a_file() {
    let directory = machines_alone();
    fs::write(directory.path().join("X1.toml"), ROW).unwrap();
    let drawings = directory.path().join("drawings");
    let arguments = ["--from", directory.path().to_str().unwrap(), "-o", drawings.to_str().unwrap()];
    let text = printed(&arguments);
    assert!(
        ["X1", "nowhere", "small", "n.p.", "larger is faster", "0 of 1 rows pass"].iter().all(|w| text.contains(w)),
        "{text}"
    );
    let found = json(&arguments);
    let row = &found["row"]["X1"];
    assert_eq!(
        (&row["pass"], &row["claims"][0]["pass"]),
        (&false.into(), &true.into()),
        "1 MB/s is far off, the shape is right"
    );
    assert_eq!(row["series"]["random"]["small"]["pass"], Value::Null, "what is not printed is not judged");
    let drawing = fs::read_to_string(drawings.join("X1.svg")).unwrap();
    let words = ["<svg", "MB/s", "size", "small", "random, ours", "random, paper", "X1: reads of two sizes"];
    assert!(words.iter().all(|word| drawing.contains(word)), "{drawing}");
    let index = fs::read_to_string(drawings.join("index.md")).unwrap();
    assert!(index.contains("![reads of two sizes](X1.svg)") && index.contains("| large | random | 1.00 |"), "{index}");
}

/// A row with four series of one run, of which three are shown for comparison.
#[test]
fn a_drawing_has_what_the_paper_prints_once() {
    let directory = machines_alone();
    let shown = |name: &str, paper: &str| format!("\n[[series]]\nname = '{name}'\nof = 'disk'\nclass = '-'\n{paper}\n");
    let more = [("variant", "paper = ['n.p.', 1.0]"), ("stock", "paper = [0.5, 0.7]"), ("bound", "")];
    let row = ROW.to_string() + &more.map(|(name, paper)| shown(name, paper)).concat();
    fs::write(directory.path().join("X1.toml"), row).unwrap();
    let drawings = directory.path().join("drawings");
    printed(&["--from", directory.path().to_str().unwrap(), "-o", drawings.to_str().unwrap()]);
    let drawing = fs::read_to_string(drawings.join("X1.svg")).unwrap();
    let found = ["random", "variant", "stock", "bound"].map(|name| drawing.contains(&format!("{name}, paper")));
    assert_eq!(found, [true, false, true, false], "{drawing}");
}

#[test]
fn what_is_wrong_with_a_row_is_said_with_its_file() {
    let directory = machines_alone();
    let arguments = ["--from", directory.path().to_str().unwrap()];
    for (text, words) in [
        (ROW.replace("of = 'disk'", "of = 'dish'"), vec!["X1.toml", "dish"]),
        (ROW.replace("4MiB'", "4MiX'"), vec!["X1", "large", "4MiX"]),
        (ROW.replace("machines = 'disk'", "machines = 'dish'"), vec!["X1", "dish"]),
        (ROW.replace("must = 'rise'", "must = 'exceed'"), vec!["X1.toml", "bound"]),
        (ROW.replace("X1", "X2"), vec!["X1.toml", "X2"]),
        (traced_row().replace("[window]\nserver = 0\nat = 0.25\nseconds = 0.5\n", ""), vec!["X1.toml", "window"]),
    ] {
        fs::write(directory.path().join("X1.toml"), text).unwrap();
        let output = paper(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125));
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    }
    let output = paper(&["--id", "L19,Q7"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Q7") && said.contains("L19"), "{said}");
}

/// Two ranks at random on a disk, the second time from the begin, traced.
fn traced_row() -> String {
    let row = ROW.replace("name = 'disk'\n", "name = 'disk'\nagain = true\n");
    let row = row.replace("ranks = 1", "ranks = 2");
    row + "
[window]
server = 0
at = 0.25
seconds = 0.5

[[panel]]
title = 'addresses'
run = 'disk'
shows = 'disk'

[[panel]]
title = 'waits'
run = 'disk'
shows = 'latency'
marks = [20]

[[series]]
name = 'first'
of = 'disk'
first = true

[[series]]
name = 'jumps'
of = 'disk'
measure = 'jumps_percent'

[[series]]
name = 'command'
of = 'disk'
measure = 'command_kb'

[[series]]
name = 'median'
of = 'disk'
measure = 'server_p50_ms'

[[claim]]
text = 'the mean'
series = 'jumps'
must = 'mean'
bound = 100.0
class = 'T1'
"
}

#[test]
fn a_row_with_a_window_shows_addresses_and_latencies_of_the_second_run() {
    let directory = machines_alone();
    fs::write(directory.path().join("X1.toml"), traced_row()).unwrap();
    let drawings = directory.path().join("drawings");
    let arguments = ["--from", directory.path().to_str().unwrap(), "-o", drawings.to_str().unwrap()];
    let found = json(&arguments);
    let series = &found["row"]["X1"]["series"];
    let ours = |name: &str, point: &str| series[name][point]["ours"].as_f64().unwrap();
    assert!(ours("jumps", "small") > 95.0, "random reads over 2 GiB are far from each other");
    assert_eq!(ours("command", "small"), 4.096);
    assert!((5.0..40.0).contains(&ours("median", "small")), "two ranks wait for one disk: {}", ours("median", "small"));
    assert!((0.9..1.1).contains(&(ours("first", "small") / ours("random", "small"))), "nothing was kept");
    assert_eq!(found["row"]["X1"]["claims"][1]["text"].as_str().unwrap().split(':').next(), Some("the mean"));
    let drawing = fs::read_to_string(drawings.join("X1.svg")).unwrap();
    let words = ["addresses", "waits", "disk address, millions of sectors", "latency at the server, ms", "<circle"];
    assert!(words.iter().all(|word| drawing.contains(word)), "{drawing}");
}

/// What the paper prints of LiU's second run, alone and beside others, as far as the model is not bound otherwise.
#[test]
fn the_second_run_with_liu_is_as_fast_as_printed_where_the_processor_does_not_bound_it() {
    let found = json(&["--id", "L12,L20-LiU,L24"]);
    assert_eq!((&found["rows"], &found["passed"]), (&3.into(), &3.into()), "{found}");
}

#[test]
fn accesses_are_scattered_on_the_stock_disk_and_serialised_by_itransformer() {
    let found = json(&["--id", "I4"]);
    assert_eq!(found["row"]["I4"]["pass"], true, "{found}");
}

/// Reduced rows of both client policies, and not one byte of what is printed depends on how many threads simulate.
#[test]
fn carl_and_s4d_gain_what_is_printed_whatever_the_number_of_threads() {
    let rows = "C1,C8,S2";
    let [one, three] = ["1", "3"].map(|threads| printed(&["--id", rows, "--json", "--threads", threads]));
    assert!(one == three);
    let found: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&found["rows"], &found["passed"]), (&3.into(), &3.into()), "{found}");
}
