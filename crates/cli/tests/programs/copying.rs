//! dd, cp, cat, mv, tar and rsync.

use crate::comparison::Comparison;

/// Makes `seed`, 700,001 bytes that say nothing twice, and `sparse`, with holes.
const SEED: &str = "
    openssl enc -aes-128-ctr -pass pass:headstart -nosalt -md md5 </dev/zero 2>/dev/null | head -c 700001 |
        dd of=seed bs=12345 iflag=fullblock status=none
    dd if=seed of=sparse bs=5000 count=20 status=none
    dd if=seed of=sparse bs=5000 count=20 seek=60 conv=notrunc status=none
    truncate -s 1000000 sparse";

const SEED_NEEDS: (&str, &str) = ("openssl", "openssl");

#[test]
fn dd_in_its_modes() {
    let Some(comparison) = Comparison::new(&[SEED_NEEDS]) else { return };
    comparison.same(SEED);
    comparison.same(
        "dd if=seed of=synced bs=4096 conv=fsync status=none
         dd if=seed of=synced bs=1000 count=3 seek=11 conv=notrunc,fdatasync status=none
         dd if=seed of=osync bs=30000 oflag=sync status=none
         dd if=seed of=appended bs=7777 oflag=append conv=notrunc status=none
         dd if=synced of=appended bs=9999 oflag=append conv=notrunc status=none
         dd if=seed of=swapped bs=512 conv=swab,sync status=none
         dd if=seed of=holes bs=4096 conv=sparse status=none
         dd if=seed bs=100 skip=77 count=90 iflag=skip_bytes,count_bytes status=none | od -An -tx1
         cmp seed synced; echo $?; wc -c <appended",
    );
    // The page cache is passed by on both sides; the tail of a file that is no whole number of sectors goes without.
    comparison.same(
        "dd if=seed of=direct bs=4096 oflag=direct status=none
         dd if=seed of=direct bs=64k count=4 seek=1 oflag=direct conv=notrunc status=none
         dd if=direct bs=4096 iflag=direct status=none | sha256sum
         dd if=sparse of=direct-sparse bs=8192 iflag=direct status=none; sha256sum <direct-sparse",
    );
    comparison.flash_took_part();
}

#[test]
fn cp_cat_and_mv() {
    let Some(comparison) = Comparison::new(&[SEED_NEEDS]) else { return };
    comparison.same_and_kept_dirty(SEED);
    comparison.same_and_kept_dirty(
        "cp seed a; cp --reflink=auto seed b; cp --reflink=always seed c 2>/dev/null; echo $?
         cp --sparse=always sparse d; cp --sparse=never sparse e; cp -p --preserve=all seed f; cp -l seed g; cp -s seed h
         cmp seed a && cmp seed b && cmp sparse d && cmp sparse e && cmp seed f; echo $?",
    );
    comparison.same(
        "cat seed sparse >i; cat a a b >>i; cat <i | cat >j; cat seed - sparse <a >k; cmp i j; echo $?
         mkdir m; mv i m/; mv -T j m/i; mv m n; mv n/i n/o; mv -n seed a; echo $?; mv -b a b; ls -1R
         cp -r n p; cp -a n q; cp -u seed p/o; diff -r n q; echo $?",
    );
    comparison.same("(cp k /dev/shm/headstart-outside.$$ && mv /dev/shm/headstart-outside.$$ r) ; cmp k r; echo $?; mv r /dev/shm/headstart-outside.$$ && cmp k /dev/shm/headstart-outside.$$; echo $?; mv /dev/shm/headstart-outside.$$ s");
    comparison.flash_took_part();
}

/// Times are left out: one that is set by descriptor, as tar does, while a write-back is under way may not last.
#[test]
fn tar_creates_and_extracts() {
    let Some(comparison) = Comparison::new(&[SEED_NEEDS]) else { return };
    comparison.same_and_kept_dirty(SEED);
    comparison.same_and_kept_dirty(
        "mkdir -p t/u/v; split -b 30011 -d seed t/u/part.; cp sparse t/u/v/; ln t/u/part.01 t/linked; ln -s u/part.02 t/symbolic
         chmod 640 t/u/part.03; touch -d @1000000000 t/u/part.04 t/u/v/sparse
         T='--sort=name --mtime=@5 --owner=0 --group=0 --numeric-owner'
         tar $T -cf all.tar t; tar $T -Scf sparse.tar t; tar $T -czf all.tar.gz t; sha256sum all.tar all.tar.gz",
    );
    comparison.same(
        "mkdir x y z; tar -xf all.tar -C x; tar -xSf sparse.tar -C y; tar -xzf all.tar.gz -C z;
         diff -r t x/t && diff -r t y/t && diff -r t z/t; echo $?; tar -tvf all.tar | sha256sum; rm sparse.tar
         tar --sort=name --owner=0 --group=0 -rf all.tar seed --mtime=@7; tar --mtime=@9 -uf all.tar seed; tar --delete -f all.tar t/linked; tar -tf all.tar | sort
         tar -xOf all.tar seed | cmp - seed; echo $?; stat -c '%n %a' x/t/u/part.03 x/t/u/part.04",
    );
    comparison.flash_took_part();
}

#[test]
fn rsync_transfers_once() {
    let Some(comparison) = Comparison::new(&[SEED_NEEDS, ("rsync", "rsync")]) else { return };
    comparison.same_and_kept_dirty(SEED);
    comparison.same_and_kept_dirty(
        "mkdir -p from/deep/er; split -b 50021 -d seed from/deep/part.; cp sparse from/deep/er/; cp seed from/whole
         ln -s whole from/link; chmod 600 from/whole; rsync -aO --itemize-changes from/ to/ | sort; diff -r from to; echo $?",
    );
    comparison.same(
        "rsync -aO --itemize-changes from/ to/; echo again $?; rsync -aOc --itemize-changes from/ to/; echo checksums $?",
    );
    // Once more after the drain: it must have moved no time.
    comparison.same("rsync -aO --itemize-changes from/ to/; echo drained $?");
    comparison.same(
        "dd if=sparse of=from/whole bs=1000 seek=13 count=50 conv=notrunc status=none; rm from/deep/part.03; cp seed from/new
         rsync -aO --inplace --no-whole-file --delete --itemize-changes from/ to/ | sort; diff -r from to; echo $?
         rsync -aO --append-verify from/new to/appended; rsync -aOS from/deep/er/ to/sparse/; rsync -aO --link-dest=../to from/ linked/
         rsync -aO --inplace --itemize-changes from/ to/; diff -r from linked; echo $?",
    );
    comparison.flash_took_part();
}
