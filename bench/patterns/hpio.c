/*
 * HPIO. Each rank has region_count regions of region_size bytes. In a file that is not contiguous (nc) the regions of
 * all ranks alternate, with spacing between them; in a contiguous one (c) each rank's regions follow each other:
 *
 *   nc:  offset = (size + spacing) * (k * ranks + rank)            c:  offset = rank * count * size + k * size
 *
 * Memory that is not contiguous has the regions at a stride of size + spacing in the buffer, described by a vector
 * datatype; file offsets do not change. One call moves all regions; with --individual each is one call of its own,
 * where the layout of the memory makes no difference.
 */
#include "patterns.h"

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    uint64_t size = options->region_size, spacing = options->region_spacing;
    if (size == 0 || options->region_count == 0) {
        *wrong = problem("--region-count and --region-size must be above 0");
        return 0;
    }
    if (spacing > INT32_MAX || size > INT32_MAX || options->region_count > INT32_MAX) {
        *wrong = problem("lower --region-size, --region-spacing or --region-count: none may exceed 2^31 - 1");
        return 0;
    }
    uint64_t with_gaps = product(options->region_count, size + spacing);
    *wrong = size_problem(options->individual ? size : with_gaps, product(with_gaps, (uint64_t)ranks));
    return ranks;
}

static void plan_hpio(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                      int ranks) {
    uint64_t size = options->region_size, count = options->region_count;
    bool file_strided = options->hpio_shape == HPIO_C_NC || options->hpio_shape == HPIO_NC_NC;
    bool memory_strided = options->hpio_shape == HPIO_NC_C || options->hpio_shape == HPIO_NC_NC;
    uint64_t stride = size + options->region_spacing;
    (void)phase;

    bool one_region = !file_strided && !options->individual;
    plan->region_count = one_region ? 1 : count;
    plan->regions_per_request = options->individual ? 1 : plan->region_count;
    plan->regions = allocate(plan->region_count, sizeof *plan->regions);
    for (uint64_t k = 0; k < plan->region_count; k++) {
        uint64_t offset =
            file_strided ? stride * (k * (uint64_t)ranks + (uint64_t)rank) : ((uint64_t)rank * count + k) * size;
        plan->regions[k].offset = (int64_t)offset;
        plan->regions[k].bytes = (int64_t)(one_region ? count * size : size);
    }
    plan->period_count = 1;
    uint64_t regions = (uint64_t)ranks * count;
    plan->file_bytes = (int64_t)(file_strided ? regions * stride - options->region_spacing : regions * size);
    plan->period_bytes = plan->file_bytes;
    if (memory_strided && !options->individual) {
        plan->memory_piece_bytes = size;
        plan->memory_stride = stride;
    }
}

const struct pattern pattern_hpio = {"hpio",       MASK_HPIO,           "regions that alternate between ranks",
                                     active_ranks, phases_by_operation, plan_hpio, RATE_OPEN_TO_CLOSE};
