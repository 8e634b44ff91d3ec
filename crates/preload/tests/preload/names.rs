//! Which names lead to a managed file, and what the agent hears of names that go or change.

use std::fs;
use std::path::PathBuf;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{EXHAUSTED, command, compiled, compiled_library, library, python, succeed};

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
fn what_posix_spawn_cuts_in_the_child_is_cut_on_flash_as_well() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "spawned")));
    let told = agent.log();
    let changed = |changed: bool| told.iter().filter(|line| line.ends_with(&format!("changed: {changed} }}"))).count();
    assert_eq!((changed(true), changed(false)), (4, 1), "one of them was not reached");
}

#[test]
fn what_a_spawned_child_writes_before_its_parent_can_say_that_it_cut_the_file_is_kept() {
    let agent = Agent::start();
    let slow = compiled_library(&agent, "slow_spawn");
    let both = [library(), slow].map(PathBuf::into_os_string).join(":".as_ref());
    succeed(command(&agent, compiled(&agent, "spawned")).env("LD_PRELOAD", both));
    assert_eq!(agent.logged("TruncateDone"), 5);
}

#[test]
fn what_a_spawned_child_cut_and_renamed_at_once_is_cut_on_flash_as_well() {
    let agent = Agent::start();
    let late = compiled_library(&agent, "late_spawn");
    let both = [library(), late].map(PathBuf::into_os_string).join(":".as_ref());
    succeed(command(&agent, compiled(&agent, "spawned")).arg("renamed").env("LD_PRELOAD", both));
    assert_eq!(agent.logged("TruncateDone"), 1);
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
fn a_process_without_a_free_descriptor_tells_of_what_it_cuts_renames_and_removes() {
    let agent = Agent::start();
    let script = "
os.mkdir('d'); os.symlink('d', 'l'); d = os.open('d', os.O_RDONLY)
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 9000, 0)
for name in 'abc': os.close(os.open('d/' + name, os.O_RDWR | os.O_CREAT))
exhaust()
os.truncate('l/../f', 10); os.truncate('f', 20)
os.rename('l/a', 'b', src_dir_fd=None, dst_dir_fd=d)
os.unlink('l/b')
try: os.rename('d/c', os.environ['OUTSIDE'] + '/c')
except OSError as e: assert e.errno == errno.EXDEV, e
else: raise AssertionError
try: os.link('d/c', os.environ['OUTSIDE'] + '/c')
except OSError as e: assert e.errno == errno.EXDEV, e
else: raise AssertionError
give_back()
assert os.pread(fd, 99, 0) == b'x' * 10 + bytes(10)";
    python(&agent, &format!("{EXHAUSTED}{script}"));
    assert_eq!(agent.logged("TruncateDone"), 2);
    assert_eq!(agent.logged("Unlinked"), 2);
    let slow = agent.slow.display().to_string();
    let paths = format!("{slow}/d/a{slow}/d/b");
    let renamed =
        format!("Renamed {{ old_length: {}, exchanged: false, paths: {:?} }}", slow.len() + 4, paths.as_bytes());
    assert!(agent.log().contains(&renamed), "{renamed}");
}

#[test]
fn a_process_without_a_descriptor_to_tell_the_agent_cuts_renames_and_removes_nothing() {
    let agent = Agent::start();
    python(&agent, "import os\nfor name in 'fg': os.pwrite(os.open(name, os.O_RDWR | os.O_CREAT), b'x' * 9000, 0)");
    let told = agent.log().len();
    let script = "
outside = os.environ['OUTSIDE']
for name in 'xy': open(outside + '/' + name, 'w').close()
exhaust()
for call in (lambda: os.truncate('f', 10), lambda: os.rename('f', 'h'), lambda: os.unlink('f')):
    try: call()
    except OSError as e: assert e.errno == errno.EMFILE, e
    else: raise AssertionError
os.truncate(outside + '/x', 10); os.rename(outside + '/x', outside + '/z'); os.unlink(outside + '/y')
assert os.stat('f').st_size == os.stat('g').st_size == 9000 and os.stat(outside + '/z').st_size == 10";
    python(&agent, &format!("{EXHAUSTED}{script}"));
    assert_eq!(agent.log().len(), told);
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
open(os.environ['OUTSIDE'] + '/x', 'w').close(); os.mkdir(os.environ['OUTSIDE'] + '/dir')
outside = os.environ['OUTSIDE']
for old, new in ('c', outside + '/c'), (outside + '/x', 'x'), (outside + '/dir', 'dir'):
    try: os.rename(old, new)
    except OSError as e: assert e.errno == 18, e  # EXDEV
    else: raise AssertionError
assert open('c').read() == 'b'",
    );
    assert_eq!(agent.logged("Unlinked"), 2);
    assert_eq!(agent.logged("Renamed"), 4);
    // Of `a2` that it is there, of `a` that it goes.
    assert_eq!(agent.logged("Name {"), 2);
    let slow = agent.slow.display().to_string();
    let renamed = format!(
        "Renamed {{ old_length: {}, exchanged: false, paths: {:?} }}",
        slow.len() + 2,
        format!("{slow}/b{slow}/b2").as_bytes()
    );
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
