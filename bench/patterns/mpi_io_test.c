/*
 * mpi-io-test. The ranks' blocks lie side by side, iteration after iteration:
 *
 *   offset = iteration * ranks * block + rank * block
 *
 * with a barrier before each request, outside the timed call. Without --collective each rank opens the shared file
 * for itself.
 */
#include "patterns.h"

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    *wrong = size_problem(options->block, product(product(options->block, (uint64_t)ranks), options->iterations));
    if (options->block == 0 || options->iterations == 0) {
        *wrong = problem("--block and --iterations must be above 0");
    }
    return ranks;
}

static void plan_mpi_io_test(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                             int ranks) {
    (void)phase;
    plan->regions = allocate(1, sizeof *plan->regions);
    plan->regions[0].offset = (int64_t)((uint64_t)rank * options->block);
    plan->regions[0].bytes = (int64_t)options->block;
    plan->region_count = 1;
    plan->regions_per_request = 1;
    plan->period_count = options->iterations;
    plan->period_bytes = (int64_t)(options->block * (uint64_t)ranks);
    plan->requests_per_barrier = 1;
    plan->own_communicator = !options->collective;
    plan->file_bytes = plan->period_bytes * (int64_t)options->iterations;
}

const struct pattern pattern_mpi_io_test = {
    "mpi-io-test",      MASK_MPI_IO_TEST,   "blocks side by side, a barrier before each request", active_ranks,
    phases_by_operation, plan_mpi_io_test, RATE_SLOWEST_CALLS};
