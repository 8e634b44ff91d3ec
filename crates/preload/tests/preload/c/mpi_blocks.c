/* Strided blocks of 16 ranks, independent and collective, written and read back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 3000
#define BLOCKS 40

static int rank, ranks;

static void fill(char *b, int block)
{
    for (int k = 0; k < BLOCK; k++) b[k] = block * 13 + k * 5 + k / 256;
}

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    static char mine[BLOCKS][BLOCK], seen[BLOCKS][BLOCK], one[BLOCK];
    MPI_File f;
    MPI_Datatype type;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(!MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), "open");
    for (int k = 0; k < BLOCKS; k++) {
        fill(one, k * ranks + rank);
        check(!MPI_File_write_at(f, (MPI_Offset)(k * ranks + rank) * BLOCK, one, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "write_at");
    }
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < BLOCKS; k++) {
        int block = (k * ranks + (rank + 1) % ranks);
        fill(mine[0], block);
        check(!MPI_File_read_at(f, (MPI_Offset)block * BLOCK, one, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "read_at");
        check(!memcmp(one, mine[0], BLOCK), "bytes of another rank");
    }
    /* every rank sees its blocks through a strided view, behind what is there */
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * ranks, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    MPI_Offset start = (MPI_Offset)BLOCKS * ranks * BLOCK + (MPI_Offset)rank * BLOCK;
    for (int collective = 0; collective < 2; collective++) {
        for (int k = 0; k < BLOCKS; k++) fill(mine[k], collective * 7 + k * ranks + rank);
        MPI_File_set_view(f, start, MPI_CHAR, type, "native", MPI_INFO_NULL);
        if (collective) check(!MPI_File_write_all(f, mine, BLOCKS * BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "write_all");
        else check(!MPI_File_write(f, mine, BLOCKS * BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "write");
        MPI_File_sync(f);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_seek(f, 0, MPI_SEEK_SET);
        if (collective) check(!MPI_File_read_all(f, seen, BLOCKS * BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "read_all");
        else check(!MPI_File_read(f, seen, BLOCKS * BLOCK, MPI_CHAR, MPI_STATUS_IGNORE), "read");
        check(!memcmp(mine, seen, sizeof mine), "strided bytes");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
