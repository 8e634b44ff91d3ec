/*
 * A parallel HDF5 program: datasets contiguous, chunked, chunked and extensible, and compound, each written collectively and
 * independently by hyperslabs and points, changed in part, flushed, read back by another rank and verified.
 *
 * datasets FILE
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 150, ROWS_PER_RANK = 96 };

static int rank, ranks;
static uint64_t errors;

static hid_t valid(hid_t id, const char *what) {
    if (id < 0) {
        fprintf(stderr, "datasets: rank %d: %s failed\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return id;
}

#define CALL(call) ((void)valid((hid_t)(call), #call))

static double value(hsize_t row, hsize_t column, int generation) {
    return (double)(row * 100003u % 8191u) + (double)column / 256.0 + 100000.0 * generation;
}

static hid_t transfer(int collective) {
    hid_t list = valid(H5Pcreate(H5P_DATASET_XFER), "create transfer list");
    CALL(H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    return list;
}

/* Writes or verifies rows first, first + step, ... of a dataset. */
static void rows(hid_t dataset, hsize_t first, hsize_t step, hsize_t count, int collective, int writes, int generation) {
    static double buffer[ROWS_PER_RANK * COLUMNS];
    hsize_t start[2] = {first, 0}, stride[2] = {step, 1}, counts[2] = {count, COLUMNS};
    hid_t space = valid(H5Dget_space(dataset), "get space"), memory = valid(H5Screate_simple(2, counts, NULL), "memory space");
    CALL(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, counts, NULL));
    hid_t list = transfer(collective);
    for (hsize_t i = 0; i < count * COLUMNS; i++) {
        buffer[i] = writes ? value(first + i / COLUMNS * step, i % COLUMNS, generation) : -1;
    }
    if (writes) {
        CALL(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, list, buffer));
    } else {
        CALL(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, list, buffer));
        for (hsize_t i = 0; i < count * COLUMNS; i++) {
            hsize_t row = first + i / COLUMNS * step;
            errors += buffer[i] != value(row, i % COLUMNS, row % 8 == 0 ? 1 : 0);
        }
    }
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

/* Cells at places that have no order, one point a call's element. */
static void points(hid_t dataset, int collective) {
    enum { POINTS = 50 };
    hsize_t places[POINTS][2], length[1] = {POINTS};
    double cells[POINTS];
    for (hsize_t i = 0; i < POINTS; i++) {
        places[i][0] = ((i * 37 + 1) % ROWS_PER_RANK) * (hsize_t)ranks + (hsize_t)rank;
        places[i][1] = i * 71 % COLUMNS;
        cells[i] = value(places[i][0], places[i][1], places[i][0] % 8 == 0 ? 1 : 0);
    }
    hid_t space = valid(H5Dget_space(dataset), "get space"), memory = valid(H5Screate_simple(1, length, NULL), "memory space");
    hid_t list = transfer(collective);
    CALL(H5Sselect_elements(space, H5S_SELECT_SET, POINTS, &places[0][0]));
    CALL(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, list, cells));
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

static void run_dataset(hid_t file, const char *name, int chunked, int collective) {
    hsize_t size[2] = {(hsize_t)ranks * ROWS_PER_RANK, COLUMNS}, unlimited[2] = {H5S_UNLIMITED, COLUMNS}, chunk[2] = {13, 40};
    hsize_t half[2] = {size[0] / 2, COLUMNS};
    hid_t properties = valid(H5Pcreate(H5P_DATASET_CREATE), "create properties");
    hid_t space = valid(H5Screate_simple(2, chunked == 2 ? half : size, chunked == 2 ? unlimited : NULL), "space");
    if (chunked) {
        CALL(H5Pset_chunk(properties, 2, chunk));
    }
    /* Unwritten bytes of a dataset are zeros; otherwise two files would differ. */
    CALL(H5Pset_fill_time(properties, H5D_FILL_TIME_ALLOC));
    CALL(H5Pset_obj_track_times(properties, 0));
    hid_t dataset = valid(H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT), "create");
    if (chunked == 2) {
        CALL(H5Dset_extent(dataset, size));
    }
    /* Rows dealt out in turn, then every eighth again; a barrier of the file between writers of one row. */
    rows(dataset, (hsize_t)rank, (hsize_t)ranks, ROWS_PER_RANK, collective, 1, 0);
    CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    hsize_t eighths = size[0] / 8, own = eighths / (hsize_t)ranks;
    rows(dataset, (hsize_t)rank * 8, 8 * (hsize_t)ranks, own, collective, 1, 1);
    CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    points(dataset, collective);
    CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % ranks;
    rows(dataset, (hsize_t)other * ROWS_PER_RANK, 1, ROWS_PER_RANK, collective, 0, 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(properties);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2) {
        fprintf(stderr, "datasets FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hid_t access = valid(H5Pcreate(H5P_FILE_ACCESS), "create access list");
    CALL(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t file = valid(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access), "create file");
    static const struct {
        const char *name;
        int chunked, collective;
    } SHAPES[] = {{"contiguous", 0, 1},  {"contiguous_independent", 0, 0},  {"chunked", 1, 1}, {"chunked_independent", 1, 0},
                  {"extensible", 2, 1}, {"extensible_independent", 2, 0}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        run_dataset(file, SHAPES[i].name, SHAPES[i].chunked, SHAPES[i].collective);
    }
    H5Fclose(file);
    /* Once more through a new open, read alone. */
    file = valid(H5Fopen(argv[1], H5F_ACC_RDONLY, access), "open file");
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        hid_t dataset = valid(H5Dopen2(file, SHAPES[i].name, H5P_DEFAULT), "open dataset");
        rows(dataset, (hsize_t)rank, (hsize_t)ranks, ROWS_PER_RANK, SHAPES[i].collective, 0, 0);
        H5Dclose(dataset);
    }
    H5Fclose(file);
    H5Pclose(access);
    uint64_t all = 0;
    MPI_Allreduce(&errors, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%llu wrong\n", (unsigned long long)all);
    }
    MPI_Finalize();
    return all != 0;
}
