#!/bin/sh
# Installs what is missing on Debian 12, by package name. Does nothing, quickly, where all is there.
set -eu

packages="build-essential fuse3 git libopenmpi-dev openmpi-bin python3 sqlite3 glusterfs-server iproute2 moosefs-chunkserver moosefs-client moosefs-master"
# Volumes: NBD, and the file systems and clients that its tests use; one that is missing is skipped.
packages="$packages e2fsprogs libnbd-bin nbdkit nbdkit-plugin-dev qemu-utils util-linux xfsprogs"
# What the tests run under Headstart (docs/reference/programs.md); one that is missing is skipped.
packages="$packages bzip2 chromium fio gfortran hdf5-tools libhdf5-mpich-dev libhdf5-openmpi-dev libmpich-dev mpich openssl perl
    python3-h5py python3-mpi4py python3-numpy python3-venv rsync xz-utils"

# What the guard of volumes is held against.
packages="$packages btrfs-progs e2fsprogs fdisk gdisk lvm2 xfsprogs"

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        echo "setup: cargo is in $HOME/.cargo/bin, which is not in PATH; run: . $HOME/.cargo/env" >&2
    else
        echo "setup: cargo is missing; install Rust 1.88 or later as https://rustup.rs says, then run make again" >&2
    fi
    exit 1
fi

missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: missing:$missing; install them with: sudo apt-get install$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# h5py as PyPI has it: built against an old glibc, whose names for stat it uses. Without a network its test is skipped.
if [ ! -x build/python/bin/python3 ] || ! build/python/bin/python3 -c 'import h5py' 2>/dev/null; then
    echo "setup: making build/python with h5py" >&2
    if ! { /usr/bin/python3 -m venv build/python && build/python/bin/pip install -q --disable-pip-version-check h5py; }; then
        echo "setup: no h5py from PyPI; its test is skipped" >&2
    fi
fi

# Darshan's Python package, for its logs and to read them.
if [ -x build/python/bin/python3 ] && ! build/python/bin/python3 -c 'import darshan' 2>/dev/null; then
    echo "setup: adding darshan to build/python" >&2
    if ! build/python/bin/pip install -q --disable-pip-version-check darshan; then
        echo "setup: no darshan from PyPI; its tests are skipped" >&2
    fi
fi

if [ ! -e /dev/fuse ]; then
    echo "setup: /dev/fuse is missing: the testbed cannot mount, and tests that need it are skipped" >&2
fi
