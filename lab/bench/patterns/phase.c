/*
 * One timed pass: open, the request loop, sync, close. Filling and checking of buffers lie between the timed calls,
 * so they count in the seconds of the phase and not in the latencies.
 *
 * How long something took is a difference of CLOCK_MONOTONIC; when a phase began is told by the wall clock, the only
 * one that nodes share, as well as they keep it. MPI_Wtime may count from the start of each process.
 */
#include "patterns.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct access {
    const struct run *run;
    const struct workload_phase *phase;
    const struct plan *plan;
    struct measurement *measurement;
    char path[PATH_MAX];
    MPI_Comm communicator; /* which opens the file */
    MPI_File file;
    uint64_t generation, key;
    unsigned char *packed, *strided; /* strided is NULL when memory is contiguous */
    uint64_t strided_bytes;
    MPI_Datatype memory_type; /* of strided */
    int progress_percent;     /* last printed */
};

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

void *allocate(uint64_t count, uint64_t element_bytes) {
    void *memory = calloc(count ? count : 1, element_bytes);
    if (memory == NULL) {
        fprintf(stderr, "patterns: no memory for %llu times %llu bytes; use fewer or smaller requests\n",
                (unsigned long long)count, (unsigned long long)element_bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void require(const struct access *access, int code, const char *action, int64_t offset) {
    if (code == MPI_SUCCESS) {
        return;
    }
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "patterns: rank %d: %s: %s at offset %lld: %s\n", access->run->rank, access->path, action,
            (long long)offset, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_file(struct access *access, bool writes, MPI_Comm communicator) {
    int mode = writes ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
    require(access, MPI_File_open(communicator, access->path, mode, MPI_INFO_NULL, &access->file), "open", 0);
    require(access, MPI_File_set_errhandler(access->file, MPI_ERRORS_RETURN), "set error handler", 0);
}

/* Gives the file its final size before the timed interval. A file that is larger stays as it is. */
static void preallocate(struct access *access) {
    if (access->run->rank == 0 || access->plan->figures.has_own_file) {
        MPI_Offset size;
        open_file(access, true, MPI_COMM_SELF);
        require(access, MPI_File_get_size(access->file, &size), "get size", 0);
        if (size < (int64_t)access->plan->figures.file_bytes) {
            require(access, MPI_File_set_size(access->file, (int64_t)access->plan->figures.file_bytes), "set size",
                    (int64_t)access->plan->figures.file_bytes);
        }
        require(access, MPI_File_close(&access->file), "close", 0);
    }
}

/* The regions of one period as a file type whose extent is the period, to be displaced by the first region. */
static MPI_Datatype make_file_type(const struct plan *plan) {
    uint64_t count = plan->figures.region_count;
    struct workload_region first = workload_region(plan->requests, 0), last = first;
    int64_t stride = workload_region(plan->requests, 1).offset - first.offset;
    bool regular = true;
    for (uint64_t i = 1; i < count; i++) {
        struct workload_region region = workload_region(plan->requests, i);
        regular = regular && region.bytes == first.bytes && region.offset - last.offset == stride;
        last = region;
    }
    MPI_Datatype bare, repeated;
    if (regular) {
        MPI_Type_create_hvector((int)count, (int)first.bytes, stride, MPI_BYTE, &bare);
    } else {
        int *lengths = allocate(count, sizeof *lengths);
        MPI_Aint *displacements = allocate(count, sizeof *displacements);
        for (uint64_t i = 0; i < count; i++) {
            struct workload_region region = workload_region(plan->requests, i);
            lengths[i] = (int)region.bytes;
            displacements[i] = region.offset - first.offset;
        }
        MPI_Type_create_hindexed((int)count, lengths, displacements, MPI_BYTE, &bare);
        free(lengths);
        free(displacements);
    }
    MPI_Type_create_resized(bare, 0, (MPI_Aint)plan->figures.period_bytes, &repeated);
    MPI_Type_commit(&repeated);
    MPI_Type_free(&bare);
    return repeated;
}

static void set_view(struct access *access) {
    MPI_Datatype file_type = make_file_type(access->plan);
    int64_t first = workload_region(access->plan->requests, 0).offset;
    require(access, MPI_File_set_view(access->file, first, MPI_BYTE, file_type, "native", MPI_INFO_NULL), "set view",
            first);
    MPI_Type_free(&file_type);
}

static void allocate_buffers(struct access *access) {
    const struct plan *plan = access->plan;
    uint64_t bytes = workload_request_bytes_max(access->run->workload);
    access->packed = allocate(bytes, 1);
    if (plan->memory_piece_bytes > 0) {
        uint64_t pieces = bytes / plan->memory_piece_bytes;
        access->strided_bytes = pieces * plan->memory_stride;
        access->strided = allocate(access->strided_bytes, 1);
        MPI_Type_create_hvector((int)pieces, (int)plan->memory_piece_bytes, (MPI_Aint)plan->memory_stride, MPI_BYTE,
                                &access->memory_type);
        MPI_Type_commit(&access->memory_type);
    }
}

/* Copies between the packed and the strided buffer. */
static void convert_memory(struct access *access, uint64_t bytes, bool to_strided) {
    uint64_t piece = access->plan->memory_piece_bytes;
    for (uint64_t i = 0; access->strided != NULL && i < bytes / piece; i++) {
        unsigned char *strided = access->strided + i * access->plan->memory_stride;
        unsigned char *packed = access->packed + i * piece;
        memcpy(to_strided ? strided : packed, to_strided ? packed : strided, piece);
    }
}

struct request {
    uint64_t first_region;
    int64_t call_offset; /* in the view when there is one */
    uint64_t bytes;
};

static struct request request_at(const struct plan *plan, uint64_t index) {
    uint64_t regions = plan->figures.regions_per_request;
    struct request request = {.first_region = index * regions};
    for (uint64_t i = 0; i < regions; i++) {
        request.bytes += (uint64_t)workload_region(plan->requests, request.first_region + i).bytes;
    }
    request.call_offset = regions > 1 ? (int64_t)(index * request.bytes)
                                      : workload_region(plan->requests, request.first_region).offset;
    return request;
}

static void fill(struct access *access, const struct request *request) {
    unsigned char *next = access->packed;
    for (uint64_t i = 0; i < access->plan->figures.regions_per_request; i++) {
        struct workload_region region = workload_region(access->plan->requests, request->first_region + i);
        content_fill(next, region.offset, (size_t)region.bytes, access->key);
        next += region.bytes;
    }
    convert_memory(access, request->bytes, true);
}

/* Makes sure that a read that leaves the buffer alone is noticed. */
static void poison(struct access *access, uint64_t bytes) {
    memset(access->packed, 0xa5, bytes);
    if (access->strided != NULL) {
        memset(access->strided, 0xa5, access->strided_bytes);
    }
}

static void check(struct access *access, const struct request *request) {
    convert_memory(access, request->bytes, false);
    const unsigned char *next = access->packed;
    for (uint64_t i = 0; i < access->plan->figures.regions_per_request; i++) {
        struct workload_region region = workload_region(access->plan->requests, request->first_region + i);
        size_t first = 0;
        size_t wrong = content_count_wrong(next, region.offset, (size_t)region.bytes, access->key, &first);
        if (wrong > 0 && access->measurement->errors == 0) {
            int64_t where = region.offset + (int64_t)first;
            fprintf(stderr,
                    "patterns: rank %d: %s: %s: offset %lld: expected 0x%02x of generation %llu, found 0x%02x\n",
                    access->run->rank, access->path, access->phase->name, (long long)where,
                    content_byte(where, access->key), (unsigned long long)access->generation, next[first]);
        }
        access->measurement->errors += wrong;
        next += region.bytes;
    }
}

/* The data call itself. A request of NULL takes part in a collective call without data. */
static uint64_t call(struct access *access, const struct request *request) {
    MPI_Offset offset = request ? request->call_offset : 0;
    void *buffer = access->packed;
    int count = request ? (int)request->bytes : 0;
    MPI_Datatype type = MPI_BYTE;
    if (request != NULL && access->strided != NULL) {
        buffer = access->strided;
        count = 1;
        type = access->memory_type;
    }
    bool collective = access->run->options->workload.collective;
    MPI_Status status;
    int code;
    uint64_t start = now_ns();
    if (access->phase->writes) {
        code = collective ? MPI_File_write_at_all(access->file, offset, buffer, count, type, &status)
                          : MPI_File_write_at(access->file, offset, buffer, count, type, &status);
    } else {
        code = collective ? MPI_File_read_at_all(access->file, offset, buffer, count, type, &status)
                          : MPI_File_read_at(access->file, offset, buffer, count, type, &status);
    }
    uint64_t elapsed = now_ns() - start;
    require(access, code, access->phase->writes ? "write" : "read", offset);
    int moved = 0;
    MPI_Get_elements(&status, MPI_BYTE, &moved);
    if (request != NULL && (uint64_t)moved != request->bytes) {
        if (access->measurement->errors == 0) {
            fprintf(stderr, "patterns: rank %d: %s: %s: offset %lld: moved %d of %llu bytes\n", access->run->rank,
                    access->path, access->phase->name, (long long)offset, moved,
                    (unsigned long long)request->bytes);
        }
        access->measurement->errors += request->bytes - (uint64_t)moved;
    }
    return elapsed;
}

static uint64_t transfer(struct access *access, const struct request *request) {
    const struct options *options = access->run->options;
    if (access->phase->writes) {
        fill(access, request);
        return call(access, request);
    }
    if (!options->verify) {
        return call(access, request);
    }
    poison(access, request->bytes);
    uint64_t errors_before = access->measurement->errors;
    uint64_t elapsed = call(access, request);
    if (access->measurement->errors == errors_before) { /* a short read is counted already */
        check(access, request);
    }
    return elapsed;
}

static void compute(uint64_t microseconds) {
    uint64_t end = now_ns() + microseconds * 1000;
    while (microseconds > 0 && now_ns() < end) {
    }
}

static void show_progress(struct access *access, uint64_t done, uint64_t count) {
    int percent = (int)((double)done * 100 / (double)count);
    if (percent == access->progress_percent) {
        return;
    }
    access->progress_percent = percent;
    fprintf(stderr, "\r%s %3d %%%s", access->phase->name, percent, done == count ? "\n" : "");
}

/*
 * Returns when the clock of this rank stopped, or 0 when it was not stopped early. A rank that is stopped while
 * writing completes its file, unmeasured, so that later phases find whole files.
 */
static uint64_t request_loop(struct access *access, uint64_t own_count, uint64_t call_count) {
    const struct options *options = access->run->options;
    uint64_t group = access->plan->figures.requests_per_barrier;
    bool progress = options->progress && access->run->rank == 0 && isatty(STDERR_FILENO);
    uint64_t stopped_ns = 0;
    for (uint64_t i = 0; i < call_count; i++) {
        if (access->run->stop != NULL && stopped_ns == 0 && atomic_load(access->run->stop)) {
            stopped_ns = now_ns();
            if (!access->phase->writes) {
                break;
            }
        }
        if (i > 0 && (group == 0 || i % group == 0)) {
            compute(options->think_us);
        }
        if (group > 0 && i % group == 0) {
            MPI_Barrier(access->run->communicator);
        }
        if (i >= own_count) {
            access->measurement->call_ns += call(access, NULL);
            continue;
        }
        struct request request = request_at(access->plan, i);
        uint64_t elapsed = transfer(access, &request);
        if (stopped_ns == 0) {
            measurement_add_call(access->measurement, request.bytes, elapsed);
        }
        if (progress) {
            show_progress(access, i + 1, own_count);
        }
    }
    if (access->run->stop != NULL) {
        atomic_store(access->run->stop, 1);
    }
    return stopped_ns;
}

/* The windows of a plan, one after another, each for its time. */
static void windowed_loop(struct access *access) {
    const struct plan *plan = access->plan;
    uint64_t windows = plan->figures.window_count, part = plan->figures.region_count / windows;
    uint64_t begin_ns = now_ns(), last = UINT64_MAX, made = 0;
    for (;;) {
        uint64_t window = (now_ns() - begin_ns) / plan->window_ns;
        if (window >= windows) {
            return;
        }
        made = window == last ? made + 1 : 0;
        last = window;
        struct request request = request_at(plan, window * part + made % part);
        uint64_t elapsed = transfer(access, &request);
        measurement_add_call(access->measurement, request.bytes, elapsed);
        access->measurement->windows[window]++;
    }
}

static void timed_part(struct access *access) {
    const struct plan *plan = access->plan;
    struct measurement *measurement = access->measurement;
    uint64_t own_count = plan->figures.requests, call_count = own_count;
    if (access->run->options->workload.collective) {
        MPI_Allreduce(&own_count, &call_count, 1, MPI_UINT64_T, MPI_MAX, access->communicator);
    }
    if (access->run->stop != NULL) {
        MPI_Barrier(access->run->communicator);
        atomic_store(access->run->stop, 0);
    }
    MPI_Barrier(access->run->communicator);

    uint64_t start_ns = now_ns();
    measurement->start_ns = clock_ns(CLOCK_REALTIME);
    open_file(access, access->phase->writes, access->communicator);
    if (plan->figures.regions_per_request > 1) {
        set_view(access);
    }
    if (plan->figures.barrier_around_requests) {
        MPI_Barrier(access->run->communicator);
    }
    uint64_t loop_start_ns = now_ns();
    uint64_t stopped_ns = 0;
    if (plan->figures.window_count > 0) {
        windowed_loop(access);
    } else {
        stopped_ns = request_loop(access, own_count, call_count);
    }
    measurement->loop_ns = (stopped_ns ? stopped_ns : now_ns()) - loop_start_ns;
    if (access->run->options->sync && access->phase->writes) {
        require(access, MPI_File_sync(access->file), "sync", 0);
    }
    if (plan->figures.barrier_around_requests) {
        MPI_Barrier(access->run->communicator);
    }
    require(access, MPI_File_close(&access->file), "close", 0);
    measurement->end_ns = measurement->start_ns + (stopped_ns ? stopped_ns : now_ns()) - start_ns;
    MPI_Barrier(access->run->communicator);
}

static struct plan make_plan(const struct run *run, uint32_t number) {
    const struct options *options = run->options;
    const struct workload_description *described = &options->workload;
    struct plan plan = {.window_ns = (uint64_t)(options->shift_seconds * 1e9)};
    plan.requests = workload_requests(run->workload, number, (uint32_t)run->rank, &plan.figures);
    plan.own_communicator = described->kind == WORKLOAD_MPI_IO_TEST && !described->collective;
    bool memory_strided = described->shape == WORKLOAD_NC_C || described->shape == WORKLOAD_NC_NC;
    if (described->kind == WORKLOAD_HPIO && memory_strided && !described->individual) {
        plan.memory_piece_bytes = described->region_size;
        plan.memory_stride = described->region_size + described->region_spacing;
    }
    return plan;
}

void phase_run(const struct run *run, uint32_t number, const struct workload_phase *phase, uint64_t generation,
               struct measurement *measurement) {
    struct plan plan = make_plan(run, number);
    int file = (int)plan.figures.file;
    struct access access = {.run = run,
                            .phase = phase,
                            .plan = &plan,
                            .measurement = measurement,
                            .communicator = run->communicator,
                            .generation = generation,
                            .key = content_key(generation, file),
                            .progress_percent = -1};
    if (plan.figures.has_own_file || plan.own_communicator) {
        access.communicator = MPI_COMM_SELF;
    }
    if (plan.figures.has_own_file) {
        snprintf(access.path, sizeof access.path, "%s.%08d", run->options->file, file);
    } else {
        snprintf(access.path, sizeof access.path, "%s", run->options->file);
    }
    allocate_buffers(&access);
    if (run->options->prealloc && phase->writes) {
        preallocate(&access);
    }
    timed_part(&access);
    if (access.strided != NULL) {
        MPI_Type_free(&access.memory_type);
    }
    free(access.strided);
    free(access.packed);
    workload_requests_free(plan.requests);
}
