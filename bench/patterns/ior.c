/*
 * IOR. In every segment each rank has one contiguous block, accessed in transfers:
 *
 *   offset = segment * ranks * block + rank * block + j * transfer
 *
 * With --file-per-process there is one file per rank and offset = segment * block + j * transfer. The order of a
 * random access is drawn once and used again in every segment, as IOR does. There is no barrier between transfers.
 *
 *   seq                j ascends
 *   perm_own_block     a permutation of the rank's own transfers, so that the whole file is accessed
 *   uniform_own_block  block / transfer draws, or as many as --requests says, with replacement
 *   zipf_own_block     the same, where transfer j is drawn with weight (j + 1)^-theta
 *   deal_global        each transfer of the segment is dealt to a random rank, and each rank shuffles its share
 *
 * With --shift-seconds the hot transfers of zipf_own_block move: in window w the draw of transfer j stands for transfer
 * j + 3 w / 8 of the block, around its end. Windows last so many seconds each, however many requests fit.
 */
#include "patterns.h"

#include <math.h>
#include <stdlib.h>

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    uint64_t file_ranks = options->file_per_process ? 1 : (uint64_t)ranks;
    uint64_t file_bytes = product(product(options->block, options->segments), file_ranks);
    *wrong = size_problem(options->transfer, file_bytes);
    bool draws = options->order == ORDER_UNIFORM_OWN_BLOCK || options->order == ORDER_ZIPF_OWN_BLOCK;
    if (options->transfer == 0 || options->block < options->transfer ||
        (options->block % options->transfer != 0 && !draws)) {
        *wrong = problem("--block must be a multiple of --transfer, or no less where requests are drawn, and both "
                         "above 0");
    } else if (options->requests > 0 && !draws) {
        *wrong = problem("--requests is for --order uniform_own_block and zipf_own_block");
    } else if (options->shift_seconds > 0 && (options->order != ORDER_ZIPF_OWN_BLOCK || options->segments != 1 ||
                                              options->collective)) {
        *wrong = problem("--shift-seconds is for --order zipf_own_block, one segment and no --collective");
    } else if (options->shift_seconds > 0 &&
               (options->shift_windows == 0 || options->shift_windows > WINDOW_COUNT_MAX)) {
        *wrong = problem("--shift-windows must be from 1 to %d", WINDOW_COUNT_MAX);
    } else if (options->segments == 0) {
        *wrong = problem("--segments must be at least 1");
    } else if (options->file_per_process && options->order == ORDER_DEAL_GLOBAL) {
        *wrong = problem("--order deal_global needs a shared file; leave out --file-per-process");
    }
    return ranks;
}

/* Draws count of so many transfers. */
static void draw_zipf(uint64_t *drawn, uint64_t count, uint64_t transfers, double theta, uint64_t *state) {
    double *cumulated = allocate(transfers, sizeof *cumulated);
    double sum = 0;
    for (uint64_t j = 0; j < transfers; j++) {
        sum += pow((double)(j + 1), -theta);
        cumulated[j] = sum;
    }
    for (uint64_t i = 0; i < count; i++) {
        double target = (double)(random_next(state) >> 11) * 0x1p-53 * sum;
        uint64_t low = 0, high = transfers - 1;
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (cumulated[middle] > target) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        drawn[i] = low;
    }
    free(cumulated);
}

/* Fills the table with the transfers of the rank's own block. */
static void plan_own_block(struct plan *plan, const struct options *options, int rank) {
    uint64_t transfers = options->block / options->transfer;
    uint64_t windows = options->shift_seconds > 0 ? options->shift_windows : 1;
    uint64_t part = options->requests ? options->requests : transfers, count = part * windows;
    uint64_t state = random_state(options->seed, (uint64_t)rank);
    int64_t first = options->file_per_process ? 0 : (int64_t)((uint64_t)rank * options->block);
    uint64_t *slots = allocate(count, sizeof *slots);
    for (uint64_t i = 0; i < count; i++) {
        slots[i] = options->order == ORDER_UNIFORM_OWN_BLOCK ? random_below(&state, transfers) : i;
    }
    if (options->order == ORDER_ZIPF_OWN_BLOCK) {
        draw_zipf(slots, count, transfers, options->theta, &state);
    }
    if (options->shift_seconds > 0) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t window = options->shift_first + i / part;
            slots[i] = (slots[i] + window % 8 * 3 * transfers / 8) % transfers;
        }
        plan->window_count = windows;
        plan->window_ns = (uint64_t)(options->shift_seconds * 1e9);
    }
    plan->regions = allocate(count, sizeof *plan->regions);
    plan->region_count = count;
    for (uint64_t i = 0; i < count; i++) {
        plan->regions[i].offset = first + (int64_t)(slots[i] * options->transfer);
        plan->regions[i].bytes = (int64_t)options->transfer;
    }
    free(slots);
    if (options->order == ORDER_PERM_OWN_BLOCK) {
        regions_shuffle(plan->regions, count, &state);
    }
}

/* All ranks draw the same deal from the stream after the last rank's, and each keeps what it is dealt. */
static void plan_deal(struct plan *plan, const struct options *options, int rank, int ranks) {
    uint64_t slots = product(options->block / options->transfer, (uint64_t)ranks);
    for (bool keeping = false;; keeping = true) {
        uint64_t state = random_state(options->seed, (uint64_t)ranks);
        uint64_t kept = 0;
        for (uint64_t slot = 0; slot < slots; slot++) {
            if (random_below(&state, (uint64_t)ranks) != (uint64_t)rank) {
                continue;
            }
            if (keeping) {
                plan->regions[kept].offset = (int64_t)(slot * options->transfer);
                plan->regions[kept].bytes = (int64_t)options->transfer;
            }
            kept++;
        }
        plan->region_count = kept;
        if (keeping) {
            break;
        }
        plan->regions = allocate(kept, sizeof *plan->regions);
    }
    uint64_t own_state = random_state(options->seed, (uint64_t)rank);
    regions_shuffle(plan->regions, plan->region_count, &own_state);
}

static void plan_ior(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                     int ranks) {
    if (!phase->writes) {
        rank = (int)(((uint64_t)rank + options->reorder_tasks) % (uint64_t)ranks);
    }
    if (options->order == ORDER_DEAL_GLOBAL) {
        plan_deal(plan, options, rank, ranks);
    } else {
        plan_own_block(plan, options, rank);
    }
    plan->regions_per_request = 1;
    plan->period_count = options->segments;
    plan->period_bytes = (int64_t)(options->block * (options->file_per_process ? 1 : (uint64_t)ranks));
    plan->own_file = options->file_per_process;
    plan->file_index = options->file_per_process ? rank : 0;
    plan->file_bytes = plan->period_bytes * (int64_t)options->segments;
}

const struct pattern pattern_ior = {"ior",    MASK_IOR,           "contiguous blocks per rank, in transfers",
                                    active_ranks, phases_by_operation, plan_ior, RATE_OPEN_TO_CLOSE};
