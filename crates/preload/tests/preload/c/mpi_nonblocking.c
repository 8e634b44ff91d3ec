/* Nonblocking writes and reads of several ranks, many outstanding, over bytes that blocking writes left on flash. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 5000
#define BLOCKS 24

static int rank, ranks;

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void fill(char *b, int block, int round)
{
    for (int k = 0; k < BLOCK; k++) b[k] = block * 13 + k * 5 + k / 256 + round * 101;
}

int main(int argc, char **argv)
{
    static char mine[BLOCKS][BLOCK], seen[BLOCKS][BLOCK], wanted[BLOCK];
    MPI_Request requests[BLOCKS];
    MPI_Status statuses[BLOCKS];
    MPI_File f;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(!MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), "open");
    for (int round = 0; round < 6; round++) {
        /* blocking in even rounds, so that each kind overwrites the other's bytes */
        for (int k = 0; k < BLOCKS; k++) {
            MPI_Offset at = (MPI_Offset)(k * ranks + rank) * BLOCK;
            fill(mine[k], k * ranks + rank, round);
            if (round % 2) check(!MPI_File_iwrite_at(f, at, mine[k], BLOCK, MPI_CHAR, &requests[k]), "iwrite_at");
            else check(!MPI_File_write_at(f, at, mine[k], BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "write_at");
        }
        for (int k = 0; round % 2 && k < BLOCKS; k++) {
            int count;
            check(!MPI_Wait(&requests[k], &statuses[k]), "wait");
            MPI_Get_count(&statuses[k], MPI_CHAR, &count);
            check(count == BLOCK, "bytes written");
        }
        MPI_File_sync(f);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(seen, 0, sizeof seen);
        for (int k = 0; k < BLOCKS; k++) {
            MPI_Offset at = (MPI_Offset)(k * ranks + (rank + 1) % ranks) * BLOCK;
            check(!MPI_File_iread_at(f, at, seen[k], BLOCK, MPI_CHAR, &requests[k]), "iread_at");
        }
        check(!MPI_Waitall(BLOCKS, requests, statuses), "waitall");
        for (int k = 0; k < BLOCKS; k++) {
            fill(wanted, k * ranks + (rank + 1) % ranks, round);
            check(!memcmp(seen[k], wanted, BLOCK), "bytes of another rank");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
