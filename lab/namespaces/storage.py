"""What the nodes share: a directory of this machine, or MooseFS or GlusterFS with a mount in each node.

A directory is the same file system with the same page cache and the same locks in all nodes, as they have one kernel;
so are the two mounts of a testbed below it. The other two have servers beyond a network, and each node a client and a
page cache of its own."""

import pathlib

import failures
import network

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "bench" / "file_systems"


class Directory:
    """It is there already."""

    #: What has to be installed.
    needs = {}

    def __init__(self, cluster):
        self.cluster = cluster

    def prepare(self):
        """The two directories, unless they are mounts already."""
        for name in ("slow", "fast"):
            (self.cluster.shared() / name).mkdir(exist_ok=True)

    def attach(self, member):
        """Nodes see it without a mount."""


class MooseFs:
    """Servers in the member `storage`. Where they keep things outlives that member's death."""

    needs = {
        "mfsmaster": "moosefs-master", "mfschunkserver": "moosefs-chunkserver", "mfsmount": "moosefs-client",
    }

    def __init__(self, cluster):
        self.cluster = cluster

    def prepare(self):
        """Nothing: nobody could use it yet."""

    def attach(self, member):
        """Starts the servers, or mounts what they serve."""
        address, shared = network.address(100), self.cluster.shared()
        if member.name == "storage":
            member.do(SCRIPTS / "moosefs-servers.sh", member.directory / "servers", address)
            return
        mode = "YES" if self.cluster.settings["page_cache"] else "DIRECT"
        member.do("mfsmount", shared, "-H", address, "-o", f"nosuid,mfscachemode={mode}")
        if member.number == 1 and not self.cluster.settings.get("classes"):
            member.do(SCRIPTS / "moosefs-classes.sh", shared)
            self.cluster.settings["classes"] = True
            self.cluster.save()


class GlusterFs:
    """Two volumes, for disks and for flash, with servers in the member `storage`; no client keeps anything."""

    needs = {"glusterfsd": "glusterfs-server", "glusterfs": "glusterfs-client"}

    def __init__(self, cluster):
        self.cluster = cluster

    def prepare(self):
        """Nothing: nobody could use it yet."""

    def attach(self, member):
        """Starts the servers, or mounts both volumes."""
        servers = self.cluster.directory / "storage" / "servers"
        if member.name == "storage":
            member.do(SCRIPTS / "glusterfs-servers.sh", servers, network.address(100))
            return
        direct = "disable" if self.cluster.settings["page_cache"] else "enable"
        for volume in ("slow", "fast"):
            place = self.cluster.shared() / volume
            place.mkdir(exist_ok=True)
            options = [f"--direct-io-mode={direct}", "-l", member.directory / f"{volume}.log"]
            if direct == "enable":
                # Nor names and sizes.
                options += ["--attribute-timeout=0", "--entry-timeout=0", "--negative-timeout=0"]
                options += ["--fopen-keep-cache=off"]
            member.do("glusterfs", "-f", servers / f"{volume}-client.vol", *options, place)
            # A client mounts before it has found the servers.
            member.do("sh", "-c", f"for i in $(seq 300); do ls {place} >&2 && exit 0; sleep 0.1; done; exit 1")


KINDS = {"directory": Directory, "moosefs": MooseFs, "glusterfs": GlusterFs}


def of(kind, cluster):
    """The cluster's."""
    if kind not in KINDS:
        raise failures.Failed(f"no storage '{kind}': {', '.join(KINDS)}")
    return KINDS[kind](cluster)
