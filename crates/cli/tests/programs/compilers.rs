//! A small project that is built in the managed directory by `make -j` and gcc.

use crate::comparison::Comparison;

#[test]
fn a_project_is_built_in_the_managed_directory() {
    let Some(comparison) = Comparison::new(&[("gcc", "build-essential"), ("make", "build-essential")]) else { return };
    // Paths and times must not be in the outcome: names are relative, the archive is deterministic.
    comparison.same_and_kept_dirty(
        "mkdir p; cd p; for k in $(seq 12); do printf '#include \"all.h\"\\nint f%d(int x) { return x * %d + TABLE[x %% 8]; }\\n' $k $k >f$k.c; done
         { echo '#pragma once'; echo 'static const int TABLE[] = {1, 2, 3, 5, 7, 11, 13, 17};'; for k in $(seq 12); do echo \"int f$k(int x);\"; done; } >all.h
         { echo '#include <stdio.h>'; echo '#include \"all.h\"'; echo 'int main(void) { int s = 0;'; for k in $(seq 12); do echo \"s += f$k($k);\"; done; echo 'printf(\"%d\\n\", s); return 0; }'; } >main.c
         printf 'O := $(patsubst %%.c,%%.o,$(wildcard *.c))\\nmain: main.o liball.a\\n\\tgcc -Wl,--build-id=none -o $@ $^\\nliball.a: $(filter-out main.o,$O)\\n\\tar rcsD $@ $^\\n%%.o: %%.c all.h\\n\\tgcc -g0 -O1 -MMD -c -o $@ $<\\n' >Makefile
         make -j4 -s; ./main",
    );
    comparison.same("cd p; make -q && echo up to date; sleep 0.02; touch f3.c; make -j2 | grep -c gcc; ./main; gcc -g0 -O2 -flto -shared -fPIC -Wl,--build-id=none -frandom-seed=1 -o all.so f*.c; gcc -O1 -pipe -save-temps -c f1.c; ls; strip main; ./main");
    comparison.same("cd p; make -q; echo $?; objcopy --only-keep-debug main main.debug; cp main moved; cmp main moved; nm liball.a | wc -l; rm -f *.o; make -s -j3 2>&1; ./main");
}
