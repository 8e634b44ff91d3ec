//! The page in a browser, at the width of a phone and of a desk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{advise, site, traced};

/// A page that shows the one under test in a frame of each width, and says how wide its content is there.
const FRAMES: &str = r#"<!DOCTYPE html><html><body><p id="found"></p>
<iframe src="report.html" width="360" height="900"></iframe><iframe src="report.html" width="1280" height="900"></iframe>
<script>
addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  const found = frames.map(frame => {
    const page = frame.contentDocument.documentElement;
    const plots = [...page.querySelectorAll("svg[role=img]")];
    const shown = plots.filter(plot => plot.getBoundingClientRect().width > 250 && plot.getBoundingClientRect().right <= page.clientWidth);
    return `${page.scrollWidth}/${page.clientWidth}:${shown.length}`;
  });
  document.getElementById("found").textContent = "widths " + found.join(" ");
});
</script></body></html>"#;

/// What Chromium prints, within two minutes.
fn chromium(directory: &Path, options: &[&str], page: &Path) -> Result<String, String> {
    let profile = directory.join("profile");
    let output = directory.join("dump");
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ]);
    command
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(options)
        .arg(format!("file://{}", page.display()));
    command.stdout(fs::File::create(&output).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("no chromium: {error}"))?;
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("chromium has not ended within two minutes".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(fs::read_to_string(output).unwrap())
}

#[test]
fn the_page_fits_a_phone_and_a_desk() {
    let (site, path) = site();
    let page = site.path("report.html");
    assert!(advise(&site, &traced(&site, &path), &["-o", page.to_str().unwrap()]).status.success());
    let frames = site.path("frames.html");
    fs::write(&frames, FRAMES).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let dump = match chromium(
        directory.path(),
        &["--window-size=1800,1200", "--virtual-time-budget=20000", "--dump-dom"],
        &frames,
    ) {
        Ok(dump) => dump,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let found = dump.split("widths ").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or(&dump);
    assert_eq!(found, "360/360:6 1280/1280:6", "width of the content/of the window:plots that are whole");
    for (scheme, name) in [("0", "dark"), ("1", "light")] {
        let picture = site.path(&format!("{name}.png"));
        let shot = format!("--screenshot={}", picture.display());
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let shown = chromium(directory.path(), &["--window-size=1280,900", &scheme, &shot], &page);
        assert!(shown.is_ok() && fs::metadata(&picture).is_ok_and(|found| found.len() > 10_000), "{name}: {shown:?}");
    }
    let pictures = ["dark.png", "light.png"].map(|name| fs::read(site.path(name)).unwrap());
    assert_ne!(pictures[0], pictures[1], "colours follow the preference for dark or light");
}
