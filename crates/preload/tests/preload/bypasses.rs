//! Ways to managed files that lead past libc's usual calls: libraries that bring others along.

use headstart_core::protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::shell;

#[test]
fn libraries_that_are_needed_or_searched_for_are_whole_when_they_are_loaded_or_a_program_starts() {
    let agent = Agent::start();
    shell(
        &agent,
        "cd $OUTSIDE
echo 'int dependency(void) { return 42; }' | cc -fPIC -shared -Wl,-soname,libdep.so -o libdep.so -xc -
echo 'int dependency(void); int answer(void) { return dependency(); }' |
    cc -fPIC -shared -o libplug.so -xc - -L. -ldep '-Wl,-rpath,$ORIGIN'
echo 'int answer(void); int main(void) { return answer() != 42; }' > main.c
cc -o there main.c -L. -lplug '-Wl,-rpath,$ORIGIN'; cc -o elsewhere main.c -L. -lplug -Wl,-rpath-link,.
cc -o old main.c -L. -lplug -Wl,--disable-new-dtags -Wl,-rpath,$SLOW",
    );
    // Each time anew: what was made whole for one must not help the next.
    let put = "put() { for f in libdep.so libplug.so there; do
    rm -f $f; dd if=$OUTSIDE/$f of=$f bs=4096 status=none; chmod +x $f; done; }
put";
    for way in [
        "./there",
        "python3 -c \"import ctypes; assert ctypes.CDLL('./libplug.so').answer() == 42\"",
        "LD_LIBRARY_PATH=$SLOW python3 -c \"import ctypes; assert ctypes.CDLL('libdep.so').dependency() == 42\"",
        "LD_LIBRARY_PATH=/nowhere:$SLOW $OUTSIDE/elsewhere",
        "export LD_LIBRARY_PATH=$SLOW; exec $OUTSIDE/elsewhere",
        "$OUTSIDE/old",
        "LD_PRELOAD=$LD_PRELOAD:$SLOW/libplug.so python3 -c 'import ctypes; assert ctypes.CDLL(None).answer() == 42'",
    ] {
        let before = agent.counter(Counter::AbsorbedBytes);
        let output = shell(&agent, &format!("{put}\n{way}"));
        assert!(agent.counter(Counter::AbsorbedBytes) > before, "{way}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}");
    }
}
