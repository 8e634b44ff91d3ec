/*
 * Which bytes each rank of a pattern asks for: the generator is lab/workload, where the patterns are described, and
 * this is its interface for C (c_interface.rs there; a test compares the two). Memory is a few numbers however many
 * requests there are: a region is computed from its number.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum workload_kind {
    WORKLOAD_IOR,
    WORKLOAD_MPI_IO_TEST,
    WORKLOAD_TILE,
    WORKLOAD_HPIO,
    WORKLOAD_BTIO,
    WORKLOAD_IOZONE
};

/* Memory pattern first, file pattern second, as HPIO names them. */
enum workload_shape { WORKLOAD_C_C, WORKLOAD_NC_C, WORKLOAD_C_NC, WORKLOAD_NC_NC };

/* How the original program computes the rate that it reports. */
enum workload_rate { RATE_OPEN_TO_CLOSE, RATE_SLOWEST_CALLS, RATE_MEAN_OF_RANKS, RATE_SUM_OF_RANKS };

/* The fields of all patterns; each reads its own. Choices are places in the lists of options.c. */
struct workload_description {
    int32_t kind; /* enum workload_kind */
    uint32_t ranks;
    int32_t operation, order;
    int32_t shape; /* enum workload_shape */
    int32_t class;
    uint32_t tests; /* of iozone: bit n, test n */
    bool collective, file_per_process, single_region, individual, reorder_random;
    double theta;
    uint64_t seed;
    uint64_t transfer, block, segments, requests, shift_windows, shift_first, reorder_tasks; /* ior */
    uint64_t iterations;                                                                     /* mpi-io-test */
    uint64_t nx, ny, sx, sy, element, overlap_x, overlap_y, header;                          /* tile */
    uint64_t region_count, region_size, region_spacing;                                      /* hpio */
    uint64_t grid, dumps;                                                                    /* btio */
    uint64_t record, file_size;                                                              /* iozone */
};

/* One timed pass over the file or files. */
struct workload_phase {
    char name[16];
    int32_t rate; /* enum workload_rate */
    bool writes;
};

/*
 * What one rank does in one phase. Regions are numbered in the order of access. regions_per_request is either 1 (every
 * region is one call with an explicit offset) or region_count (one call for each period, whose regions ascend; the next
 * period has the same regions, period_bytes further on).
 */
struct workload_plan {
    uint64_t requests;
    uint64_t region_count; /* of one period */
    uint64_t regions_per_request;
    uint64_t period_bytes;
    uint64_t window_count;         /* so many parts, each to be made over and over; else 0 */
    uint64_t requests_per_barrier; /* a barrier, untimed, before each such group; 0 = none */
    uint64_t file_bytes;           /* size of the file when all ranks have written */
    uint32_t file;
    bool has_own_file;            /* the file is FILE.<file> and opened by this rank alone */
    bool barrier_around_requests; /* one after open, one before close */
};

struct workload_region {
    int64_t offset; /* bytes from the start of the file */
    int64_t bytes;
};

struct workload;          /* a pattern with its parameters */
struct workload_requests; /* what one rank does in one phase */

/* What a description of that kind has without a word. False where there is no such kind. */
bool workload_defaults(int32_t kind, struct workload_description *description);
/* NULL, and what to change as text, where the description makes no sense. */
struct workload *workload_create(const struct workload_description *description, char *text, size_t text_bytes);
void workload_free(struct workload *workload);
uint32_t workload_ranks(const struct workload *workload); /* that take part; surplus ones idle */
uint32_t workload_phases(const struct workload *workload);
uint64_t workload_request_bytes_max(const struct workload *workload); /* over all ranks and phases */
struct workload_phase workload_phase(const struct workload *workload, uint32_t number);
struct workload_requests *workload_requests(const struct workload *workload, uint32_t phase, uint32_t rank,
                                            struct workload_plan *plan);
struct workload_region workload_region(const struct workload_requests *requests, uint64_t number);
void workload_requests_free(struct workload_requests *requests);

#endif
