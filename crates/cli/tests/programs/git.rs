//! git: a repository in the managed directory.

use crate::comparison::Comparison;

#[test]
fn a_repository_lives_in_the_managed_directory() {
    let Some(comparison) = Comparison::new(&[("git", "git")]) else { return };
    // A write-back changes ctime, which git would take for a change of the file's where it comes into another second.
    let settings = "export GIT_CONFIG_COUNT=4 GIT_CONFIG_KEY_0=pack.threads GIT_CONFIG_VALUE_0=1
        export GIT_CONFIG_KEY_3=core.trustctime GIT_CONFIG_VALUE_3=false
        export GIT_CONFIG_KEY_1=core.logAllRefUpdates GIT_CONFIG_VALUE_1=false GIT_CONFIG_KEY_2=core.fsync GIT_CONFIG_VALUE_2=all
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'\n";
    // The index holds inode numbers and times of the files it names, a clone the path of its origin: they
    // cannot be the same in two directories.
    let own = "find . ( -path '*.git/index' -o -path './[ceb]*/config' -o -name FETCH_HEAD ) -delete"
        .replace("( ", "\\( ")
        .replace(" )", " \\)");
    let same = |script: &str| comparison.same(&format!("{settings}{script}\n{own}"));
    let dirty = |script: &str| comparison.same_and_kept_dirty(&format!("{settings}{script}"));
    dirty(
        "git init -q -b main r; cd r; seq 1 30000 >numbers; mkdir d; split -l 900 numbers d/part.; git add .; git commit -qm one
         for k in 1 2 3 4; do seq $k $((30000 + k)) >numbers; cp numbers d/copy.$k; git add -A; git commit -qm $k; done; git log --format=%H; git status --porcelain",
    );
    dirty(
        "cd r; git fsck --full --strict 2>&1; git status --porcelain; git diff HEAD~2 --stat; git gc -q --prune=now; git fsck 2>&1; git count-objects -v | grep -v size; git log --oneline",
    );
    dirty(
        "git clone -q r c; git clone -q --no-local r e; git clone -q --bare r b; cd c; git checkout -q -b side HEAD~3; seq 5 >new; git add new; git commit -qm side
         git checkout -q main; git merge -q -m merged side; git log --format=%H; git push -q origin side; git stash list; git mv numbers moved; git reset -q --hard; git status --porcelain; git fsck 2>&1",
    );
    dirty(
        "cd c; git repack -adq --depth=5; git gc -q --aggressive --prune=now; git fsck 2>&1; git archive main | tar -tf - | wc -l; git worktree list | wc -l; git grep -c 299 main | head -3",
    );
    dirty(
        "cd c; git status --porcelain; git fsck --full 2>&1; cd ../e; git status --porcelain | head -c 100; git pull -q; git log --format=%H",
    );
    same("cd c; git reset -q --hard; git status --porcelain; git log --format=%H; cd ..");
    comparison.flash_took_part();
}
