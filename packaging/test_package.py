#!/usr/bin/env python3
"""Tries the packages of build/package as a new user would: `make test-package`.

In a Debian root with nothing else, which debootstrap makes once and build/roots keeps: packages in, manual pages, a program of a user
under `headstart run`, volumes by nbdkit and as their unit has them, packages out, nothing left. The root is the lower layer of an
overlay whose upper one lies in memory, so what packages leave is what the upper layer has. Needs root, for namespaces of its own; no
network once the root is there."""

import filecmp
import glob
import hashlib
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = TOP / "build" / "package"
ROOTS = TOP / "build" / "roots"
SUITE = "bookworm"
#: Beside what each Debian has: what the packages depend on or recommend, readers of manuals, clients of block devices.
INCLUDED = ["ca-certificates", "man-db", "systemd", "nbdkit", "libnbd-bin", "fuse3", "kmod"]
#: What dpkg and others write down of what they did, and copies that they keep of what they change.
STATE = ["var/lib/dpkg", "var/log", "var/cache", "etc/group-", "etc/gshadow-", "etc/.pwd.lock", "var/lib/systemd"]
#: The unit of the volume that is called data.
UNIT = "headstart-volume@data.service"
PLACE = "run/headstart/volumes/data"
USER = 1000
#: The program of a user: small writes at random in one file, which it then reads again.
PROGRAM = r"""
use strict; use warnings; use Fcntl qw(SEEK_SET);
my ($path, $count, $bytes) = ($ARGV[0], 256, 4096);
open(my $made, '>', $path) or die; truncate($made, 64 * $count * $bytes) or die; close $made;
open(my $file, '+<', $path) or die "$path: $!";
for my $i (0 .. $count - 1) {
    sysseek($file, ($i * 37 % $count) * 64 * $bytes, SEEK_SET); syswrite($file, chr($i % 251) x $bytes) == $bytes or die "write: $!";
}
for my $i (0 .. $count - 1) {
    sysseek($file, ($i * 37 % $count) * 64 * $bytes, SEEK_SET); sysread($file, my $read, $bytes) == $bytes or die "read: $!";
    $read eq chr($i % 251) x $bytes or die "old bytes at $i";
}
close $file;
"""


class Failed(Exception):
    """A check that does not hold."""


def execute(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def base():
    """A root with nothing else, made if it is not there."""
    name = hashlib.sha256(" ".join(INCLUDED).encode()).hexdigest()[:12]
    root = ROOTS / f"{SUITE}-{name}"
    if not root.exists():
        print(f"test-package: debootstrap makes {root}; that takes some minutes, once", flush=True)
        partial = ROOTS / f"{root.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        ROOTS.mkdir(parents=True, exist_ok=True)
        # What it mounts goes with its namespace, also where it is killed: whoever removes the rest must not meet a living /proc.
        namespace = ["unshare", "--mount", "--propagation", "private"]
        execute([*namespace, "debootstrap", "--variant=minbase", f"--include={','.join(INCLUDED)}", SUITE, partial])
        partial.rename(root)
    return root


class Root:
    """The root within this process's mount namespace, with an empty layer above it."""

    def __init__(self, lower):
        self.lower = lower
        work = pathlib.Path("/mnt")
        execute(["mount", "-t", "tmpfs", "none", work])
        self.upper, self.path = work / "upper", work / "root"
        for directory in (self.upper, work / "work", self.path):
            directory.mkdir()
        layers = f"lowerdir={lower},upperdir={self.upper},workdir={work}/work"
        execute(["mount", "-t", "overlay", "none", "-o", layers, self.path])
        execute(["mount", "-t", "proc", "none", self.path / "proc"])
        for directory in ("dev", "run", "tmp"):
            execute(["mount", "-t", "tmpfs", "none", self.path / directory])
        (self.path / "tmp").chmod(0o1777)
        loops = [os.path.basename(path) for path in glob.glob("/dev/loop*")]
        for device in ("fuse", "full", "null", "random", "urandom", "zero", *loops):
            place = self.path / "dev" / device
            place.touch()
            execute(["mount", "--bind", f"/dev/{device}", place])
        (self.path / "dev/shm").mkdir(mode=0o1777)
        (self.path / "dev/shm").chmod(0o1777)

    def execute(self, *command, user=0):
        environment = {"HOME": "/tmp/user" if user else "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        return execute(["chroot", f"--userspec={user}:{user}", self.path, *command], env=environment)

    def left(self):
        """What lies in the upper layer, but for the state of dpkg, and is not as it is below."""
        for place in sorted(self.upper.rglob("*")):
            name = str(place.relative_to(self.upper))
            below = self.lower / name
            if any(name == known or name.startswith(f"{known}/") for known in STATE):
                continue
            if place.is_dir() and below.is_dir():
                continue
            if place.is_file() and below.is_file() and filecmp.cmp(place, below, shallow=False):
                continue
            yield name


def packages():
    found = sorted(glob.glob(str(PACKAGES / "headstart*_*.deb")))
    if len(found) != 3:
        raise Failed(f"{PACKAGES} has {len(found)} packages instead of three: 'make package' makes them")
    return found


def packages_have_no_errors_of_lintian(_):
    [changes] = glob.glob(str(PACKAGES / "*.changes"))
    # An upload's rules: a changelog that closes a bug, an address that takes mail.
    execute(["lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", "bogus-mail-host", changes])


def packages_go_in(root):
    for package in packages():
        shutil.copy(package, root.path / "tmp")
    names = [f"/tmp/{os.path.basename(package)}" for package in packages()]
    root.execute("dpkg", "--install", *names)
    version = root.execute("headstart", "--version")
    if "commit" not in version:
        raise Failed(version)


def manual_pages_are_found(root):
    for page in ("headstart", "headstart-run", "headstart-volume-serve", "headstart-lab"):
        if "NAME" not in root.execute("man", page):
            raise Failed(f"man {page} shows no page")


def shells_complete(root):
    for shell in ("bash-completion/completions/", "zsh/site-functions/_", "fish/vendor_completions.d/"):
        for program in ("headstart", "headstart-lab"):
            if not glob.glob(f"{root.path}/usr/share/{shell}{program}*"):
                raise Failed(f"no completion of {program} in {shell}")


def a_users_program_runs_with_flash(root):
    home = root.path / "tmp/user"
    for directory in (home, home / "slow", home / "fast", home / ".config/headstart"):
        directory.mkdir(parents=True)
    example = (root.path / "usr/share/doc/headstart/examples/site.toml").read_text()
    site = example.replace("/scratch/hdd", "/tmp/user/slow").replace("/scratch/ssd", "/tmp/user/fast")
    (home / ".config/headstart/site.toml").write_text(site)
    (home / "program.pl").write_text(PROGRAM)
    execute(["chown", "-R", f"{USER}:{USER}", home])
    root.execute("headstart", "site", "check", user=USER)
    root.execute("headstart", "run", "--", "perl", "/tmp/user/program.pl", "/tmp/user/slow/file", user=USER)
    status = root.execute("headstart", "status", user=USER)
    # 256 writes, and as many reads of the same places.
    if "requests   512, 100.0 % on flash" not in status:
        raise Failed(f"flash did not serve the program:\n{status}")
    root.execute("headstart", "stop", user=USER)
    with open(home / "slow/file", "rb") as file:
        for index in range(256):
            file.seek((index * 37 % 256) * 64 * 4096)
            if file.read(4096) != bytes([index % 251]) * 4096:
                raise Failed(f"the disks have old bytes at write {index}")


def a_volume_is_served_by_nbdkit(root):
    disk, flash = root.path / "tmp/disk", root.path / "tmp/flash"
    for path, mib in ((disk, 64), (flash, 32)):
        path.touch()
        os.truncate(path, mib << 20)
    root.execute("headstart", "volume", "create", "--hdd", "/tmp/disk", "--ssd", "/tmp/flash")
    image = os.urandom(1 << 20) * 64
    (root.path / "tmp/image").write_bytes(image)
    copy = "nbdcopy /tmp/image $uri && nbdcopy $uri /tmp/read && cmp /tmp/image /tmp/read"
    root.execute("nbdkit", "--unix", "-", "headstart", "hdd=/tmp/disk", "ssd=/tmp/flash", "--run", copy)
    root.execute("headstart", "volume", "check", "--hdd", "/tmp/disk", "--ssd", "/tmp/flash")
    if disk.read_bytes() != image:
        raise Failed("the disk does not have what was written")


def unit_lines(root, key):
    """What the unit says, for the volume that is called data, as systemd would have it."""
    text = (root.path / "lib/systemd/system/headstart-volume@.service").read_text()
    values = [line.split("=", 1)[1] for line in text.splitlines() if line.startswith(f"{key}=")]
    return [value.replace("%i", "data").replace("$$", "$").removeprefix("-") for value in values]


def units_are_sound_and_come_before_the_mount(root):
    etc = root.path / "etc/headstart/volumes"
    (etc / "data.toml").write_text('hdd = "/tmp/disk2"\nssd = "/tmp/flash2"\nwait_s = 1\n')
    if said := root.execute("systemd-analyze", "verify", UNIT, "headstart-volumes.target").strip():
        raise Failed(said)
    if "headstart:" not in (root.path / "etc/group").read_text():
        raise Failed("no group is made")
    fstab = root.path / "tmp/fstab"
    fstab.write_text(f"/{PLACE}/disk /srv ext4 nofail,x-systemd.requires={UNIT} 0 0\n")
    made = "mkdir /tmp/units && SYSTEMD_FSTAB=/tmp/fstab /lib/systemd/system-generators/systemd-fstab-generator /tmp/units /tmp/units /tmp/units"
    root.execute("sh", "-c", made)
    mount = (root.path / "tmp/units/srv.mount").read_text()
    if f"Requires={UNIT}" not in mount or f"After={UNIT}" not in mount:
        raise Failed(f"the mount does not wait for the volume:\n{mount}")
    if unit_lines(root, "Before") != ["local-fs.target umount.target"]:
        raise Failed("the unit does not come before file systems")


class Started:
    """The volume as its unit starts it: what ExecStart says, until it is ready, then ExecStartPost."""

    def __init__(self, root):
        self.root, place = root, root.path / PLACE
        place.mkdir(parents=True, exist_ok=True)
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify = place / "notify"
        notify.unlink(missing_ok=True)
        manager.bind(str(notify))
        manager.settimeout(5)
        [command] = unit_lines(root, "ExecStart")
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": f"/{PLACE}/notify"}
        words = ["chroot", root.path, *command.split()]
        self.process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + 300
        while True:
            try:
                if b"READY=1" in manager.recv(4096):
                    break
            except socket.timeout:
                if self.process.poll() is not None or time.monotonic() > limit:
                    raise Failed(f"the unit does not become ready: {self.process.stderr.read()}") from None
        for line in unit_lines(root, "ExecStartPost"):
            self.shell(line)

    def shell(self, line):
        self.root.execute(*shlex.split(line))

    def stop(self):
        """As systemd does: ExecStop, then SIGTERM."""
        for line in unit_lines(self.root, "ExecStop"):
            self.shell(line)
        self.process.terminate()
        if self.process.wait(300) != 0:
            raise Failed(f"the stop ended with {self.process.returncode}: {self.process.stderr.read()}")

    def lose_power(self):
        """Nothing is written any more, and /run is empty at the next boot."""
        self.process.kill()
        self.process.wait()
        for line in unit_lines(self.root, "ExecStop"):
            self.shell(line)
        subprocess.run(["umount", "--lazy", self.root.path / PLACE / "file"], check=False)
        shutil.rmtree(self.root.path / "run/headstart")


def a_volume_is_served_by_its_unit_and_never_without_its_flash(root):
    disk, flash, away = (root.path / "tmp" / name for name in ("disk2", "flash2", "away"))
    for path, mib in ((disk, 64), (flash, 32)):
        path.touch()
        os.truncate(path, mib << 20)
    root.execute("headstart", "volume", "create", "--name", "data")
    device, token = f"/{PLACE}/disk", "written before the power failed"
    started = Started(root)
    root.execute("mkfs.ext4", "-q", device)
    root.execute("sh", "-c", f"mount {device} /srv && echo '{token}' >/srv/file && sync && umount /srv")
    started.lose_power()
    # At the next boot flash is not there: nothing is served, and the disk alone shows no file system.
    flash.rename(away)
    listed = root.execute("headstart", "volume", "list")
    if "no flash" not in listed:
        raise Failed(listed)
    before = disk.read_bytes()
    try:
        started = Started(root)
    except Failed as refused:
        if "/tmp/flash2 is not there" not in str(refused):
            raise
    else:
        started.stop()
        raise Failed("a disk is served without its flash")
    if (root.path / PLACE / "file").exists() or disk.read_bytes() != before:
        raise Failed("something is served, or the disk has changed")
    if "ext4" in root.execute("sh", "-c", "blkid -p /tmp/disk2 || true"):
        raise Failed("the bare disk shows its file system, with old bytes")
    # It is back.
    away.rename(flash)
    started = Started(root)
    if "data             served" not in root.execute("headstart", "volume", "list"):
        raise Failed("the list does not have it")
    if token not in root.execute("sh", "-c", f"mount {device} /srv && cat /srv/file && umount /srv"):
        raise Failed("what was synced is lost")
    started.stop()
    root.execute("headstart", "volume", "check", "--name", "data")
    (root.path / "etc/headstart/volumes/data.toml").unlink()


def packages_go_out_and_leave_nothing(root):
    root.execute("dpkg", "--purge", "headstart-server", "headstart-lab", "headstart")
    if left := list(root.left()):
        raise Failed("left behind: " + " ".join(left))


CHECKS = [
    packages_have_no_errors_of_lintian,
    packages_go_in,
    manual_pages_are_found,
    shells_complete,
    a_users_program_runs_with_flash,
    a_volume_is_served_by_nbdkit,
    units_are_sound_and_come_before_the_mount,
    a_volume_is_served_by_its_unit_and_never_without_its_flash,
    packages_go_out_and_leave_nothing,
]


def within_namespaces():
    root, failed = Root(base()), 0
    for check in CHECKS:
        began = time.monotonic()
        try:
            check(root)
            outcome = "ok"
        except Failed as failure:
            failed, outcome = failed + 1, f"FAILED\n{failure}"
        print(f"test {check.__name__} ... {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(CHECKS) - failed} passed; {failed} failed; 0 ignored")
    return failed > 0


def main():
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print(f"SKIPPED: packages, which need root and /dev/fuse\ntest result: ok. {len(CHECKS)} passed; 0 failed; 0 ignored")
        return 0
    if sys.argv[1:] == ["--within"]:
        return within_namespaces()
    try:
        base()
    except Failed as failure:
        print(f"{failure}\ntest result: FAILED. 0 passed; {len(CHECKS)} failed; 0 ignored")
        return 1
    # All that is started and mounted goes with the first process of the namespaces.
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", sys.executable, __file__, "--within"]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
