#!/bin/sh
# Makes the two storage classes of a MooseFS that moosefs-servers.sh serves, and the directories slow and fast of each.
#
#   moosefs-classes.sh MOUNT
set -eu
cd "$1"

mfsscadmin create H disks
mfsscadmin create S flash
mkdir slow fast
mfssetsclass disks slow
mfssetsclass flash fast
# The servers take a moment until they have told the master of their space.
tries=0
until dd if=/dev/zero of=slow/probe bs=64k count=1 2>/dev/null && dd if=/dev/zero of=fast/probe bs=64k count=1 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "moosefs-classes.sh: the servers have no space yet" >&2; exit 1; }
    sleep 0.2
done
rm slow/probe fast/probe
