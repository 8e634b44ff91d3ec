#!/bin/sh
# Runs a command with a MooseFS of its own: one master, two disk and two flash chunk servers, two storage classes, in its own
# network and mount namespaces, gone with the command. SLOW and FAST name the two directories; both lie on one mount.
#
#   moosefs.sh WORK COMMAND [ARGUMENT...]
#
# WORK is an empty directory that may hold what the servers store. Exit status: the command's; 77 if something is missing.
set -eu
work=$1
shift

for tool in mfsmaster mfschunkserver mfsmount mfsscadmin ip unshare; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "moosefs.sh: $tool is missing; install moosefs-master, moosefs-chunkserver, moosefs-client and iproute2" >&2
        exit 77
    }
done
if [ "${HEADSTART_IN_NAMESPACE:-}" != yes ]; then
    unshare --net --mount true 2>/dev/null || {
        echo "moosefs.sh: network and mount namespaces are not permitted here; run as root" >&2
        exit 77
    }
    HEADSTART_IN_NAMESPACE=yes exec unshare --net --mount --kill-child --fork "$0" "$work" "$@"
fi

# It refuses the loopback address.
address=10.9.0.1
ip link set lo up
ip address add $address/24 dev lo

mkdir -p "$work/master" "$work/mount"
cp /var/lib/mfs/metadata.mfs.empty "$work/master/metadata.mfs" 2>/dev/null || printf 'MFSM NEW' >"$work/master/metadata.mfs"
echo '* / rw,alldirs,admin,maproot=0:0' >"$work/master/exports.cfg"
: >"$work/master/topology.cfg"
cat >"$work/master/mfsmaster.cfg" <<END
WORKING_USER = $(id -un)
WORKING_GROUP = $(id -gn)
DATA_PATH = $work/master
EXPORTS_FILENAME = $work/master/exports.cfg
TOPOLOGY_FILENAME = $work/master/topology.cfg
MATOML_LISTEN_HOST = $address
MATOCS_LISTEN_HOST = $address
MATOCL_LISTEN_HOST = $address
END

stop() {
    cd /
    umount -l "$work/mount" 2>/dev/null || true
    for number in 1 2 3 4; do
        mfschunkserver -c "$work/chunk$number/mfschunkserver.cfg" stop >/dev/null 2>&1 || true
    done
    mfsmaster -c "$work/master/mfsmaster.cfg" stop >/dev/null 2>&1 || true
}
trap stop EXIT
trap 'exit 143' TERM INT

mfsmaster -c "$work/master/mfsmaster.cfg" start >"$work/log" 2>&1
for number in 1 2 3 4; do
    label=$([ $number -le 2 ] && echo H || echo S)
    mkdir -p "$work/chunk$number/store"
    echo "$work/chunk$number/store" >"$work/chunk$number/hdd.cfg"
    cat >"$work/chunk$number/mfschunkserver.cfg" <<END
WORKING_USER = $(id -un)
WORKING_GROUP = $(id -gn)
DATA_PATH = $work/chunk$number
HDD_CONF_FILENAME = $work/chunk$number/hdd.cfg
HDD_LEAVE_SPACE_DEFAULT = 64MiB
MASTER_HOST = $address
BIND_HOST = $address
CSSERV_LISTEN_HOST = $address
CSSERV_LISTEN_PORT = $((9500 + number))
LABELS = $label
END
    mfschunkserver -c "$work/chunk$number/mfschunkserver.cfg" start >>"$work/log" 2>&1
done

tries=0
until mfsmount "$work/mount" -H $address -o nosuid >>"$work/log" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || { cat "$work/log" >&2; exit 1; }
    sleep 0.2
done
cd "$work/mount"
mfsscadmin create H disks >>"$work/log" 2>&1
mfsscadmin create S flash >>"$work/log" 2>&1
mkdir slow fast
mfssetsclass disks slow >>"$work/log" 2>&1
mfssetsclass flash fast >>"$work/log" 2>&1
# The servers take a moment until they have told the master of their space.
tries=0
until dd if=/dev/zero of=slow/probe bs=64k count=1 2>/dev/null && dd if=/dev/zero of=fast/probe bs=64k count=1 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$work/log" >&2; exit 1; }
    sleep 0.2
done
rm slow/probe fast/probe
cd /

status=0
SLOW=$work/mount/slow FAST=$work/mount/fast "$@" || status=$?
exit $status
