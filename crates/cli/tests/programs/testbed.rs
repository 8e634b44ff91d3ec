//! A few of the programs on the emulated servers' mounts instead of plain directories.

use std::fs;

use headstart_agent::site::Site;

use crate::comparison::Comparison;
use crate::mounts::{Testbed, mount};
use crate::site::TestSite;

#[test]
fn programs_on_emulated_servers() {
    let mut site = TestSite::with_capacity("192KiB");
    if !mount(&mut site, &["--time-scale", "0.02"]) {
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
