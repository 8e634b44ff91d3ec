//! `headstart advise`: what it prints, its JSON, its page, and what is no trace to advise from.

#[path = "advice/browser.rs"]
mod browser;
#[path = "support/site.rs"]
mod site;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use site::{HEADSTART, TestSite};

const MIB: u64 = 1 << 20;

/// A name that a page has to escape.
const NAME: &str = "data & <b>'it\"s'.bin";

/// A site of eight disks and four flash servers, and a file in it.
fn site() -> (TestSite, PathBuf) {
    let site = TestSite::with_capacity("1MiB");
    let costs = |rotation_s: f64| {
        format!(
            "hdd_servers = 8\nssd_servers = 4\nstripe_bytes = 65536\nrotation_s = {rotation_s}\nseek_s_max = 0.006\n\
             hdd_s_per_byte = 3e-8\nssd_s_per_byte = 2e-7\nseek_curve = []\n"
        )
    };
    let text = format!(
        "slow = {:?}\nfast = {:?}\ncapacity = \"1MiB\"\n[s4d.read]\n{}[s4d.write]\n{}",
        site.slow,
        site.fast,
        costs(0.004),
        costs(0.004)
    );
    fs::write(&site.file, text).unwrap();
    let path = site.slow.join(NAME);
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    (site, path.canonicalize().unwrap())
}

/// A file with a name that fio's log can have.
fn plain(site: &TestSite) -> PathBuf {
    let path = site.slow.join("plain");
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    path.canonicalize().unwrap()
}

/// A text of Darshan: four ranks read 16 KiB here and there, mostly at the begin of the file.
fn traced(site: &TestSite, path: &Path) -> PathBuf {
    let mut text = String::from("# darshan log version: 3.41\n# start_time: 1587455133\n");
    for rank in 0..4u64 {
        text.push_str(&format!(
            "\n# DXT, file_id: 1, file_name: {}\n# DXT, rank: {rank}, hostname: n1\n# DXT, write_count: 0, read_count: 400\n",
            path.display()
        ));
        for k in 0..400u64 {
            let place = (rank * 400 + k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
            let (offset, start) = (place * place / 4096 * 16384, k as f64 * 0.01);
            let operation = if k % 8 == 7 { "write" } else { "read" };
            text.push_str(&format!(" X_POSIX {rank} {operation} {k} {offset} 16384 {start:.6} {:.6}\n", start + 0.009));
        }
    }
    let trace = site.path("trace.txt");
    fs::write(&trace, text).unwrap();
    trace
}

fn advise(site: &TestSite, trace: &Path, options: &[&str]) -> Output {
    let mut command = site.command(HEADSTART);
    command.arg("advise").arg(trace).args(options).output().unwrap()
}

fn json(site: &TestSite, trace: &Path) -> Value {
    let output = advise(site, trace, &["--json"]);
    assert!(output.status.success(), "{}", site.say(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it says in the end to a trace it has no advice for.
fn refusal(site: &TestSite, trace: &Path, options: &[&str]) -> String {
    let output = advise(site, trace, options);
    assert_eq!(output.status.code(), Some(125), "{}", site.say(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn files_that_are_gone_have_regions_of_a_size_that_fits_them_too() {
    let (site, path) = site();
    let trace = traced(&site, &path);
    let there = json(&site, &trace);
    fs::remove_file(&path).unwrap();
    let gone = json(&site, &trace);
    assert_eq!(gone["top_files"][0]["region_bytes"], there["top_files"][0]["region_bytes"]);
    assert!(gone["knee"]["speedup"].as_f64().unwrap() > 1.05, "{}", gone["knee"]);
}

#[test]
fn a_trace_is_planned_and_advised_from_where_neither_directory_is_mounted() {
    let (site, path) = site();
    let trace = traced(&site, &path);
    let there = json(&site, &trace);
    fs::remove_dir_all(&site.slow).unwrap();
    fs::remove_dir_all(&site.fast).unwrap();
    let elsewhere = json(&site, &trace);
    // The file's size is that of its requests now.
    assert_eq!(elsewhere["top_files"][0]["path"], there["top_files"][0]["path"]);
    assert_eq!((&elsewhere["requests"], &elsewhere["disk_s"]), (&there["requests"], &there["disk_s"]));
    assert!(elsewhere["knee"]["speedup"].as_f64().unwrap() > 1.05, "{}", elsewhere["knee"]);
    let output =
        site.command(HEADSTART).arg("plan").arg(&trace).args(["--region", "128KiB", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan["flash_regions"].as_u64().unwrap() > 0, "{plan}");
}

#[test]
fn the_json_has_a_curve_for_each_policy_the_knee_and_the_commands() {
    let (site, path) = site();
    let found = json(&site, &traced(&site, &path));
    assert_eq!(
        (&found["requests"], &found["ranks"], &found["file_bytes"]),
        (&1600.into(), &4.into(), &(64 * MIB).into())
    );
    let names: Vec<&str> =
        found["policies"].as_array().unwrap().iter().map(|one| one["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["off", "carl", "s4d", "s4d, first run", "carl,s4d", "random"]);
    for policy in found["policies"].as_array().unwrap() {
        let points = policy["points"].as_array().unwrap();
        assert_eq!(points.len(), 21);
        assert_eq!(points[0]["run_s"], found["disk_s"]);
        assert!((points[20]["share"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        assert!(points.iter().all(|point| point["run_s"].as_f64().unwrap() > 0.0));
    }
    let knee = &found["knee"];
    assert!(knee["share"].as_f64().unwrap() > 0.0 && knee["speedup"].as_f64().unwrap() > 1.05, "{knee}");
    let commands: Vec<&str> = found["commands"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let policy = found["recommended"].as_str().unwrap();
    assert!(commands.last().unwrap().contains(&format!("--policy {policy} --capacity ")), "{commands:?}");
    assert_eq!(found["top_files"][0]["path"], path.to_str().unwrap());
    assert!(found["regions"]["top"].as_array().unwrap().len() > 5);
    assert!(!found["not_known"].as_array().unwrap().is_empty());
}

#[test]
fn a_point_of_carl_is_what_a_plan_of_that_capacity_says() {
    let (site, path) = site();
    let trace = traced(&site, &path);
    let found = json(&site, &trace);
    let point = &found["policies"][1]["points"][6];
    let output = site
        .command(HEADSTART)
        .arg("plan")
        .arg(&trace)
        .args(["--region", "128KiB", "--json", "--capacity"])
        .arg(point["capacity_bytes"].to_string())
        .output()
        .unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&plan["after_s"], &plan["before_s"]), (&point["run_s"], &found["disk_s"]));
    assert_eq!(plan["flash_share"], point["flash_share"]);
}

#[test]
fn the_text_has_today_a_table_the_advice_and_what_it_does_not_know() {
    let (site, path) = site();
    let trace = traced(&site, &path);
    let output = advise(&site, &trace, &[]);
    let said = String::from_utf8(output.stdout).unwrap();
    for word in [
        "run time on the disks",
        "measured",
        "(10%)",
        "(20%",
        "knee",
        "carl,s4d",
        "s4d, first run",
        "advice: ",
        "headstart run ",
        NAME,
    ] {
        assert!(said.contains(word), "it does not say '{word}':\n{said}");
    }
    assert!(said.contains("not in these predictions:"), "{said}");
    assert!(said.lines().all(|line| !line.starts_with("flash ") || line.len() <= 100), "{said}");
}

#[test]
fn the_page_is_well_formed_whole_and_escapes_names() {
    let (site, path) = site();
    let page = site.path("report.html");
    let output = advise(&site, &traced(&site, &path), &["-o", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", site.say(&output));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.len() < MIB as usize, "{}", text.len());
    for outside in ["http:", "https:", "<script", "<link", "@import", "url(", "<img", " src="] {
        let found = text.replace("http://www.w3.org/1999/xhtml", "").replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "it names something else: {outside}");
    }
    assert!(!text.contains("<b>'it") && text.contains("data &amp; &lt;b&gt;&#39;it&quot;s&#39;.bin"));
    let titles = [
        "How much flash",
        "Where the gain is",
        "Which part of the file, when",
        "Address by time",
        "Request sizes",
        "Latency today",
    ];
    assert!(titles.iter().all(|title| text.contains(title)));
    let Ok(python) = Command::new("python3").arg("-c").arg(PARSE).arg(&page).output() else {
        return println!("SKIPPED: python3 is not there to parse the page");
    };
    let (said, errors) = (String::from_utf8_lossy(&python.stdout), String::from_utf8_lossy(&python.stderr));
    assert_eq!((said.trim(), errors.trim()), ("6 plots, 0 empty", ""));
}

/// Parses the page as XML and counts its plots, and those in which nothing is drawn.
const PARSE: &str = "
import sys, xml.dom.minidom
page = xml.dom.minidom.parse(sys.argv[1])
plots = [svg for svg in page.getElementsByTagName('svg') if svg.getAttribute('role') == 'img']
classes = lambda svg: ' '.join(path.getAttribute('class') for path in svg.getElementsByTagName('path'))
empty = [svg for svg in plots if not any(word in classes(svg) for word in ('curve', 'dots', 'heat', 'reads'))]
print(f'{len(plots)} plots, {len(empty)} empty')
";

#[test]
fn a_trace_without_times_of_one_rank_is_advised_by_the_cost_model_alone() {
    let (site, _) = site();
    let path = plain(&site);
    let log = site.path("iolog");
    let lines: Vec<String> =
        (0..300u64).map(|k| format!("{k} {} read {} 4096", path.display(), k * 7919 % 4096 * 16384)).collect();
    fs::write(&log, format!("fio version 3 iolog\n{}\n", lines.join("\n"))).unwrap();
    let found = json(&site, &log);
    assert_eq!((&found["measured_s"], &found["ranks"], &found["timed_requests"]), (&Value::Null, &1.into(), &0.into()));
    assert!(found["not_known"][0].as_str().unwrap().contains("no times"));
    let page = site.path("report.html");
    assert!(advise(&site, &log, &["-o", page.to_str().unwrap()]).status.success());
    assert!(fs::read_to_string(&page).unwrap().contains("The trace does not say when requests ended."));
}

#[test]
fn writes_alone_far_offsets_and_many_files_are_advised_like_others() {
    let (site, _) = site();
    let log = site.path("iolog");
    let mut lines = Vec::new();
    for k in 0..200u64 {
        let path = site.slow.join(format!("out.{k}"));
        File::create(&path).unwrap().set_len(MIB).unwrap();
        lines.push(format!("{k} {} write {} 8192", path.display(), k * 3 % 64 * 16384));
    }
    let sparse = site.slow.join("sparse");
    lines.push(format!("300 {} write {} 8192", sparse.display(), i64::MAX as u64 - 65536));
    fs::write(&log, format!("fio version 3 iolog\n{}\n", lines.join("\n"))).unwrap();
    let found = json(&site, &log);
    assert_eq!((&found["files"], &found["requests"]), (&201.into(), &201.into()));
    assert_eq!(found["sizes"][0]["requests"], 0);
    let page = site.path("report.html");
    assert!(advise(&site, &log, &["-o", page.to_str().unwrap()]).status.success());
    let length = fs::metadata(&page).unwrap().len();
    assert!(length < MIB, "{length}");
}

#[test]
fn what_is_no_trace_or_an_empty_one_is_refused_with_what_to_do() {
    let (site, path) = site();
    let says = |said: String, words: &[&str]| {
        words.iter().for_each(|word| assert!(said.contains(word), "it does not say '{word}':\n{said}"));
    };
    let file = |name: &str, text: &str| {
        fs::write(site.path(name), text).unwrap();
        site.path(name)
    };
    says(refusal(&site, &site.path("none"), &[]), &["cannot open the trace", "none"]);
    says(refusal(&site, &file("zero", ""), &[]), &["zero is empty"]);
    says(refusal(&site, &file("letter", "Dear trace,\n"), &[]), &["is no trace that is known"]);
    says(refusal(&site, &file("idle", "fio version 3 iolog\n"), &[]), &["has no request", "headstart trace"]);
    let elsewhere = file("elsewhere", "fio version 3 iolog\n0 /etc/hosts read 0 4096\n");
    says(refusal(&site, &elsewhere, &[]), &["1 requests, and none on a file below"]);
    let trace = traced(&site, &path);
    says(refusal(&site, &trace, &["--region", "100"]), &["--region 100B", "at least 4KiB"]);
    says(refusal(&site, &trace, &["-o", "/proc/none/report.html"]), &["cannot write the page /proc/none/report.html"]);
    let far = format!("fio version 3 iolog\n0 {} read 0 1125899906842624\n", plain(&site).display());
    says(
        refusal(&site, &file("far", &far), &["--region", "4KiB"]),
        &["more than 131072 regions", "choose larger ones"],
    );
}
