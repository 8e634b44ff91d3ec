/*
 * NPB BTIO. A cube of grid^3 points of 40 bytes, written whole in every dump, dump after dump. The active ranks are a
 * square p * p; each owns p cells of the p^3 that the cube is cut into, placed along a diagonal (multipartition):
 *
 *   cell 0 of rank r: (i, j, k) = (r mod p, r div p, 0);  cell c: i + 1, j - 1 (both modulo p), k = c
 *
 * Independent: one explicit-offset call per row of points along x ("simple"). Collective: one call per dump through a
 * file view ("full"). A barrier before each dump stands for the exchange between solver steps.
 */
#include "patterns.h"

static const struct {
    uint64_t grid, dumps;
} CLASSES[] = {{12, 12}, {24, 40}, {64, 40}, {102, 40}, {162, 40}}; /* S W A B C: steps / write interval of 5 */

enum { POINT_BYTES = 5 * 8 };

static uint64_t grid_of(const struct options *options) {
    return options->grid ? options->grid : CLASSES[options->class_index].grid;
}

static uint64_t dumps_of(const struct options *options) {
    return options->dumps ? options->dumps : CLASSES[options->class_index].dumps;
}

static int square_root(int ranks) {
    int root = 1;
    while ((root + 1) * (root + 1) <= ranks) {
        root++;
    }
    return root;
}

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    int root = square_root(ranks);
    uint64_t grid = grid_of(options);
    if (grid < (uint64_t)root) {
        *wrong = problem("--grid must be at least %d for %d ranks", root, root * root);
        return 0;
    }
    uint64_t dump_bytes = product(POINT_BYTES, product(grid, product(grid, grid)));
    uint64_t request_bytes = options->collective ? dump_bytes / (uint64_t)root : POINT_BYTES * grid;
    *wrong = size_problem(request_bytes, product(dump_bytes, dumps_of(options)));
    return root * root;
}

/* The part of a dimension that cell number `index` of `cells` covers. */
static uint64_t span_of(uint64_t grid, uint64_t cells, uint64_t index, uint64_t *low) {
    uint64_t quotient = grid / cells, remainder = grid % cells;
    *low = index * quotient + (index < remainder ? index : remainder);
    return quotient + (index < remainder ? 1 : 0);
}

static void plan_btio(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                      int ranks) {
    uint64_t grid = grid_of(options), cells = (uint64_t)square_root(ranks);
    uint64_t i = (uint64_t)rank % cells, j = (uint64_t)rank / cells;
    uint64_t longest = grid / cells + 1;
    (void)phase;
    plan->regions = allocate(cells * longest * longest, sizeof *plan->regions);
    for (uint64_t k = 0; k < cells; k++) {
        uint64_t low_x, low_y, low_z;
        uint64_t size_x = span_of(grid, cells, i, &low_x);
        uint64_t size_y = span_of(grid, cells, j, &low_y);
        uint64_t size_z = span_of(grid, cells, k, &low_z);
        for (uint64_t row = 0; row < size_z * size_y; row++) {
            uint64_t z = low_z + row / size_y, y = low_y + row % size_y;
            struct region *region = &plan->regions[plan->region_count++];
            region->offset = (int64_t)(POINT_BYTES * (low_x + grid * (y + grid * z)));
            region->bytes = (int64_t)(POINT_BYTES * size_x);
        }
        i = (i + 1) % cells;
        j = (j + cells - 1) % cells;
    }
    plan->regions_per_request = options->collective ? plan->region_count : 1;
    plan->requests_per_barrier = plan->region_count / plan->regions_per_request;
    plan->period_count = dumps_of(options);
    plan->period_bytes = (int64_t)(POINT_BYTES * grid * grid * grid);
    plan->file_bytes = plan->period_bytes * (int64_t)plan->period_count;
}

const struct pattern pattern_btio = {"btio",       MASK_BTIO,           "dumps of a cube in diagonal cells",
                                     active_ranks, phases_by_operation, plan_btio, RATE_MEAN_OF_RANKS};
