"""MPI.File of mpi4py: independent, collective and nonblocking calls through views, verified. mpi_file.py FILE"""

import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
rows, columns = 60, 700
file = MPI.File.Open(world, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_RDWR)


def row(number, generation):
    return (numpy.arange(columns, dtype="f8") + number * 1000) * (generation + 1)


# Rows by explicit offset, dealt out in turn.
requests = []
kept = []
for number in range(rank, rows, ranks):
    kept.append(row(number, 0))
    if number % 2:
        requests.append(file.Iwrite_at(number * columns * 8, kept[-1]))
    else:
        file.Write_at(number * columns * 8, kept[-1])
MPI.Request.Waitall(requests)
file.Sync()
world.Barrier()

# Columns of the same grid, collectively through a view.
width = columns // 7
block = MPI.DOUBLE.Create_subarray([rows, columns], [rows, width], [0, (rank + 1) * width])
block.Commit()
file.Set_view(0, MPI.DOUBLE, block)
grid = numpy.empty((rows, width))
file.Read_all(grid)
wrong = sum((grid[k] != row(k, 0)[(rank + 1) * width : (rank + 2) * width]).sum() for k in range(rows))
grid *= -3
file.Seek(0)
file.Write_all(grid)
file.Sync()
world.Barrier()
file.Set_view(0, MPI.BYTE, MPI.BYTE)
again = numpy.empty(columns)
for number in range((rank + 1) % ranks, rows, ranks):
    file.Read_at(number * columns * 8, again)
    expected = row(number, 0)
    expected[width : (ranks + 1) * width] *= -3
    wrong += (again != expected).sum()
if rank == 0:
    file.Write_at(rows * columns * 8, b"the end")
file.Close()
wrong = world.reduce(int(wrong), root=0)
if rank == 0:
    print(wrong, "wrong")
    sys.exit(wrong != 0)
