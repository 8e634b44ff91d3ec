#!/bin/sh
# Starts the servers of a MooseFS in the network and process namespace of the caller: one master, two disk and two flash chunk
# servers. They go on when this ends, and find what they stored if they are started again after all of them were killed.
#
#   moosefs-servers.sh WORK ADDRESS
#
# WORK holds what they store. ADDRESS is not of the loopback interface, which MooseFS refuses.
set -eu
work=$1
address=$2

mkdir -p "$work/master"
[ -e "$work/master/mfsmaster.cfg" ] ||
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
# With -a it restores what it knew from its log of changes.
mfsmaster -a -c "$work/master/mfsmaster.cfg" start
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
    mfschunkserver -c "$work/chunk$number/mfschunkserver.cfg" start
done
