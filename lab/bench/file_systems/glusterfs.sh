#!/bin/sh
# Runs a command with two GlusterFS volumes of its own, each distributed over two servers started from volume files, without the
# management daemon, in their own network and mount namespaces, gone with the command. SLOW and FAST name the two mounts.
#
#   glusterfs.sh WORK COMMAND [ARGUMENT...]
#
# WORK is an empty directory that may hold what the servers store. Exit status: the command's; 77 if something is missing.
set -eu
here=$(dirname "$(realpath "$0")")
work=$1
shift

for tool in glusterfsd glusterfs ip unshare; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "glusterfs.sh: $tool is missing; install glusterfs-server and iproute2" >&2
        exit 77
    }
done
if [ "${HEADSTART_IN_NAMESPACE:-}" != yes ]; then
    unshare --net --mount true 2>/dev/null || {
        echo "glusterfs.sh: network and mount namespaces are not permitted here; run as root" >&2
        exit 77
    }
    HEADSTART_IN_NAMESPACE=yes exec unshare --net --mount --kill-child --fork "$0" "$work" "$@"
fi
ip link set lo up

stop() {
    cd /
    for volume in slow fast; do
        umount -l "$work/$volume" 2>/dev/null || true
    done
    for file in "$work"/*.pid; do
        kill "$(cat "$file")" 2>/dev/null || true
    done
}
trap stop EXIT
trap 'exit 143' TERM INT

"$here/glusterfs-servers.sh" "$work" 127.0.0.1
for volume in slow fast; do
    mkdir -p "$work/$volume"
    glusterfs -f "$work/$volume-client.vol" -p "$work/$volume-client.pid" -l "$work/$volume-client.log" "$work/$volume"
done
for volume in slow fast; do
    tries=0
    until : >"$work/$volume/probe"; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { cat "$work/$volume-client.log" >&2; exit 1; }
        sleep 0.1
    done 2>/dev/null
    rm "$work/$volume/probe"
done

status=0
SLOW=$work/slow FAST=$work/fast "$@" || status=$?
exit $status
