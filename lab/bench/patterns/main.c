/* The sequence of phases, and which ranks take part. */
#include "patterns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Repetitions of the pattern's phases. Each write phase writes the next generation, and reads expect the last. */
static uint64_t run_phases(const struct run *run) {
    const struct options *options = run->options;
    uint32_t phase_count = workload_phases(run->workload);
    struct measurement *measurement = allocate(1, sizeof *measurement);
    uint64_t generation = options->generation, errors = 0;
    bool written = false;
    for (uint64_t repetition = 0; repetition < options->repetitions; repetition++) {
        for (uint32_t number = 0; number < phase_count; number++) {
            struct workload_phase phase = workload_phase(run->workload, number);
            generation += phase.writes && written;
            written = written || phase.writes;
            memset(measurement, 0, sizeof *measurement);
            phase_run(run, number, &phase, generation, measurement);
            errors += report_phase(options, &phase, repetition, generation, measurement, run->communicator);
        }
    }
    free(measurement);
    return errors;
}

/* A flag that the ranks of one node share. */
static MPI_Win create_stop_flag(struct run *run) {
    MPI_Comm node;
    MPI_Win window;
    void *base;
    MPI_Aint bytes;
    int unit, node_rank;
    MPI_Comm_split_type(run->communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Win_allocate_shared(node_rank == 0 ? sizeof(atomic_int) : 0, sizeof(atomic_int), MPI_INFO_NULL, node, &base,
                            &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
    run->stop = base;
    MPI_Comm_free(&node);
    return window;
}

/* Every rank learns the result. Idle ranks sleep meanwhile, so that they take no processor from the others. */
static uint64_t share_result(uint64_t errors) {
    MPI_Request request;
    int done = 0;
    MPI_Ibcast(&errors, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        struct timespec pause = {.tv_nsec = 2000000};
        nanosleep(&pause, NULL);
    }
    return errors;
}

static uint64_t run_pattern(const struct options *options, const struct workload *workload, int world_rank,
                            int world_ranks) {
    int active_ranks = (int)workload_ranks(workload);
    bool active = world_rank < active_ranks;
    struct run run = {.options = options, .workload = workload, .rank = world_rank};
    MPI_Comm_split(MPI_COMM_WORLD, active ? 0 : MPI_UNDEFINED, world_rank, &run.communicator);
    if (!active) {
        return share_result(0);
    }
    MPI_Win window = MPI_WIN_NULL;
    if (options->stonewall) {
        window = create_stop_flag(&run);
    }
    if (world_rank == 0) {
        report_begin(options, world_ranks, active_ranks);
    }
    uint64_t errors = run_phases(&run);
    if (world_rank == 0) {
        report_end(options, errors);
    }
    if (window != MPI_WIN_NULL) {
        MPI_Win_free(&window);
    }
    MPI_Comm_free(&run.communicator);
    return share_result(errors);
}

int main(int argc, char **argv) {
    int rank, ranks, status = EXIT_SUCCESS;
    struct options options = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            if (rank == 0) {
                options_print_help();
            }
            MPI_Finalize();
            return EXIT_SUCCESS;
        }
    }
    const char *wrong = options_parse(&options, argc, argv);
    struct workload *workload = wrong ? NULL : options_workload(&options, ranks, &wrong);
    if (wrong != NULL) {
        if (rank == 0) {
            fprintf(stderr, "patterns: %s\n", wrong);
        }
        status = EXIT_USAGE;
    } else {
        status = run_pattern(&options, workload, rank, ranks) > 0 ? EXIT_DATA_WRONG : EXIT_SUCCESS;
        workload_free(workload);
    }
    MPI_Finalize();
    return status;
}
