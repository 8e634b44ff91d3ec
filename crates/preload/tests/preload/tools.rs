//! Everyday programs on files whose bytes lie on flash.

use std::fs;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{compiled_with_mpi, open_mpi, python, shell};

#[test]
fn dd_cp_cat_cmp_and_mv_move_the_right_bytes() {
    let agent = Agent::start();
    fs::write(agent.root.join("outside/in"), (0..3_000_000u64).map(|k| ((k * k) >> 7) as u8).collect::<Vec<_>>())
        .unwrap();
    shell(
        &agent,
        "dd if=$OUTSIDE/in of=a bs=7000 status=none
cmp a $OUTSIDE/in
cp a b; cmp b $OUTSIDE/in
cp a $OUTSIDE/b; cmp $OUTSIDE/b $OUTSIDE/in
cat a > c; cmp c $OUTSIDE/in
cat a | cmp - $OUTSIDE/in
dd if=a of=a bs=1000 skip=10 seek=2500 count=500 conv=notrunc status=none
dd if=$OUTSIDE/in of=$OUTSIDE/in bs=1000 skip=10 seek=2500 count=500 conv=notrunc status=none
cmp a $OUTSIDE/in
mv a d; cmp d $OUTSIDE/in
mv d $OUTSIDE/d; cmp $OUTSIDE/d $OUTSIDE/in; test ! -e d
echo one > log; echo two >> log; { echo three; echo four; } >> log
test \"$(cat log)\" = $'one\\ntwo\\nthree\\nfour'
head -c 5 log | grep -q one
: > log; test ! -s log
rm b c log; test -z \"$(ls)\"",
    );
    assert!(agent.counter(Counter::AbsorbedBytes) > 9_000_000);
}

#[test]
fn shells_redirect_many_descriptors_at_once() {
    let agent = Agent::start();
    shell(
        &agent,
        "exec 5<>f 6>>f 7<f
echo first >&5; echo second >&6
read -r line <&7; test \"$line\" = first
read -r line <&7; test \"$line\" = second
exec 5>&- 6>&-
(echo in a subshell >> f; exec 7<f; read -r line <&7; test \"$line\" = first)
read -r line <&7; test \"$line\" = 'in a subshell'
exec 7<&-
for k in 1 2 3 4 5; do echo $k | tee -a g >/dev/null & done; wait
test $(sort -n g | tr -d '\\n') = 12345
python3 -c 'import sys; sys.stdout.write(open(\"g\").read())' > h; cmp g h",
    );
}

#[test]
fn python_reads_writes_maps_copies_and_spawns() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, mmap, shutil, subprocess, multiprocessing, threading
data = os.urandom(300000)
with open('f', 'wb') as f: f.write(data)
with open('f', 'r+b') as f:
    f.seek(1000); f.write(b'middle'); f.flush()
    f.seek(-5, 2); assert f.read() == data[-5:]
data = data[:1000] + b'middle' + data[1006:]
assert open('f', 'rb').read() == data
shutil.copyfile('f', 'g'); shutil.copyfile('f', os.environ['OUTSIDE'] + '/g')
assert open('g', 'rb').read() == data == open(os.environ['OUTSIDE'] + '/g', 'rb').read()
with open('f', 'rb') as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); assert m[:] == data
assert subprocess.run(['cat', 'f'], stdout=subprocess.PIPE, close_fds=True).stdout == data
with open('f', 'rb') as f:
    assert subprocess.run(['cat'], stdin=f, stdout=subprocess.PIPE).stdout == data
with open('h', 'wb') as h: subprocess.run(['cat', 'f'], stdout=h, check=True)
assert open('h', 'rb').read() == data
def work(k):
    fd = os.open('p', os.O_RDWR | os.O_CREAT); os.pwrite(fd, bytes([k]) * 1000, k * 1000); os.close(fd)
multiprocessing.get_context('fork').Pool(4).map(work, range(8))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8, 16)]
[t.start() for t in threads]; [t.join() for t in threads]
assert open('p', 'rb').read() == b''.join(bytes([k]) * 1000 for k in range(16))
hole = os.open('p', os.O_RDONLY)
assert os.lseek(hole, 0, os.SEEK_DATA) == 0 and os.lseek(hole, 0, os.SEEK_HOLE) == 16000
os.posix_fallocate(os.open('p', os.O_RDWR), 0, 20000); assert os.path.getsize('p') == 20000
assert os.pread(hole, 9, 15999) == b'\\x0f' + bytes(8)",
    );
    assert!(agent.counter(Counter::AbsorbedBytes) > 900_000);
}

#[test]
fn pieces_are_spliced_cloned_and_looked_for_as_they_are() {
    let agent = Agent::start();
    python(
        &agent,
        "import ctypes, errno, fcntl, os, struct
fd = os.open('file', os.O_RDWR | os.O_CREAT, 0o644)
assert os.pwrite(fd, b'm' * 5000, 0) == 5000
read, write = os.pipe()
moved = os.splice(fd, write, 5000, offset_src=0)
assert moved > 0 and os.read(read, 5000) == b'm' * moved
os.write(write, b'x' * 100)
assert os.splice(read, fd, 100, offset_dst=50) == 100
assert os.pread(fd, 200, 0) == b'm' * 50 + b'x' * 100 + b'm' * 50
# A clone is made of what there is, or refused: tmpfs and ext4 have none.
outside = os.open(os.environ['OUTSIDE'] + '/clone', os.O_RDWR | os.O_CREAT, 0o644)
assert os.pwrite(fd, b'c' * 4096, 4096) == 4096
for request, argument in [(0x40049409, fd), (0x4020940d, struct.pack('qQQQ', fd, 0, 0, 0))]:
    try:
        fcntl.ioctl(outside, request, argument)
        assert os.pread(outside, 8192, 0) == os.pread(fd, 8192, 0)
    except OSError as e: assert e.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL), e
# Where bytes lie on the disk (FIEMAP) is asked of a file that has them.
try: fcntl.ioctl(fd, 0xc020660b, bytearray(struct.pack('QQIIII', 0, 1 << 40, 1, 0, 0, 0)))
except OSError as e: assert e.errno in (errno.EOPNOTSUPP, errno.ENOTTY), e
libc = ctypes.CDLL(None, use_errno=True)
with open('other', 'w') as other: other.write('o')
assert libc.renameat2(-100, b'file', -100, b'other', 1) == -1 and ctypes.get_errno() == errno.EEXIST
assert libc.renameat2(-100, b'file', -100, b'renamed', 1) == 0
with open('renamed', 'rb') as renamed: assert renamed.read(50) == b'm' * 50
",
    );
    assert!(agent.counter(Counter::AbsorbedRequests) > 0);
    agent.drain();
    let expected = [&[b'm'; 50][..], &[b'x'; 100], &[b'm'; 3946], &[b'c'; 4096]].concat();
    assert!(fs::read(agent.slow.join("renamed")).unwrap() == expected);
}

#[test]
fn sixteen_open_mpi_ranks_check_what_they_wrote() {
    let agent = Agent::start();
    let Some(program) = compiled_with_mpi(&agent, "mpi_blocks") else { return };
    for io in ["ompio", "romio321"] {
        open_mpi(&agent, &program, 16, io);
    }
    assert!(agent.counter(Counter::AbsorbedRequests) > 1000);
}
