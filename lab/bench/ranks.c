/*
 * ranks: processes that write or read one file at the same time, and what their requests take.
 *
 *   ranks --file FILE --op write|read|check [--ranks 16] [--size 4096] [--count 1000] [--generation 1]
 *         [--order scattered|ascending] [--prealloc]
 *
 * Each rank has a part of the file of its own, of --count requests of --size bytes, and makes each request once. All
 * begin together, after their opens; every word of what they write tells its offset and the generation. --op check
 * reads everything and compares. --prealloc gives the file its final size before the ranks begin.
 *
 * The result is one JSON object; seconds are those from the first request's begin to the last one's end. Exit status
 * 1: an I/O error, or wrong bytes. Exit status 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 1024, EXIT_IO = 1, EXIT_USAGE = 2 };

enum operation { OPERATION_WRITE, OPERATION_READ, OPERATION_CHECK, OPERATION_COUNT };

static const char *const OPERATIONS[OPERATION_COUNT] = {"write", "read", "check"};

struct settings {
    const char *file;
    uint64_t ranks, size, count, generation;
    enum operation operation;
    bool ascending, prealloc;
};

struct span {
    uint64_t begin_ns, end_ns;
};

/* What the ranks share. */
struct run {
    struct settings settings;
    atomic_uint ready;
    struct span spans[RANKS_MAX];
    uint64_t samples[];
};

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const struct settings *settings, const char *action, uint64_t offset, const char *why) {
    fprintf(stderr, "ranks: %s: %s at offset %llu: %s\n", settings->file, action, (unsigned long long)offset, why);
    _exit(EXIT_IO);
}

static void usage(const char *text, const char *argument) {
    fprintf(stderr,
            "ranks: %s '%s'\nusage: ranks --file FILE --op write|read|check [--ranks N] [--size BYTES] [--count N]\n"
            "             [--generation N] [--order scattered|ascending] [--prealloc]\n",
            text, argument);
    exit(EXIT_USAGE);
}

static uint64_t parse_number(const char *name, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
        usage(name, text);
    }
    return value;
}

static enum operation parse_operation(const char *text) {
    for (int i = 0; i < OPERATION_COUNT; i++) {
        if (strcmp(text, OPERATIONS[i]) == 0) {
            return i;
        }
    }
    usage("--op takes write, read or check, not", text);
    return OPERATION_COUNT;
}

static void parse_option(struct settings *settings, const char *name, const char *value) {
    if (strcmp(name, "--file") == 0) {
        settings->file = value;
    } else if (strcmp(name, "--op") == 0) {
        settings->operation = parse_operation(value);
    } else if (strcmp(name, "--ranks") == 0) {
        settings->ranks = parse_number("--ranks takes a number, not", value);
    } else if (strcmp(name, "--size") == 0) {
        settings->size = parse_number("--size takes bytes, not", value);
    } else if (strcmp(name, "--count") == 0) {
        settings->count = parse_number("--count takes a number, not", value);
    } else if (strcmp(name, "--generation") == 0) {
        settings->generation = parse_number("--generation takes a number, not", value);
    } else if (strcmp(name, "--order") == 0 && (strcmp(value, "ascending") == 0 || strcmp(value, "scattered") == 0)) {
        settings->ascending = *value == 'a';
    } else {
        usage("unknown option or value:", name);
    }
}

static struct settings parse(int argc, char **argv) {
    struct settings settings = {
        .ranks = 16, .size = 4096, .count = 1000, .generation = 1, .operation = OPERATION_COUNT};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--prealloc") == 0) {
            settings.prealloc = true;
        } else if (i + 1 < argc) {
            parse_option(&settings, argv[i], argv[i + 1]);
            i++;
        } else {
            usage("unknown option or missing value:", argv[i]);
        }
    }
    if (settings.file == NULL || settings.operation == OPERATION_COUNT) {
        usage("give", "--file and --op");
    } else if (settings.size == 0 || settings.size % sizeof(uint64_t) != 0 || settings.count == 0) {
        usage("--count must be above 0, and --size a multiple of", "8");
    } else if (settings.ranks == 0 || settings.ranks > RANKS_MAX) {
        usage("--ranks must be from 1 to", "1024");
    }
    return settings;
}

/* The request that a rank makes as its i-th: a prime above the count makes a permutation. */
static uint64_t offset_of(const struct settings *settings, uint64_t rank, uint64_t i) {
    uint64_t block = settings->ascending ? i : i * 2654435761u % settings->count;
    return (rank * settings->count + block) * settings->size;
}

static uint64_t first_word(const struct settings *settings, uint64_t offset) {
    return (offset + (settings->generation << 48)) * 0x9e3779b97f4a7c15u;
}

static void fill(const struct settings *settings, uint64_t *words, uint64_t offset) {
    uint64_t first = first_word(settings, offset);
    for (uint64_t i = 0; i < settings->size / sizeof *words; i++) {
        words[i] = first + i;
    }
}

static void check(const struct settings *settings, const uint64_t *words, uint64_t offset) {
    uint64_t first = first_word(settings, offset);
    for (uint64_t i = 0; i < settings->size / sizeof *words; i++) {
        if (words[i] != first + i) {
            fail(settings, "check", offset + i * sizeof *words, "wrong bytes");
        }
    }
}

static uint64_t request(const struct settings *settings, int descriptor, uint64_t *words, uint64_t offset) {
    bool writes = settings->operation == OPERATION_WRITE;
    if (writes) {
        fill(settings, words, offset);
    }
    errno = 0;
    uint64_t begin = now_ns();
    ssize_t moved = writes ? pwrite(descriptor, words, settings->size, (off_t)offset)
                           : pread(descriptor, words, settings->size, (off_t)offset);
    uint64_t taken = now_ns() - begin;
    if (moved != (ssize_t)settings->size) {
        fail(settings, OPERATIONS[settings->operation], offset, errno ? strerror(errno) : "fewer bytes than asked for");
    }
    if (settings->operation == OPERATION_CHECK) {
        check(settings, words, offset);
    }
    return taken;
}

static void run_rank(struct run *run, uint64_t rank) {
    const struct settings *settings = &run->settings;
    uint64_t *words;
    int descriptor = open(settings->file, settings->operation == OPERATION_WRITE ? O_RDWR | O_CREAT : O_RDONLY, 0644);
    if (descriptor < 0 || posix_memalign((void **)&words, 4096, settings->size) != 0) {
        fail(settings, "open", 0, strerror(errno));
    }
    atomic_fetch_add(&run->ready, 1);
    while (atomic_load(&run->ready) < settings->ranks) {
        sched_yield();
    }
    run->spans[rank].begin_ns = now_ns();
    for (uint64_t i = 0; i < settings->count; i++) {
        run->samples[rank * settings->count + i] = request(settings, descriptor, words, offset_of(settings, rank, i));
    }
    run->spans[rank].end_ns = now_ns();
    if (close(descriptor) != 0) {
        fail(settings, "close", 0, strerror(errno));
    }
    free(words);
}

static void preallocate(const struct settings *settings) {
    int descriptor = open(settings->file, O_RDWR | O_CREAT, 0644);
    uint64_t bytes = settings->ranks * settings->count * settings->size;
    if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0 || close(descriptor) != 0) {
        fail(settings, "preallocate", bytes, strerror(errno));
    }
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void report(struct run *run) {
    const struct settings *settings = &run->settings;
    uint64_t requests = settings->ranks * settings->count, *samples = run->samples;
    struct span whole = run->spans[0];
    for (uint64_t rank = 1; rank < settings->ranks; rank++) {
        struct span span = run->spans[rank];
        whole.begin_ns = span.begin_ns < whole.begin_ns ? span.begin_ns : whole.begin_ns;
        whole.end_ns = span.end_ns > whole.end_ns ? span.end_ns : whole.end_ns;
    }
    qsort(samples, requests, sizeof *samples, compare);
    double seconds = (double)(whole.end_ns - whole.begin_ns) / 1e9;
    printf("{\"op\":\"%s\",\"ranks\":%llu,\"requests\":%llu,\"seconds\":%.6f,\"per_s\":%.0f,\"p50_ns\":%llu,"
           "\"p99_ns\":%llu,\"max_ns\":%llu}\n",
           OPERATIONS[settings->operation], (unsigned long long)settings->ranks, (unsigned long long)requests, seconds,
           (double)requests / seconds, (unsigned long long)samples[requests / 2],
           (unsigned long long)samples[requests * 99 / 100], (unsigned long long)samples[requests - 1]);
}

int main(int argc, char **argv) {
    struct settings settings = parse(argc, argv);
    uint64_t bytes = sizeof(struct run) + settings.ranks * settings.count * sizeof(uint64_t);
    struct run *run = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (run == MAP_FAILED) {
        usage("no memory for so many samples; lower", "--count");
    }
    run->settings = settings;
    if (settings.prealloc) {
        preallocate(&settings);
    }
    for (uint64_t rank = 0; rank < settings.ranks; rank++) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(run, rank);
            _exit(EXIT_SUCCESS);
        } else if (child < 0) {
            fail(&settings, "fork", 0, strerror(errno));
        }
    }
    for (uint64_t rank = 0; rank < settings.ranks; rank++) {
        int status;
        if (wait(&status) < 0 || status != 0) {
            return EXIT_IO; /* the others, which may wait for it at their begin, end with this process */
        }
    }
    report(run);
    return EXIT_SUCCESS;
}
