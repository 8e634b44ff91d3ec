/*
 * mpi-tile-io. A dense two-dimensional dataset of elements, cut into nx * ny tiles of sx * sy elements that may
 * overlap their neighbours. Rank r has the tile in column r mod nx and row r div nx, and moves it in one call through
 * a file view, or row by row with --individual. Ranks beyond nx * ny idle.
 *
 *   width  = nx * sx - (nx - 1) * overlap_x                               (elements)
 *   offset = header + element * ((tile_y * (sy - overlap_y) + row) * width + tile_x * (sx - overlap_x))
 */
#include "patterns.h"

static uint64_t extent(uint64_t tiles, uint64_t size, uint64_t overlap) {
    return product(tiles, size) - (tiles - 1) * overlap;
}

static int active_ranks(const struct options *options, int ranks, const char **wrong) {
    const struct options *o = options;
    if (o->nx == 0 || o->ny == 0 || o->sx == 0 || o->sy == 0 || o->element == 0) {
        *wrong = problem("--nx, --ny, --sx, --sy and --element must be above 0");
        return 0;
    }
    if (o->overlap_x >= o->sx || o->overlap_y >= o->sy) {
        *wrong = problem("--overlap-x must be below --sx, and --overlap-y below --sy");
        return 0;
    }
    uint64_t tiles = product(o->nx, o->ny);
    if (tiles > (uint64_t)ranks) {
        *wrong = problem("%llu tiles need as many ranks, there are %d; start more or lower --nx or --ny",
                         (unsigned long long)tiles, ranks);
        return 0;
    }
    uint64_t row_bytes = product(o->sx, o->element);
    uint64_t tile_bytes = product(row_bytes, o->sy);
    uint64_t file_bytes = product(tile_bytes, tiles);
    *wrong = o->header > INT64_MAX / 4 ? problem("lower --header")
                                       : size_problem(o->individual ? row_bytes : tile_bytes, file_bytes);
    return (int)tiles;
}

static void plan_tile(struct plan *plan, const struct options *options, const struct phase *phase, int rank,
                      int ranks) {
    const struct options *o = options;
    (void)phase;
    (void)ranks;
    uint64_t width = extent(o->nx, o->sx, o->overlap_x);
    uint64_t height = extent(o->ny, o->sy, o->overlap_y);
    uint64_t first_x = ((uint64_t)rank % o->nx) * (o->sx - o->overlap_x);
    uint64_t first_y = ((uint64_t)rank / o->nx) * (o->sy - o->overlap_y);
    plan->regions = allocate(o->sy, sizeof *plan->regions);
    for (uint64_t row = 0; row < o->sy; row++) {
        plan->regions[row].offset = (int64_t)(o->header + o->element * ((first_y + row) * width + first_x));
        plan->regions[row].bytes = (int64_t)(o->element * o->sx);
    }
    plan->region_count = o->sy;
    plan->regions_per_request = o->individual ? 1 : o->sy;
    plan->period_count = 1;
    plan->file_bytes = (int64_t)(o->header + o->element * width * height);
    plan->period_bytes = plan->file_bytes;
    plan->barrier_around_requests = true;
}

const struct pattern pattern_tile = {"tile",       MASK_TILE,           "tiles of a dense two-dimensional dataset",
                                     active_ranks, phases_by_operation, plan_tile, RATE_SLOWEST_CALLS};
