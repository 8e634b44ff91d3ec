"""Members of an etcd on nodes, at the ports it always has. What a member keeps outlives its node's power failure, as
a disk would; a member that is started again goes on from there."""

import network

NEEDS = {"etcd": "etcd-server", "etcdctl": "etcd-client"}
#: A majority of as many goes on when one is lost.
MEMBERS = 3
#: Of the machine's two cores many processes want a share; etcd's own 100 ms and 1 s lead to elections then. Assumed.
HEARTBEAT_MS, ELECTION_MS = 500, 5000


def start(cluster, wanted):
    """On these nodes, or on all that have a member; where those are is a matter of the first three."""
    nodes = [member for member in cluster.members() if member.number <= MEMBERS]
    initial = ",".join(f"{node.name}=http://{network.address(node.number)}:2380" for node in nodes)
    for node in wanted or nodes:
        address = network.address(node.number)
        command = [
            "etcd", "--name", node.name, "--data-dir", str(node.directory / "etcd"),
            "--listen-peer-urls", f"http://{address}:2380", "--initial-advertise-peer-urls", f"http://{address}:2380",
            "--listen-client-urls", f"http://{address}:2379", "--advertise-client-urls", f"http://{address}:2379",
            "--initial-cluster", initial, "--initial-cluster-state", "new",
            "--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS),
        ]
        with open("/dev/null", "rb") as nothing, (node.directory / "etcd.log").open("ab") as log:
            streams = (nothing.fileno(), log.fileno(), log.fileno())
            node.execute(command, cluster.environment(), "/", streams, detached=True)
    print(",".join(f"http://{network.address(node.number)}:2379" for node in nodes))
