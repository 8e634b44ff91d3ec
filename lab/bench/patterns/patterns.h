/*
 * patterns: the access patterns of well-known parallel I/O benchmarks, in one MPI-IO program.
 *
 * Which bytes each rank asks for is computed in lab/workload, which simulations ask as well (workload.h). Here is
 * what is MPI's: every pattern comes down to requests for one or many regions, and one engine makes them, so that all
 * patterns share the same opening, timing, checking and reporting. The program uses MPI-IO only and knows nothing of
 * what lies below it.
 *
 *   main.c      the sequence of phases
 *   options.c   the option table, help and number parsing
 *   workload.h  patterns, phases and requests
 *   phase.c     the engine: open, request loop, close
 *   content.c   what the bytes of a file are
 *   report.c    latency histogram, reduction over ranks, text and JSON
 */
#ifndef PATTERNS_H
#define PATTERNS_H

#include "workload.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_DATA_WRONG = 1, EXIT_USAGE = 2 };

struct pattern {
    const char *name;
    enum workload_kind kind;
    const char *summary;
};

enum { TEXT_BYTES = 512 };

struct options {
    const struct pattern *pattern;
    const char *file;
    struct workload_description workload;

    bool verify, keep, prealloc, json, sync, progress;
    uint64_t generation, think_us, repetitions;

    double shift_seconds; /* ior: how long each window lasts */
    uint64_t shift_windows;
    bool stonewall; /* iozone */
};

/* What this rank does in a phase, and how it opens and lays out its memory for that. */
struct plan {
    struct workload_plan figures;
    struct workload_requests *requests;
    uint64_t window_ns;
    uint64_t memory_piece_bytes, memory_stride; /* a strided buffer in memory; 0 = contiguous */
    bool own_communicator;                      /* the shared file is opened by every rank for itself */
};

/* options.c: returns NULL, or what is wrong and what to do about it. Static storage. */
const char *options_parse(struct options *options, int argc, char **argv);
void options_print_help(void);
const char *problem(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The workload of so many ranks, or NULL with *wrong set to what the user should change. */
struct workload *options_workload(struct options *options, int ranks, const char **wrong);

/* content.c */
uint64_t content_key(uint64_t generation, int file_index);
void content_fill(void *buffer, int64_t offset, size_t bytes, uint64_t key);
/* Number of wrong bytes; *first is the index of the first of them. */
size_t content_count_wrong(const void *buffer, int64_t offset, size_t bytes, uint64_t key, size_t *first);
unsigned char content_byte(int64_t offset, uint64_t key);

/* report.c */
enum { WINDOW_COUNT_MAX = 16 };

enum { HISTOGRAM_SUB_BITS = 6, HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS };

struct measurement {
    uint64_t bytes, requests, errors;
    uint64_t start_ns, end_ns; /* before open, after close; by the wall clock */
    uint64_t loop_ns;          /* the request loop of this rank */
    uint64_t call_ns;          /* sum over the data calls of this rank */
    uint64_t windows[WINDOW_COUNT_MAX]; /* requests that began in each */
    uint64_t histogram[HISTOGRAM_BUCKETS];
};

void measurement_add_call(struct measurement *measurement, uint64_t bytes, uint64_t call_ns);
void report_begin(const struct options *options, int ranks, int active_ranks);
/* Collective over communicator; rank 0 prints. Returns the errors of all ranks, on rank 0 only. */
uint64_t report_phase(const struct options *options, const struct workload_phase *phase, uint64_t repetition,
                      uint64_t generation, struct measurement *measurement, MPI_Comm communicator);
void report_end(const struct options *options, uint64_t errors);

/* phase.c */
struct run {
    const struct options *options;
    const struct workload *workload;
    MPI_Comm communicator; /* the ranks that take part */
    int rank;              /* within communicator */
    atomic_int *stop;      /* shared by the ranks of a node; NULL without stonewall */
};

/* Phase number `number` of the workload. */
void phase_run(const struct run *run, uint32_t number, const struct workload_phase *phase, uint64_t generation,
               struct measurement *measurement);
uint64_t now_ns(void);
void *allocate(uint64_t count, uint64_t element_bytes);

#endif
