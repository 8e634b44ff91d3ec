//! `headstart-lab sim`: scenarios and traces in virtual time, as its users call it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headstart-lab")).arg("sim").args(arguments).output().unwrap()
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenarios").join(name)
}

#[track_caller]
fn json(arguments: &[&str]) -> serde_json::Value {
    let output = sim(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn equal_runs_give_equal_bytes_and_another_seed_others() {
    let path = scenario("s4d-mix.toml");
    let path = path.to_str().unwrap();
    let run = |seed| sim(&[path, "--json", "--check", "--seed", seed]).stdout;
    let first = run("7");
    assert!(!first.is_empty() && first == run("7"));
    assert_ne!(first, run("8"));
}

#[test]
fn a_policy_of_the_command_line_takes_the_place_of_the_scenarios() {
    let path = scenario("carl-zipf.toml");
    let path = path.to_str().unwrap();
    let (stock, carl) = (json(&[path, "--json", "--policy", "stock"]), json(&[path, "--json"]));
    assert_eq!((&stock["policy"], &carl["policy"]), (&"stock".into(), &"carl".into()));
    assert!(carl["mb_per_s"].as_f64().unwrap() > stock["mb_per_s"].as_f64().unwrap());
    let text = sim(&[path, "--timing"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(["MB/s", "disk 0", "flash 0", "events a second"].iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_trace_is_replayed_on_the_machines_that_scenarios_have() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut log = String::from("fio version 2 iolog\n/data/a add\n/data/a open\n");
    (0..200).for_each(|k| log.push_str(&format!("/data/a read {} 65536\n", k * 7 % 200 * 65536)));
    std::fs::write(&path, log + "/data/a close\n").unwrap();
    let report = json(&[path.to_str().unwrap(), "--json", "--check"]);
    assert_eq!(report["jobs"][0]["phases"][0]["reads"], 200);
    assert_eq!(report["jobs"][0]["phases"][0]["read_bytes"], 200 * 65536);
    assert_eq!(sim(&[path.to_str().unwrap(), "--json"]).stdout, sim(&[path.to_str().unwrap(), "--json"]).stdout);
}

#[test]
fn a_replay_has_a_sites_machines_and_says_that_its_plan_knows_the_requests() {
    let directory = tempfile::tempdir().unwrap();
    let (log, site) = (directory.path().join("log"), directory.path().join("site.toml"));
    let mut text = String::from("fio version 2 iolog\n/data/a add\n/data/a open\n");
    (0..300).for_each(|k| text.push_str(&format!("/data/a write {} 8192\n", k * 7 % 300 * 65536)));
    std::fs::write(&log, text + "/data/a close\n").unwrap();
    let headstart = Path::new(env!("CARGO_BIN_EXE_headstart-lab")).with_file_name("headstart");
    let example =
        String::from_utf8(Command::new(headstart).args(["site", "example"]).output().unwrap().stdout).unwrap();
    let seconds = |request_cpu_ms: u32, policy: &str| {
        let software = format!("\n[software]\nprocessors = 1\nrequest_cpu_ms = {request_cpu_ms}\ncopy_cpu_ms = 0\n");
        std::fs::write(&site, format!("{example}{software}")).unwrap();
        let (log, site) = (log.to_str().unwrap(), site.to_str().unwrap());
        let output = sim(&[log, "--site", site, "--policy", policy, "--capacity", "64MiB", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("planned from the very requests"), policy != "s4d", "{said}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["seconds"].as_f64().unwrap()
    };
    let (quick, slow) = (seconds(0, "s4d"), seconds(5, "s4d"));
    assert!(slow > quick + 1.0, "300 requests of 5 ms on one processor: {quick} and {slow} s");
    seconds(0, "carl,s4d");
}

#[test]
fn errors_name_the_file_and_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong.toml");
    let job = "[[job]]\nname = 'a'\n";
    for (text, words) in [
        ("[disk]\nservers = 0\n", &["wrong.toml", "[disk] servers"][..]),
        ("[[job]]\nname = 'a'\n[job.workload]\nkind = 'nothing'\n", &["wrong.toml", "nothing"]),
        (job, &["wrong.toml", "workload", "'a'"]),
        ("", &["wrong.toml", "[[job]]"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = sim(&[path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    let endless = directory.path().join("endless.toml");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    let said = sim(&[endless.to_str().unwrap()]).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("endless.toml") && said.contains("longer than"), "{said}");
    let none = directory.path().join("none.toml");
    let said = sim(&[none.to_str().unwrap()]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("none.toml"));
}

#[test]
fn addresses_of_disks_and_flash_and_answers_are_traced_in_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("addresses.csv");
    let path = scenario("itransformer/random-mix.toml");
    let report = json(&[
        path.to_str().unwrap(),
        "--json",
        "--server-policy",
        "itransformer",
        "--trace-addresses",
        file.to_str().unwrap(),
    ]);
    let mut table = csv::Reader::from_path(&file).unwrap();
    let headings = ["seconds", "server", "device", "operation", "offset", "bytes", "latency_ms"];
    assert_eq!(table.headers().unwrap(), headings.as_slice());
    let lines: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    let seconds: Vec<f64> = lines.iter().map(|line| line[0].parse().unwrap()).collect();
    assert!(seconds.is_sorted());
    let count = |device: &str| lines.iter().filter(|line| &line[2] == device && &line[3] != "flush").count() as u64;
    assert_eq!(count("disk"), report["disk"][0]["commands"].as_u64().unwrap());
    assert_eq!(count("flash"), report["disk"][0]["volume"]["flash_commands"].as_u64().unwrap());
    assert!(count("server") > 0 && lines.iter().all(|line| line[6].is_empty() != (&line[2] == "server")));
}

/// Every byte that is read is the byte last written, through regions, a cache, a log and heads at once.
#[test]
fn all_four_policies_together_lose_no_byte_of_the_scenarios_they_are_compared_by() {
    for name in ["zipf-read", "tile-write", "ior-random-write", "test-write"] {
        let path = scenario("compose").join(name).with_extension("toml");
        let options = ["--check", "--json", "--policy", "carl,s4d", "--server-policy", "liu,itransformer"];
        let report = json(&[&[path.to_str().unwrap()][..], &options].concat());
        assert_eq!((&report["policy"], &report["server_policy"]), (&"carl,s4d".into(), &"liu,itransformer".into()));
        assert!(report["drained_mb_per_s"].as_f64().unwrap() > 0.0, "{name}");
    }
}

#[test]
fn every_scenario_that_comes_with_the_project_makes_sense() {
    let mut count = 0;
    for directory in ["", "compose", "liu", "itransformer"] {
        for entry in std::fs::read_dir(scenario(directory)).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let parsed = headstart_sim::scenario::Scenario::from_toml(&text);
                let scenario = parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                scenario.check().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                count += 1;
            }
        }
    }
    assert!(count > 25, "only {count} scenarios were found");
}

#[test]
fn workloads_are_simulated_on_nodes_with_an_agent_each() {
    let scale = |storage: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headstart-lab"));
        command.args([
            "scale",
            "--nodes",
            "2",
            "--ranks-per-node",
            "2",
            "--requests",
            "8",
            "--check",
            "--storage",
            storage,
        ]);
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("curves.svg");
    let text = scale("stock,all-flash", &["--plot", plot.to_str().unwrap()]);
    assert_eq!(text.matches("hard over easy").count(), 2, "{text}");
    let drawn = std::fs::read_to_string(&plot).unwrap();
    for curve in ["hard, stock", "hard, all-flash", "easy, stock", "own-files, all-flash"] {
        assert!(drawn.contains(curve), "no {curve} in {drawn}");
    }
    let text = scale("headstart", &["--workloads", "hard", "--json"]);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(line["agents"]["busiest"]["messages_per_s"].as_f64().unwrap() > 0.0, "{text}");
    let text = scale("headstart", &["--workloads", "hard", "--json", "--one-agent"]);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(line.get("agents").is_none() && line["write_mb_per_s"].as_f64().unwrap() > 0.0, "{text}");
}
