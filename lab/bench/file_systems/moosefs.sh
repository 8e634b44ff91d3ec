#!/bin/sh
# Runs a command with a MooseFS of its own: one master, two disk and two flash chunk servers, two storage classes, in its own
# network and mount namespaces, gone with the command. SLOW and FAST name the two directories; both lie on one mount.
#
#   moosefs.sh WORK COMMAND [ARGUMENT...]
#
# WORK is an empty directory that may hold what the servers store. Exit status: the command's; 77 if something is missing.
set -eu
here=$(dirname "$(realpath "$0")")
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
mkdir -p "$work/mount"

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

"$here/moosefs-servers.sh" "$work" $address >"$work/log" 2>&1
tries=0
until mfsmount "$work/mount" -H $address -o nosuid >>"$work/log" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || { cat "$work/log" >&2; exit 1; }
    sleep 0.2
done
"$here/moosefs-classes.sh" "$work/mount" >>"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

status=0
SLOW=$work/mount/slow FAST=$work/mount/fast "$@" || status=$?
exit $status
