//! Which names lead to a managed file, and what the agent hears of names that go or change.

use std::fs;

use headstart_core::protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::python;

#[test]
fn relative_paths_symbolic_links_and_directory_descriptors_lead_to_the_same_file() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
slow, outside = os.environ['SLOW'], os.environ['OUTSIDE']
os.makedirs('a/b'); os.chdir('a')
fds = [os.open('b/../f', os.O_RDWR | os.O_CREAT)]
os.symlink(slow + '/a', outside + '/link')
fds.append(os.open(outside + '/link/f', os.O_RDWR))
fds.append(os.open('f', os.O_RDWR, dir_fd=os.open(slow + '/a', os.O_RDONLY)))
fds.append(os.open('/proc/self/fd/%d' % fds[0], os.O_RDWR))
fds.append(os.open(slow + '//a/./f', os.O_RDWR))
for k, fd in enumerate(fds):
    os.pwrite(fd, b'%d' % k, k)
    for other in fds: assert os.pread(other, 9, 0) == b'01234'[:k + 1]
os.symlink(outside + '/real', 'out')
out = os.open('out', os.O_RDWR | os.O_CREAT); os.pwrite(out, b'outside', 0)",
    );
    assert_eq!(agent.logged("Open"), 1);
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 5);
    assert_eq!(fs::read(agent.root.join("outside/real")).unwrap(), b"outside");
}

#[test]
fn a_sibling_whose_name_begins_like_the_managed_directory_is_not_managed() {
    let agent = Agent::start();
    fs::create_dir(agent.root.join("slowly")).unwrap();
    python(&agent, "import os\nopen(os.environ['SLOW'] + 'ly/f', 'w').write('x')\nos.mkfifo('fifo')\nos.listdir('.')");
    assert_eq!(agent.log(), Vec::<String>::new());
}

#[test]
fn cutting_at_open_goes_through_the_agent_and_leaves_other_files_alone() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 9000, 0)
cut = os.open('f', os.O_RDWR | os.O_TRUNC)
assert os.fstat(fd).st_size == 0 and os.pread(fd, 9, 0) == b''
os.pwrite(fd, b'y', 4096); assert os.pread(cut, 9000, 0) == bytes(4096) + b'y'
os.truncate('f', 2); assert os.pread(cut, 9, 0) == bytes(2)
other = os.environ['OUTSIDE'] + '/x'
for k in range(2):
    with open(other, 'w') as f: f.write('abc')
    assert open(other).read() == 'abc'
open('/dev/null', 'w').write('x')
try: os.open('f', os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_TRUNC)
except FileExistsError: pass
assert os.pread(cut, 9, 0) == bytes(2)",
    );
    assert_eq!(agent.logged("TruncateDone"), 2);
    assert!(agent.log().iter().all(|line| !line.contains("changed: false")));
}

#[test]
fn truncate_by_name_works_on_a_file_nobody_has_open() {
    let agent = Agent::start();
    python(&agent, "import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 9000, 0)");
    python(
        &agent,
        "import os\nos.truncate('f', 10)\nos.truncate('f', 20)\nassert open('f','rb').read() == b'x' * 10 + bytes(10)",
    );
    assert_eq!(agent.logged("TruncateDone"), 2);
}

#[test]
fn the_agent_hears_of_last_names_removed_and_of_new_names() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
for name in 'abc': open(name, 'w').write(name)
os.link('a', 'a2'); os.unlink('a')          # not the last name
os.unlink('a2')
os.rename('b', 'b2')
os.rename('b2', 'c')                        # over another file
os.mkdir('d'); os.rename('d', 'e')
os.rename(os.environ['OUTSIDE'] + '/../slow/e', 'd')
open(os.environ['OUTSIDE'] + '/x', 'w').close(); os.rename(os.environ['OUTSIDE'] + '/x', os.environ['OUTSIDE'] + '/y')
os.unlink(os.environ['OUTSIDE'] + '/y')
try: os.rename('c', os.environ['OUTSIDE'] + '/c')
except OSError as e: assert e.errno == 18, e  # EXDEV
else: raise AssertionError
assert open('c').read() == 'b'",
    );
    assert_eq!(agent.logged("Unlinked"), 2);
    assert_eq!(agent.logged("Renamed"), 4);
    let slow = agent.slow.display().to_string();
    let renamed =
        format!("Renamed {{ old_length: {}, paths: {:?} }}", slow.len() + 2, format!("{slow}/b{slow}/b2").as_bytes());
    assert!(agent.log().contains(&renamed), "{renamed}");
}

#[test]
fn files_without_a_name_work() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, tempfile, subprocess
with tempfile.TemporaryFile(dir='.') as f:
    f.write(b'hello'); f.flush(); f.seek(0); assert f.read() == b'hello'
    f.seek(0); assert subprocess.run(['cat'], stdin=f, stdout=subprocess.PIPE).stdout == b'hello'
with tempfile.NamedTemporaryFile(dir='.') as f:
    f.write(b'hello'); f.flush(); os.unlink(f.name); f.seek(0); assert f.read() == b'hello'
    f.seek(0); assert subprocess.run(['cat'], stdin=f, stdout=subprocess.PIPE).stdout == b'hello'
    open(f.name, 'w').close()",
    );
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 1);
}
