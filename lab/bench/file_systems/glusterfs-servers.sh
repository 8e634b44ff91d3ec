#!/bin/sh
# Starts the servers of two GlusterFS volumes in the network and process namespace of the caller, each distributed over two
# bricks, and writes what clients mount: WORK/slow-client.vol and WORK/fast-client.vol. The servers go on when this ends.
#
#   glusterfs-servers.sh WORK ADDRESS
set -eu
work=$1
address=$2

# One server process a volume with two bricks; POSIX extended attributes must work where they lie.
port=24100
for volume in slow fast; do
    port=$((port + 1))
    mkdir -p "$work/$volume.1" "$work/$volume.2"
    for brick in 1 2; do
        cat <<END
volume $volume-posix-$brick
    type storage/posix
    option directory $work/$volume.$brick
end-volume
volume $volume-locks-$brick
    type features/locks
    subvolumes $volume-posix-$brick
end-volume
volume $volume-brick-$brick
    type performance/io-threads
    subvolumes $volume-locks-$brick
end-volume
END
    done >"$work/$volume-server.vol"
    cat >>"$work/$volume-server.vol" <<END
volume $volume-server
    type protocol/server
    option transport-type tcp
    option transport.socket.listen-port $port
    option transport.socket.bind-address $address
    option auth.addr.$volume-brick-1.allow *
    option auth.addr.$volume-brick-2.allow *
    subvolumes $volume-brick-1 $volume-brick-2
end-volume
END
    for brick in 1 2; do
        cat <<END
volume $volume-client-$brick
    type protocol/client
    option transport-type tcp
    option remote-host $address
    option transport.socket.remote-port $port
    option remote-port $port
    option remote-subvolume $volume-brick-$brick
end-volume
END
    done >"$work/$volume-client.vol"
    cat >>"$work/$volume-client.vol" <<END
volume $volume-distribute
    type cluster/distribute
    subvolumes $volume-client-1 $volume-client-2
end-volume
END
    glusterfsd -f "$work/$volume-server.vol" -p "$work/$volume-server.pid" -l "$work/$volume-server.log"
done
