//! The small tools of every script: sort, split, truncate, install, rm, find, du, shred, tee, gzip, xz.

use crate::comparison::Comparison;

#[test]
fn text_and_file_tools() {
    let Some(comparison) = Comparison::new(&[]) else { return };
    comparison.same_and_kept_dirty(
        "seq 1 40000 | tee numbers >copy; seq 40000 -1 1 | dd of=reversed bs=3000 status=none; sort -n reversed -o sorted
         cmp numbers sorted; echo $?; sort -R --random-source=numbers numbers >shuffled; sort -n shuffled -o shuffled; cmp numbers shuffled; echo $?
         sort -S 64k -T . -rn numbers >external; tac numbers | cmp - external; echo $?; uniq -c copy | tail -n 3; comm -12 copy numbers | wc -l",
    );
    comparison.same(
        "split -n 7 numbers n.; split -l 9000 numbers l.; split -b 10k --filter='cat >$FILE.filtered' numbers f.; cat n.* | cmp - numbers; echo $?
         csplit -s numbers 100 30000; paste numbers reversed >pasted; join <(sort numbers) <(sort reversed) | wc -l; cut -c1-3 numbers >cut
         tr 0-9 a-j <numbers >letters; sed -i s/1/one/g cut; awk '{ s += $1 } END { print s }' pasted; head -c 70000 pasted >head; tail -c 70000 pasted >tail
         od -An -c head | md5sum; xxd letters 2>/dev/null | md5sum; wc numbers letters; grep -c 7 numbers; cmp -l head tail | wc -l; diff numbers reversed | wc -l
         md5sum *; cksum numbers; sum copy; b2sum cut",
    );
    comparison.same(
        "truncate -s 1M numbers; truncate -s 1000 reversed; truncate -s +5000 reversed; truncate -s %4096 copy; stat -c '%n %s %a %h' *
         install -m 751 -D letters deep/er/installed; install -d -m 700 made; fallocate -l 300000 allocated; fallocate -p -o 4096 -l 8192 numbers; echo $?
         ln letters made/hard; ln -s ../letters made/soft; rm n.*; find . -type f -size +100k | sort; du -b --apparent-size letters | cut -f1
         find . -name 'l.*' -delete; rm -r deep; tail -c 100 letters | tee -a cut >>copy; shred -u tail; ls -1",
    );
    comparison.same("rm -rf ./* && ls -A");
    comparison.flash_took_part();
}

#[test]
fn gzip_xz_and_bzip2() {
    let Some(comparison) = Comparison::new(&[("xz", "xz-utils"), ("bzip2", "bzip2")]) else { return };
    comparison.same(
        "seq 1 90000 | dd of=a bs=10000 status=none; cp a b; cp a c; gzip -nk a; xz -k a; bzip2 -k a; gzip -n b; xz c
         zcat a.gz | cmp - a && xzcat a.xz | cmp - a && bzcat a.bz2 | cmp - a; echo $?; ls -1 | sort",
    );
    comparison.same("gunzip b.gz; unxz c.xz; cmp a b && cmp a c; echo $?; gzip -t a.gz; xz -t a.xz; echo $?; xz -T2 -f --block-size=100k a; xz -dkc a.xz >a");
    comparison.flash_took_part();
}
