/*
 * Every way in which MPI-IO writes and reads a file: by explicit offset, individual and shared pointer; alone and collectively;
 * blocking, nonblocking with many requests under way, and split; through a contiguous view and one with gaps.
 *
 * modes DIRECTORY BLOCK BLOCKS [SKIPPED...]: a file for every form, written twice in part, read back in the same form by another
 * rank, verified, and summed up by rank 0. A form that is named after BLOCKS is left out.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS_MAX = 4096 };

enum position { EXPLICIT, INDIVIDUAL, SHARED };
enum timing { BLOCKING, NONBLOCKING, SPLIT };

struct form {
    const char *name;
    enum position position;
    int collective;
    enum timing timing;
    int atomic;
};

static const struct form FORMS[] = {
    {"at", EXPLICIT, 0, BLOCKING, 0},
    {"at_atomic", EXPLICIT, 0, BLOCKING, 1},
    {"iat", EXPLICIT, 0, NONBLOCKING, 0},
    {"at_all", EXPLICIT, 1, BLOCKING, 0},
    {"iat_all", EXPLICIT, 1, NONBLOCKING, 0},
    {"at_all_split", EXPLICIT, 1, SPLIT, 0},
    {"individual", INDIVIDUAL, 0, BLOCKING, 0},
    {"iindividual", INDIVIDUAL, 0, NONBLOCKING, 0},
    {"individual_all", INDIVIDUAL, 1, BLOCKING, 0},
    {"iindividual_all", INDIVIDUAL, 1, NONBLOCKING, 0},
    {"individual_all_split", INDIVIDUAL, 1, SPLIT, 0},
    {"shared", SHARED, 0, BLOCKING, 0},
    {"ishared", SHARED, 0, NONBLOCKING, 0},
    {"ordered", SHARED, 1, BLOCKING, 0},
    {"ordered_split", SHARED, 1, SPLIT, 0},
};

static int rank, ranks, block, blocks;
static uint64_t errors;

static void require(int code, const char *what) {
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "modes: rank %d: %s: %s\n", rank, what, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* A byte tells its place. Where the order of ranks is chance, all write the same. */
static unsigned char content(const struct form *form, int64_t place, int generation) {
    uint64_t x = (uint64_t)(form->position == SHARED ? place % block : place) + 1000003u * (uint64_t)(form - FORMS) +
                 77777777u * (uint64_t)generation;
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> 56);
}

static int generation_of(int number) {
    return number % 3 == 1;
}

/* Moves block `number` of `owner`. Returns whether `request` has to be waited for. */
static int move(MPI_File file, const struct form *form, int strided, int writes, int owner, int number, unsigned char *bytes,
                MPI_Request *request) {
    MPI_Offset offset = strided ? (MPI_Offset)number * block : ((MPI_Offset)number * ranks + owner) * block;
    MPI_Status status;
    int code = MPI_SUCCESS;
#define BOTH(call, ...) (writes ? MPI_File_write##call(file, __VA_ARGS__) : MPI_File_read##call(file, __VA_ARGS__))
#define NONBLOCKING_BOTH(call, ...) (writes ? MPI_File_iwrite##call(file, __VA_ARGS__) : MPI_File_iread##call(file, __VA_ARGS__))
    if (form->position == INDIVIDUAL) {
        require(MPI_File_seek(file, offset, MPI_SEEK_SET), "seek");
    }
    switch ((int)form->position * 10 + form->collective * 3 + (int)form->timing) {
    case 0: code = BOTH(_at, offset, bytes, block, MPI_BYTE, &status); break;
    case 1: code = NONBLOCKING_BOTH(_at, offset, bytes, block, MPI_BYTE, request); break;
    case 3: code = BOTH(_at_all, offset, bytes, block, MPI_BYTE, &status); break;
    case 4: code = NONBLOCKING_BOTH(_at_all, offset, bytes, block, MPI_BYTE, request); break;
    case 5:
        require(BOTH(_at_all_begin, offset, bytes, block, MPI_BYTE), "begin");
        code = BOTH(_at_all_end, bytes, &status);
        break;
    case 10: code = writes ? MPI_File_write(file, bytes, block, MPI_BYTE, &status) : MPI_File_read(file, bytes, block, MPI_BYTE, &status); break;
    case 11: code = writes ? MPI_File_iwrite(file, bytes, block, MPI_BYTE, request) : MPI_File_iread(file, bytes, block, MPI_BYTE, request); break;
    case 13: code = BOTH(_all, bytes, block, MPI_BYTE, &status); break;
    case 14: code = NONBLOCKING_BOTH(_all, bytes, block, MPI_BYTE, request); break;
    case 15:
        require(BOTH(_all_begin, bytes, block, MPI_BYTE), "begin");
        code = BOTH(_all_end, bytes, &status);
        break;
    case 20: code = BOTH(_shared, bytes, block, MPI_BYTE, &status); break;
    case 21: code = NONBLOCKING_BOTH(_shared, bytes, block, MPI_BYTE, request); break;
    case 23: code = BOTH(_ordered, bytes, block, MPI_BYTE, &status); break;
    case 25:
        require(BOTH(_ordered_begin, bytes, block, MPI_BYTE), "begin");
        code = BOTH(_ordered_end, bytes, &status);
        break;
    default: abort();
    }
    require(code, writes ? "write" : "read");
    int waits = form->timing == NONBLOCKING, moved = 0;
    if (!waits) {
        MPI_Get_elements(&status, MPI_BYTE, &moved);
        errors += moved != block;
    }
    return waits;
}

static int64_t place_of(int strided, int owner, int number) {
    int64_t gap = strided ? 701 : 0;
    return (int64_t)number * (ranks * (int64_t)block + gap) + (int64_t)owner * block;
}

/* One pass over the blocks of `owner`; a pass of generation 1 writes every third block again. */
static void pass(MPI_File file, const struct form *form, int strided, int writes, int owner, int again) {
    unsigned char *bytes = malloc((size_t)blocks * block);
    MPI_Request requests[REQUESTS_MAX];
    int waiting = 0;
    for (int number = 0; number < blocks; number++) {
        unsigned char *own = bytes + (size_t)number * block;
        if (again && generation_of(number) == 0) {
            continue;
        }
        for (int i = 0; i < block; i++) {
            own[i] = writes ? content(form, place_of(strided, owner, number) + i, again) : 0xa5;
        }
        waiting += move(file, form, strided, writes, owner, number, own, &requests[waiting]);
    }
    require(MPI_Waitall(waiting, requests, MPI_STATUSES_IGNORE), "wait");
    for (int number = 0; !writes && number < blocks; number++) {
        int generation = form->position == SHARED ? 0 : generation_of(number);
        for (int i = 0; i < block; i++) {
            errors += bytes[(size_t)number * block + i] != content(form, place_of(strided, owner, number) + i, generation);
        }
    }
    free(bytes);
}

static void set_view(MPI_File file, int strided, int owner) {
    if (!strided) {
        return;
    }
    MPI_Datatype piece, type;
    MPI_Type_contiguous(block, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, place_of(1, 0, 1), &type);
    MPI_Type_commit(&type);
    require(MPI_File_set_view(file, (MPI_Offset)owner * block, MPI_BYTE, type, "native", MPI_INFO_NULL), "set view");
    MPI_Type_free(&type);
    MPI_Type_free(&piece);
}

static void run_form(const char *directory, const struct form *form, int strided) {
    char path[4096];
    MPI_File file;
    snprintf(path, sizeof path, "%s/%s.%s", directory, form->name, strided ? "strided" : "contiguous");
    require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    set_view(file, strided, rank);
    if (form->atomic) {
        require(MPI_File_set_atomicity(file, 1), "set atomicity");
    }
    pass(file, form, strided, 1, rank, 0);
    if (form->position == SHARED) {
        require(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), "seek shared");
    } else {
        pass(file, form, strided, 1, rank, 1);
    }
    require(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % ranks;
    set_view(file, strided, other);
    pass(file, form, strided, 0, other, 0);
    require(MPI_File_close(&file), "close");
}

/* Sizes: set, preallocated, asked for, appended to, deleted on close. */
static void run_sizes(const char *directory) {
    char path[4096];
    MPI_File file;
    MPI_Offset size;
    snprintf(path, sizeof path, "%s/sizes", directory);
    require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    for (int k = 0; k < 3; k++) {
        require(MPI_File_write_at(file, (MPI_Offset)(rank * 3 + k) * 5000, path, 1, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    }
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    require(MPI_File_set_size(file, 12345), "set size");
    require(MPI_File_preallocate(file, 23456), "preallocate");
    require(MPI_File_get_size(file, &size), "get size");
    errors += size != 23456;
    require(MPI_File_close(&file), "close");
    int again = MPI_MODE_APPEND | MPI_MODE_WRONLY;
    require(MPI_File_open(MPI_COMM_WORLD, path, again, MPI_INFO_NULL, &file), "open again");
    require(MPI_File_get_position(file, &size), "get position");
    errors += size != 23456;
    require(MPI_File_write_at(file, 23456 + rank * 100, "appended", 8, MPI_BYTE, MPI_STATUS_IGNORE), "append");
    require(MPI_File_close(&file), "close");
    snprintf(path, sizeof path, "%s/gone", directory);
    int mode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    require(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open to delete");
    require(MPI_File_write_at(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    require(MPI_File_close(&file), "close");
}

static int is_skipped(const char *name, int argc, char **argv) {
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    block = argc > 3 ? atoi(argv[2]) : 0;
    blocks = argc > 3 ? atoi(argv[3]) : 0;
    if (block < 1 || blocks < 1 || blocks > REQUESTS_MAX) {
        fprintf(stderr, "modes DIRECTORY BLOCK BLOCKS [SKIPPED...], with at most %d blocks\n", REQUESTS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        const struct form *form = &FORMS[i];
        if (is_skipped(form->name, argc, argv)) {
            continue;
        }
        uint64_t before = errors;
        run_form(argv[1], form, 0);
        if (form->position != SHARED) {
            run_form(argv[1], form, 1);
        }
        uint64_t own = errors - before, all = 0;
        MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s: %llu wrong\n", form->name, (unsigned long long)all);
        }
    }
    if (!is_skipped("sizes", argc, argv)) {
        run_sizes(argv[1]);
    }
    uint64_t all = 0;
    MPI_Allreduce(&errors, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}
