//! Unmodified programs on a mount.

#[path = "support/testbed.rs"]
mod testbed;

use std::process::{Command, Output};

use testbed::{Testbed, is_installed};

fn run(directory: &std::path::Path, script: &str) -> String {
    let Output { status, stdout, stderr } =
        Command::new("bash").args(["-euc", script]).current_dir(directory).env("HOME", directory).output().unwrap();
    assert!(status.success(), "{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn sqlite_works_with_rollback_and_write_ahead_journals() {
    if !is_installed("sqlite3") {
        return;
    }
    let Some(testbed) = Testbed::start() else { return };
    for mode in ["delete", "wal"] {
        let script = format!(
            "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(x); \
             with recursive c(i) as (select 1 union all select i+1 from c where i<5000) insert into t select i from c;'; \
             sqlite3 {mode}.db 'insert into t values (5001)' & sqlite3 -cmd '.timeout 20000' {mode}.db 'insert into t values (5002)'; wait; \
             sqlite3 {mode}.db 'pragma integrity_check; select count(*) >= 5001 from t'"
        );
        let output = run(&testbed.slow, &script);
        assert_eq!(output, format!("{mode}\nok\n1\n"));
    }
}

#[test]
fn git_commits_clones_and_checks() {
    if !is_installed("git") {
        return;
    }
    let Some(testbed) = Testbed::start() else { return };
    let script = "git init -q a; cd a; git config user.email a@b; git config user.name n; \
        for i in $(seq 50); do seq $i 1000 > f$i; done; git add .; git commit -qm one; git gc -q; cd ..; \
        git clone -q a b; cd b; git fsck --strict 2>/dev/null; git log --oneline | wc -l; cmp f50 ../a/f50";
    assert_eq!(run(&testbed.slow, script).trim(), "1");
}

#[test]
fn cp_and_tar_copy_trees_between_the_directories() {
    let Some(testbed) = Testbed::start() else { return };
    let script = "mkdir -p t/u; head -c 3000000 /dev/urandom > t/u/big; truncate -s 50M t/sparse; echo x >> t/sparse; ln -s u/big t/link; \
        cp -a t ../fast/; diff -r t ../fast/t; tar cf - t | (mkdir -p ../fast/v; tar xf - -C ../fast/v); diff -r t ../fast/v/t; echo same";
    assert_eq!(run(&testbed.slow, script).trim(), "same");
}

#[test]
fn fio_verifies_what_it_writes() {
    if !is_installed("fio") {
        return;
    }
    let Some(testbed) = Testbed::start() else { return };
    let script = "fio --name=v --filename=data --size=16M --bs=4k-64k --rw=randwrite --verify=crc32c --do_verify=1 --ioengine=libaio \
        --iodepth=16 --direct=1 --minimal > /dev/null; fio --name=w --directory=. --size=2M --numjobs=4 --bs=16k --rw=randrw \
        --verify=md5 --ioengine=psync --minimal > /dev/null; echo verified";
    assert_eq!(run(&testbed.slow, script).trim(), "verified");
}
