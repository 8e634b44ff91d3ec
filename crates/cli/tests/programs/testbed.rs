//! A few of the programs on the emulated servers' mounts instead of plain directories.

use std::fs;

use headstart_agent::site::Site;

use crate::comparison::Comparison;
use crate::site::TestSite;

/// A testbed that goes down with the test.
struct Testbed<'a>(&'a TestSite);

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        let _ = self.0.headstart(&["stop", "--keep-dirty"]);
        let output = self.0.headstart(&["testbed", "down", "--force"]);
        if !output.status.success() {
            eprintln!("{}", self.0.say(&output));
        }
    }
}

#[test]
fn programs_on_emulated_servers() {
    let mut site = TestSite::with_capacity("192KiB");
    fs::remove_file(&site.file).unwrap();
    (site.slow, site.fast) = (site.path("mounted-slow"), site.path("mounted-fast"));
    let (slow, fast) = (site.slow.to_str().unwrap(), site.fast.to_str().unwrap());
    let backing = site.path("backing");
    fs::create_dir(&backing).unwrap();
    let up = ["testbed", "up", "--slow", slow, "--fast", fast, "--backing", backing.to_str().unwrap()];
    let output = site.headstart(&[&up[..], &["--time-scale", "0.02"]].concat());
    if !output.status.success() {
        let said = site.say(&output);
        assert!(said.contains("FUSE") || said.contains("cannot mount"), "{said}");
        println!("SKIPPED: the testbed does not come up here: {said}");
        return;
    }
    let mut settings = Site::load(&site.file).unwrap();
    settings.capacity = Some("192KiB".into());
    fs::write(&site.file, settings.to_toml()).unwrap();
    let comparison = Comparison::on(vec![site]);
    let _testbed = Testbed(&comparison.sites[0]);
    comparison.same_and_kept_dirty("seq 60000 | dd of=a bs=3000 iflag=fullblock status=none; dd if=a of=b bs=10000 conv=fsync status=none; cp a c; cat a b c >d; mv c e; cmp a e; echo $?");
    comparison.same("mkdir t; tar -cf - a b d | tar -xf - -C t; cat >>a <<<appended; exec 3<>b; read -r x <&3; echo changed >&3; sha256sum a b d t/*; truncate -s 50000 d");
    comparison.same("/usr/bin/python3 $SOURCES/processes.py fork; /usr/bin/python3 $SOURCES/processes.py inherit");
    comparison.same("rm -rf t; gzip -nk a; gunzip -c a.gz | cmp - a; echo $?; sort -r a -o a; split -n 3 b; ls");
    comparison.flash_took_part();
}
