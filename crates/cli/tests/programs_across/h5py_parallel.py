"""h5py over mpi4py, several ranks on one file, verified: h5py_parallel.py FILE"""

import sys

import h5py
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
ROWS, COLUMNS = 64, 300


def row(number):
    return numpy.arange(COLUMNS, dtype="f8") * (number + 1)


with h5py.File(sys.argv[1], "w", driver="mpio", comm=world) as file:
    dealt = file.create_dataset("dealt", (ROWS, COLUMNS), dtype="f8")
    blocks = file.create_dataset("blocks", (ROWS, COLUMNS), dtype="f8", chunks=(5, 70))
    for number in range(rank, ROWS, ranks):
        dealt[number] = row(number)
    each = ROWS // ranks
    with blocks.collective:
        blocks[rank * each : (rank + 1) * each] = [row(number) for number in range(rank * each, (rank + 1) * each)]
world.Barrier()
wrong = 0
with h5py.File(sys.argv[1], "r", driver="mpio", comm=world) as file:
    for number in range((rank + 1) % ranks, each * ranks, ranks):
        for name in ("dealt", "blocks"):
            wrong += int((file[name][number] != row(number)).sum())
wrong = world.reduce(wrong, root=0)
if rank == 0:
    print(wrong, "wrong")
    sys.exit(wrong != 0)
