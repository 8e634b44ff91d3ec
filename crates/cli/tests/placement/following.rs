//! Without a plan, regions follow what a program reads (D-CARL).

use super::*;

/// D-CARL's shortest region.
const REGION: u64 = 256 << 10;

#[test]
fn under_auto_a_region_that_is_read_again_and_again_comes_to_flash_whole_and_is_none_of_a_plan() {
    let test = "following::under_auto_a_region_that_is_read_again_and_again_comes_to_flash_whole_and_is_none_of_a_plan";
    if role().is_some() {
        return play();
    }
    let site = prepared("2MiB");
    // Every other piece of the region: S4D fetches those and no others.
    let pieces = (0..REGION / PIECE).step_by(2).map(|piece| format!("read a 1 {} {PIECE}", piece * PIECE));
    let once = pieces.collect::<Vec<_>>().join(";");
    let role = format!("{};wait seen", vec![once; 50].join(";"));
    let mut run = site.play(&["--policy", "auto"], test, &role).spawn().unwrap();
    crate::site::wait_for("the region is on flash", || {
        let status: Value = serde_json::from_slice(&site.headstart(&["status", "--json"]).stdout).unwrap_or_default();
        let figure = |name: &str| status.pointer(name).and_then(Value::as_u64).unwrap_or(0);
        status.pointer("/placement/following") == Some(&Value::Bool(true))
            && figure("/placement/placed_bytes") == REGION
            && figure("/mapped_bytes") == REGION
    });
    site.fail(125, &["run", "--policy", "carl", "--", "true"], &["none are known"]);
    fs::write(site.path("seen"), b"").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!((site.figure("/placement/files"), site.figure("/mapped_bytes")), (0, REGION), "its bytes stay");
    site.succeed(&["place", &plan_for_a(&site, &[(MIB, MIB)])]);
    assert_eq!(site.figure("/placement/placed_bytes"), MIB);
    let output = site.headstart(&["run", "--policy", "auto", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("regions of a plan are known (files: 1)"), "{said}");
}

#[test]
fn an_agent_that_follows_one_that_was_killed_is_told_to_let_regions_follow() {
    let test = "following::an_agent_that_follows_one_that_was_killed_is_told_to_let_regions_follow";
    if role().is_some() {
        return play();
    }
    let site = prepared("2MiB");
    let mut run = site.play(&["--policy", "auto"], test, "read a 1 0 4096;wait seen").spawn().unwrap();
    let following = |killed: u64| {
        let status: Value = serde_json::from_slice(&site.headstart(&["status", "--json"]).stdout).unwrap_or_default();
        let pid = status.pointer("/pid").and_then(Value::as_u64).filter(|pid| *pid != killed);
        pid.filter(|_| status.pointer("/placement/following") == Some(&Value::Bool(true)))
    };
    crate::site::wait_for("regions follow", || following(0).is_some());
    let first = following(0).unwrap();
    let pid = nix::unistd::Pid::from_raw(first as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    crate::site::wait_for("they follow again", || following(first).is_some());
    fs::write(site.path("seen"), b"").unwrap();
    assert!(run.wait().unwrap().success());
}
