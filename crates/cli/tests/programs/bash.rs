//! Pipelines, redirections and descriptors of the shell.

use crate::comparison::Comparison;

#[test]
fn redirections_pipelines_and_inherited_descriptors() {
    let Some(comparison) = Comparison::new(&[]) else { return };
    comparison.same_and_kept_dirty(
        "for k in $(seq 300); do echo line $k; done >a; for k in $(seq 300); do printf '%05d' $k >>b; done
         cat >c <<END\nhere $((6 * 7))\n$(wc -c <a)\nEND\ncat <<<word >>c; { cat a; cat b; } | tee d | wc -c; (cat a; cat c) >e 2>&1; cat c",
    );
    // One offset shared by the shell and its children, read and written in turn.
    comparison.same(
        "exec 3<>a; read -r x <&3; echo $x; printf XXXXX >&3; read -r y <&3; echo $y; head -c 4 <&3 >/dev/null; exec 3>&-
         exec 4>>b 5<b; echo end >&4; (echo child >&4; exec 4>&-; echo gone 2>/dev/null >&4); tail -c 20 <&5; exec 4>&- 5<&-
         exec 6>f; for k in 1 2 3; do (echo $k >&6) & wait; done; dd if=a bs=10 count=5 status=none >&6; echo last >&6; exec 6>&-; cat f
         while read -r line; do echo \"${line#line }\"; done <a >g; mapfile -t lines <a; echo ${#lines[@]}; echo \"$(<g)\" | md5sum",
    );
    comparison.same(
        "set -o noclobber; echo no >a; echo $?; echo yes >|h; set +o noclobber; : >i; >j; echo x >i; [[ -s i && ! -s j && a -ot i ]]; echo $?
         coproc dd of=k bs=100 status=none; seq 5000 >&${COPROC[1]}; eval \"exec ${COPROC[1]}>&-\"; wait
         cat <(sort -r a) <(sort b) >l; diff <(cat a) a; echo $?; mkfifo p; cat <p >m & seq 1000 >p; wait; rm p; yes | head -n 9000 >n; trap 'cat n >o' EXIT",
    );
    comparison.same("cat a b c d | (dd bs=1 count=100 status=none; dd of=q bs=333 status=none; echo rest >>q); (ulimit -f 20; yes >r) 2>/dev/null; echo $?; seq 20 | while read -r k; do dd if=d of=s bs=50 skip=$k seek=$((20 - k)) count=1 conv=notrunc status=none; done");
    comparison.flash_took_part();
}
