/*
 * patterns: the access patterns of well-known parallel I/O benchmarks, in one MPI-IO program.
 *
 * Every pattern reduces to a plan: a table of regions that repeats at a fixed distance in the file. One engine runs
 * every plan, so that all patterns share the same opening, timing, checking and reporting. The program uses MPI-IO
 * only and knows nothing of what lies below it.
 *
 *   main.c      the sequence of phases
 *   options.c   the option table, help and number parsing
 *   ior.c, mpi_io_test.c, tile.c, hpio.c, btio.c, iozone.c      one plan per pattern
 *   phase.c     the engine: open, request loop, close
 *   content.c   what the bytes of a file are
 *   random.c    splitmix64 and shuffling
 *   report.c    latency histogram, reduction over ranks, text and JSON
 */
#ifndef PATTERNS_H
#define PATTERNS_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_DATA_WRONG = 1, EXIT_USAGE = 2 };

enum operation { OPERATION_WRITE, OPERATION_READ, OPERATION_WRITE_READ };

enum order { ORDER_SEQ, ORDER_PERM_OWN_BLOCK, ORDER_UNIFORM_OWN_BLOCK, ORDER_DEAL_GLOBAL, ORDER_ZIPF_OWN_BLOCK };

/* Memory pattern first, file pattern second, as HPIO names them. */
enum hpio_shape { HPIO_C_C, HPIO_NC_C, HPIO_C_NC, HPIO_NC_NC };

struct options {
    const struct pattern *pattern;
    const char *file;

    int operation; /* enum operation */
    bool collective, verify, keep, prealloc, json, sync, progress;
    uint64_t seed, generation, think_us, repetitions;

    uint64_t transfer, block, segments, reorder_tasks; /* ior; block also mpi-io-test */
    int order;                                         /* enum order */
    double theta;
    uint64_t requests, shift_windows, shift_first;
    double shift_seconds;
    bool file_per_process;

    uint64_t iterations; /* mpi-io-test */

    uint64_t nx, ny, sx, sy, element, overlap_x, overlap_y, header; /* tile */
    bool individual;                                                /* tile and hpio */

    uint64_t region_count, region_size, region_spacing; /* hpio */
    int hpio_shape;                                     /* enum hpio_shape */

    int class_index; /* btio */
    uint64_t grid, dumps;

    const char *tests; /* iozone */
    uint64_t record, file_size;
    bool stonewall;
};

/* One timed pass over the file or files. Phases are made by the pattern. */
struct phase {
    const char *name;
    bool writes;
    enum { TRAVERSAL_FORWARD, TRAVERSAL_RANDOM, TRAVERSAL_REVERSE } traversal; /* iozone only */
};

enum { PHASE_COUNT_MAX = 8 };

struct region {
    int64_t offset; /* bytes from the start of the file */
    int64_t bytes;
};

/*
 * What one rank does in one phase. The table holds the regions of one period in the order of access; the whole table
 * is repeated period_count times, period_bytes further on in the file each time. regions_per_request is either 1
 * (every region is one call with an explicit offset) or region_count (one call per period through a file view, whose
 * regions ascend).
 */
struct plan {
    struct region *regions;
    uint64_t region_count, regions_per_request;
    uint64_t period_count;
    int64_t period_bytes;

    /*
     * With windows the table holds window_count parts, one after another: for window_ns each the requests of a part are
     * made over and over. Else 0.
     */
    uint64_t window_ns, window_count;

    uint64_t requests_per_barrier; /* a barrier, untimed, before each such group; 0 = none */
    bool barrier_around_requests;  /* one after open, one before close */

    uint64_t memory_piece_bytes, memory_stride; /* a strided buffer in memory; 0 = contiguous */

    bool own_file;         /* the file is FILE.<file_index> and opened by this rank alone */
    bool own_communicator; /* the shared file is opened by every rank for itself */
    int file_index;
    int64_t file_bytes; /* size of the file when all ranks have written */
};

struct pattern {
    const char *name;
    unsigned mask; /* in the option table */
    const char *summary;
    /* Ranks that take part, or 0 with *problem set to what the user should change. */
    int (*active_ranks)(const struct options *options, int ranks, const char **problem);
    size_t (*phases)(const struct options *options, struct phase phases[PHASE_COUNT_MAX]);
    /* Fills a zeroed plan. The rank is the one whose data is accessed. */
    void (*plan)(struct plan *plan, const struct options *options, const struct phase *phase, int rank, int ranks);
    /* The rate as the original program defines it, in bytes per second. */
    enum { RATE_OPEN_TO_CLOSE, RATE_SLOWEST_CALLS, RATE_MEAN_OF_RANKS, RATE_SUM_OF_RANKS } rate;
};

enum { MASK_IOR = 1, MASK_MPI_IO_TEST = 2, MASK_TILE = 4, MASK_HPIO = 8, MASK_BTIO = 16, MASK_IOZONE = 32 };

extern const struct pattern pattern_ior, pattern_mpi_io_test, pattern_tile, pattern_hpio, pattern_btio, pattern_iozone;

/* options.c: returns NULL, or what is wrong and what to do about it. Static storage. */
const char *options_parse(struct options *options, int argc, char **argv);
void options_print_help(void);
const char *problem(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The product, or UINT64_MAX when it does not fit. */
uint64_t product(uint64_t left, uint64_t right);
/* NULL when a request of this size and a file of this size can be expressed, otherwise what to do. */
const char *size_problem(uint64_t request_bytes, uint64_t file_bytes);
size_t phases_by_operation(const struct options *options, struct phase phases[PHASE_COUNT_MAX]);

/* content.c */
uint64_t content_key(uint64_t generation, int file_index);
void content_fill(void *buffer, int64_t offset, size_t bytes, uint64_t key);
/* Number of wrong bytes; *first is the index of the first of them. */
size_t content_count_wrong(const void *buffer, int64_t offset, size_t bytes, uint64_t key, size_t *first);
unsigned char content_byte(int64_t offset, uint64_t key);

/* random.c */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t bound);
uint64_t random_state(uint64_t seed, uint64_t stream);
void regions_shuffle(struct region *regions, uint64_t count, uint64_t *state);

/* report.c */
enum { WINDOW_COUNT_MAX = 16 };

enum { HISTOGRAM_SUB_BITS = 6, HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS };

struct measurement {
    uint64_t bytes, requests, errors;
    uint64_t start_ns, end_ns; /* before open, after close */
    uint64_t loop_ns;          /* the request loop of this rank */
    uint64_t call_ns;          /* sum over the data calls of this rank */
    uint64_t windows[WINDOW_COUNT_MAX]; /* requests that began in each */
    uint64_t histogram[HISTOGRAM_BUCKETS];
};

void measurement_add_call(struct measurement *measurement, uint64_t bytes, uint64_t call_ns);
void report_begin(const struct options *options, int ranks, int active_ranks);
/* Collective over communicator; rank 0 prints. Returns the errors of all ranks, on rank 0 only. */
uint64_t report_phase(const struct options *options, const struct phase *phase, uint64_t repetition,
                      uint64_t generation, struct measurement *measurement, MPI_Comm communicator);
void report_end(const struct options *options, uint64_t errors);

/* phase.c */
struct run {
    const struct options *options;
    MPI_Comm communicator; /* the ranks that take part */
    int rank, ranks;       /* within communicator */
    atomic_int *stop;      /* shared by the ranks of a node; NULL without stonewall */
};

void phase_run(const struct run *run, const struct phase *phase, const struct plan *plan, uint64_t generation,
               struct measurement *measurement);
uint64_t now_ns(void);
void *allocate(uint64_t count, uint64_t element_bytes);

#endif
