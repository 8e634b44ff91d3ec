/*
 * IOzone's throughput mode, one process per thread of the original. Each rank has its own file of file_size bytes,
 * accessed in records. A permutation for random access is the same on every rank. With --stonewall the clock of all
 * ranks of a node stops when its first rank finishes.
 */
#include "patterns.h"

#include <string.h>

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    *wrong = size_problem(options->record, options->file_size);
    if (options->record == 0 || options->file_size == 0 || options->file_size % options->record != 0) {
        *wrong = problem("--file-size must be a multiple of --record, and both above 0");
    } else if (options->collective) {
        *wrong = problem("iozone has one file per rank; leave out --collective");
    } else if (options->tests[0] == '\0' || strspn(options->tests, "0123,") != strlen(options->tests)) {
        *wrong = problem("--tests takes a list such as 0,1,2,3");
    }
    return ranks;
}

static size_t phases(const struct options *options, struct phase phases[PHASE_COUNT_MAX]) {
    static const struct {
        char test;
        struct phase phase;
    } ALL[] = {{'0', {"write", true, TRAVERSAL_FORWARD}},       {'0', {"rewrite", true, TRAVERSAL_FORWARD}},
               {'1', {"read", false, TRAVERSAL_FORWARD}},       {'1', {"reread", false, TRAVERSAL_FORWARD}},
               {'2', {"random_read", false, TRAVERSAL_RANDOM}}, {'2', {"random_write", true, TRAVERSAL_RANDOM}},
               {'3', {"reverse_read", false, TRAVERSAL_REVERSE}}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        bool excluded = options->operation == (ALL[i].phase.writes ? OPERATION_READ : OPERATION_WRITE);
        if (!excluded && strchr(options->tests, ALL[i].test) != NULL) {
            phases[count++] = ALL[i].phase;
        }
    }
    return count;
}

static void plan_iozone(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                        int ranks) {
    uint64_t count = options->file_size / options->record;
    (void)ranks;
    plan->regions = allocate(count, sizeof *plan->regions);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t record = phase->traversal == TRAVERSAL_REVERSE ? count - 1 - i : i;
        plan->regions[i].offset = (int64_t)(record * options->record);
        plan->regions[i].bytes = (int64_t)options->record;
    }
    if (phase->traversal == TRAVERSAL_RANDOM) {
        uint64_t state = random_state(options->seed, 0);
        regions_shuffle(plan->regions, count, &state);
    }
    plan->region_count = count;
    plan->regions_per_request = 1;
    plan->period_count = 1;
    plan->period_bytes = (int64_t)options->file_size;
    plan->own_file = true;
    plan->file_index = rank;
    plan->file_bytes = (int64_t)options->file_size;
}

const struct pattern pattern_iozone = {"iozone", MASK_IOZONE, "one file per rank, several tests",
                                       active_ranks, phases, plan_iozone, RATE_SUM_OF_RANKS};
