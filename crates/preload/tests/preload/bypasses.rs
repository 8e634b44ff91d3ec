//! Ways to managed files that lead past libc's usual calls: libraries that bring others along, functions that
//! are looked up, mappings that children inherit, rings, and the kernel itself.

use std::fs;
use std::path::Path;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, compiled_library, library, python, shell, succeed};

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
        "PATH=$OUTSIDE:$PATH python3 -c \"import os; \
         environment = dict(os.environ, LD_LIBRARY_PATH=os.environ['SLOW']); \
         child = os.posix_spawnp('elsewhere', ['elsewhere'], environment); assert os.waitpid(child, 0)[1] == 0\"",
        "$OUTSIDE/old",
        "LD_PRELOAD=$LD_PRELOAD:$SLOW/libplug.so python3 -c 'import ctypes; assert ctypes.CDLL(None).answer() == 42'",
    ] {
        let before = agent.counter(Counter::AbsorbedBytes);
        let output = shell(&agent, &format!("{put}\n{way}"));
        assert!(agent.counter(Counter::AbsorbedBytes) > before, "{way}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}");
    }
}

#[test]
fn functions_looked_up_in_libc_or_bound_past_the_library_are_the_hooks() {
    let agent = Agent::start();
    let (program, plugin) = (compiled(&agent, "looked_up"), compiled_library(&agent, "plugin"));
    succeed(command(&agent, program).arg(plugin));
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 2);
    agent.drain();
    assert_eq!(fs::read(agent.slow.join("by-plugin")).unwrap(), b"plugin");
    assert_eq!(fs::read(agent.slow.join("by-hand")).unwrap(), b"by hand");
}

#[test]
fn a_preloaded_library_that_looks_libc_s_functions_up_gets_libc_s_in_either_order() {
    for ours_first in [true, false] {
        let agent = Agent::start();
        let wrapper = compiled_library(&agent, "wrapper");
        let (first, last) = if ours_first { (library(), wrapper) } else { (wrapper, library()) };
        let script =
            "import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT); assert os.pwrite(fd, b'x' * 5000, 0) == 5000
assert os.pread(fd, 9999, 0) == b'x' * 5000";
        let mut run = command(&agent, "/usr/bin/python3");
        succeed(run.env("LD_PRELOAD", format!("{}:{}", first.display(), last.display())).arg("-c").arg(script));
        agent.drain();
        assert_eq!(fs::read(agent.slow.join("f")).unwrap(), [b'x'; 5000]);
    }
}

#[test]
fn a_mapping_that_a_child_inherited_counts_when_its_parent_has_ended() {
    let agent = Agent::start();
    // The parent's end is the command's; the child holds none of its pipes.
    python(
        &agent,
        "import mmap, os, time
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'A' * 65536, 0)
mapping, parent = mmap.mmap(fd, 65536), os.getpid()
if os.fork(): os._exit(0)
for k in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), k)
while os.getppid() == parent: time.sleep(0.001)
def say(what): open(os.environ['OUTSIDE'] + '/' + what, 'w').close()
say('alone')
for _ in range(30000):
    if mapping[:4096] == b'B' * 4096: break
    time.sleep(0.001)
else: os._exit(1)
mapping[:2048] = b'C' * 2048
say('stored')",
    );
    python(
        &agent,
        "import os, time
def wait(what):
    while not os.path.exists(os.environ['OUTSIDE'] + '/' + what): time.sleep(0.001)
wait('alone')
fd = os.open('f', os.O_RDWR); os.pwrite(fd, b'B' * 4096, 0)
wait('stored')
assert os.pread(fd, 4097, 0) == b'C' * 2048 + b'B' * 2048 + b'A'",
    );
}

#[test]
fn a_ring_counts_from_when_requests_can_come_through_it() {
    let ways = [
        // As fio: mapped by libc, entered by an instruction.
        "libc = ctypes.CDLL(None); parameters = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 8, parameters)
if ring < 0: sys.exit()
probe = ctypes.create_string_buffer(16 + 8 * 64)
libc.syscall(427, ring, 8, probe, 64)
use = lambda: mmap.mmap(ring, 8 * 64, offset=0x10000000)",
        "uring = ctypes.CDLL('liburing.so.2'); ring = ctypes.create_string_buffer(4096)
if uring.io_uring_queue_init(8, ring, 0) < 0: sys.exit()
use = lambda: uring.io_uring_submit(ring)",
    ];
    for way in ways {
        if way.contains("liburing") && !Path::new("/usr/lib/x86_64-linux-gnu/liburing.so.2").exists() {
            println!("SKIPPED: no liburing");
            continue;
        }
        let agent = Agent::start();
        let output = python(
            &agent,
            &format!(
                "import ctypes, mmap, os, sys
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'a' * 5000, 0)
{way}
os.pwrite(fd, b'b' * 5000, 5000); other = os.open('g', os.O_RDWR | os.O_CREAT); os.pwrite(other, b'c', 0)
use()
with open('/proc/self/fd/%d' % fd, 'rb', buffering=0) as f: pass
os.pwrite(fd, b'd' * 5000, 10000); os.pwrite(os.open('h', os.O_RDWR | os.O_CREAT), b'e', 0)
print('used')"
            ),
        );
        if output.stdout.is_empty() {
            println!("SKIPPED: no rings here");
            continue;
        }
        assert_eq!(agent.counter(Counter::AbsorbedRequests), 3, "{way}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("io_uring"));
        let expected = [[b'a'; 5000], [b'b'; 5000], [b'd'; 5000]].concat();
        assert!(fs::read(agent.slow.join("f")).unwrap() == expected, "{way}");
    }
}

#[test]
fn what_the_kernel_is_to_use_by_itself_is_whole_before() {
    let agent = Agent::start();
    python(
        &agent,
        "import ctypes, fcntl, os, struct
libc = ctypes.CDLL(None)
names = ['swap', 'image', 'configured', 'module', 'loop', 'loop2', 'donor']
opened = {}
for name in names:
    opened[name] = os.open(name, os.O_RDWR | os.O_CREAT); os.pwrite(opened[name], b'k' * 5000, 0)
# None of them comes to anything: they are no such things, or nobody may.
assert libc.swapon(b'swap', 0) == -1
assert libc.mount(b'image', b'nowhere', b'erofs', 1, None) == -1
assert libc.fsconfig(-1, 1, b'source', b'configured', 0) == -1
assert libc.syscall(313, opened['module'], b'', 0) == -1
outside = os.open(os.environ['OUTSIDE'] + '/x', os.O_RDWR | os.O_CREAT)
move = struct.pack('IIQQQQ', 0, opened['donor'], 0, 0, 0, 0)
loop = struct.pack('I', opened['loop']) + bytes(300)
for request, argument in (0x4c0a, loop), (0x4c00, opened['loop2']), (0xc028660f, move):
    try: fcntl.ioctl(outside, request, argument)
    except OSError: pass
    else: raise AssertionError(request)
os.close(outside)",
    );
    for name in ["swap", "image", "configured", "module", "loop", "loop2", "donor"] {
        assert_eq!(fs::read(agent.slow.join(name)).unwrap(), [b'k'; 5000], "{name}");
    }
    assert_eq!((agent.counter(Counter::AbsorbedRequests), agent.logged("Bypass")), (7, 3));
}
