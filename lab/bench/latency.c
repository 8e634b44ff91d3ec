/*
 * latency: what one pread or pwrite, or one open and close, costs the calling thread.
 *
 *   latency --file FILE [--size 4096] [--count 10000] [--pause-us 0] [--op pread|pwrite|open] [--span BYTES] [--fill]
 *
 * Offsets are random multiples of the size within the span (the size of the file by default). Two passes over the
 * same offsets: one times every call, the other times batches of 64 calls, for calls so short that reading the clock
 * would show. A pause of --pause-us sleeps before every call of the first pass and before every batch of the second,
 * outside the timed part. --fill writes the span first. Times come from clock_gettime(CLOCK_MONOTONIC); clock_ns is
 * what reading it costs, and is contained in every per-call figure.
 *
 * The result is one JSON object. Exit status 1: an I/O error. Exit status 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_CALLS = 64, FILL_BYTES = 1 << 20, EXIT_IO = 1, EXIT_USAGE = 2 };

enum operation { OPERATION_PREAD, OPERATION_PWRITE, OPERATION_OPEN, OPERATION_COUNT };

static const char *const OPERATIONS[OPERATION_COUNT] = {"pread", "pwrite", "open"};

struct settings {
    const char *file;
    uint64_t size, count, pause_us, span;
    enum operation operation;
    bool fill;
};

struct target {
    const struct settings *settings;
    int descriptor;
    char *buffer;
    uint64_t random_state;
};

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char *action, const char *file, uint64_t offset) {
    fprintf(stderr, "latency: %s: %s at offset %llu: %s\n", file, action, (unsigned long long)offset,
            errno ? strerror(errno) : "fewer bytes than asked for; lower --span or give --fill");
    exit(EXIT_IO);
}

static void usage(const char *text, const char *argument) {
    fprintf(stderr,
            "latency: %s '%s'\nusage: latency --file FILE [--size BYTES] [--count N] [--pause-us N]\n"
            "               [--op pread|pwrite|open] [--span BYTES] [--fill]    (BYTES may end in k, M or G)\n",
            text, argument);
    exit(EXIT_USAGE);
}

static uint64_t parse_number(const char *name, const char *text) {
    static const struct {
        const char *suffix;
        unsigned shift;
    } SUFFIXES[] = {{"", 0}, {"k", 10}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    char *end;
    if (*text >= '0' && *text <= '9') {
        unsigned long long value = strtoull(text, &end, 10);
        for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++) {
            if (strcmp(end, SUFFIXES[i].suffix) == 0 && value <= (uint64_t)INT64_MAX >> SUFFIXES[i].shift) {
                return (uint64_t)value << SUFFIXES[i].shift;
            }
        }
    }
    usage(name, text);
    return 0;
}

static bool parse_operation(const char *text, enum operation *operation) {
    for (int i = 0; i < OPERATION_COUNT; i++) {
        if (strcmp(text, OPERATIONS[i]) == 0) {
            *operation = i;
            return true;
        }
    }
    return false;
}

static struct settings parse(int argc, char **argv) {
    struct settings settings = {.size = 4096, .count = 10000};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--fill") == 0) {
            settings.fill = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL) {
            usage("unknown option or missing value:", name);
        } else if (strcmp(name, "--file") == 0) {
            settings.file = value;
        } else if (strcmp(name, "--size") == 0) {
            settings.size = parse_number("--size takes bytes, not", value);
        } else if (strcmp(name, "--count") == 0) {
            settings.count = parse_number("--count takes a number, not", value);
        } else if (strcmp(name, "--pause-us") == 0) {
            settings.pause_us = parse_number("--pause-us takes a number, not", value);
        } else if (strcmp(name, "--span") == 0) {
            settings.span = parse_number("--span takes bytes, not", value);
        } else if (strcmp(name, "--op") != 0 || !parse_operation(value, &settings.operation)) {
            usage("unknown option or value:", name);
        }
    }
    if (settings.file == NULL) {
        usage("give", "--file");
    } else if (settings.size == 0 || settings.count < BATCH_CALLS) {
        usage("--size must be above 0, and --count at least", "64");
    }
    return settings;
}

/* splitmix64 */
static uint64_t random_offset(struct target *target) {
    uint64_t mixed = (target->random_state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return mixed % (target->settings->span / target->settings->size) * target->settings->size;
}

static inline void call(struct target *target, uint64_t offset) {
    const struct settings *settings = target->settings;
    ssize_t moved = -1;
    errno = 0;
    switch (settings->operation) {
    case OPERATION_PREAD:
        moved = pread(target->descriptor, target->buffer, settings->size, (off_t)offset);
        break;
    case OPERATION_PWRITE:
        moved = pwrite(target->descriptor, target->buffer, settings->size, (off_t)offset);
        break;
    default: {
        int descriptor = open(settings->file, O_RDWR | O_CLOEXEC);
        moved = descriptor >= 0 && close(descriptor) == 0 ? (ssize_t)settings->size : -1;
    }
    }
    if (moved != (ssize_t)settings->size) {
        fail(OPERATIONS[settings->operation], settings->file, offset);
    }
}

static void fill(int descriptor, const struct settings *settings) {
    static char block[FILL_BYTES];
    memset(block, 0x5a, sizeof block);
    for (uint64_t offset = 0; offset < settings->span;) {
        uint64_t left = settings->span - offset;
        errno = 0;
        ssize_t moved = pwrite(descriptor, block, left < FILL_BYTES ? left : FILL_BYTES, (off_t)offset);
        if (moved <= 0) {
            fail("fill", settings->file, offset);
        }
        offset += (uint64_t)moved;
    }
}

static void rest(uint64_t microseconds) {
    struct timespec pause = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    if (microseconds > 0) {
        nanosleep(&pause, NULL);
    }
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Times of single calls, ascending. */
static void time_calls(struct target *target, uint64_t *samples, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = random_offset(target);
        rest(target->settings->pause_us);
        uint64_t start = now_ns();
        call(target, offset);
        samples[i] = now_ns() - start;
    }
    qsort(samples, count, sizeof *samples, compare);
}

/* Times of whole batches, ascending. */
static void time_batches(struct target *target, uint64_t *samples, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offsets[BATCH_CALLS];
        for (int j = 0; j < BATCH_CALLS; j++) {
            offsets[j] = random_offset(target);
        }
        rest(target->settings->pause_us);
        uint64_t start = now_ns();
        for (int j = 0; j < BATCH_CALLS; j++) {
            call(target, offsets[j]);
        }
        samples[i] = now_ns() - start;
    }
    qsort(samples, count, sizeof *samples, compare);
}

static double clock_ns(void) {
    enum { READINGS = 100000 };
    uint64_t start = now_ns();
    for (int i = 0; i < READINGS; i++) {
        now_ns();
    }
    return (double)(now_ns() - start) / READINGS;
}

static void open_target(struct target *target, struct settings *settings) {
    struct stat status;
    errno = 0;
    target->settings = settings;
    target->descriptor = open(settings->file, O_RDWR | O_CLOEXEC | (settings->fill ? O_CREAT : 0), 0644);
    if (target->descriptor < 0 || fstat(target->descriptor, &status) != 0) {
        fail("open", settings->file, 0);
    }
    if (settings->span == 0) {
        settings->span = (uint64_t)status.st_size;
    }
    if (settings->span < settings->size) {
        usage("the span is smaller than --size; give --span, and --fill for a new file:", settings->file);
    }
    if (settings->fill) {
        fill(target->descriptor, settings);
    }
    if (posix_memalign((void **)&target->buffer, 4096, settings->size) != 0) {
        usage("no memory for a buffer of --size; lower it", "");
    }
    memset(target->buffer, 0x5a, settings->size);
}

int main(int argc, char **argv) {
    struct settings settings = parse(argc, argv);
    struct target target = {.descriptor = -1};
    open_target(&target, &settings);
    uint64_t batches = settings.count / BATCH_CALLS, sum = 0;
    uint64_t *samples = calloc(settings.count, sizeof *samples);
    if (samples == NULL) {
        usage("no memory for so many samples; lower", "--count");
    }
    time_calls(&target, samples, settings.count);
    for (uint64_t i = 0; i < settings.count; i++) {
        sum += samples[i];
    }
    printf("{\"op\":\"%s\",\"size\":%llu,\"count\":%llu,\"pause_us\":%llu,\"mean_ns\":%.1f,\"min_ns\":%llu,"
           "\"p50_ns\":%llu,\"p99_ns\":%llu,",
           OPERATIONS[settings.operation], (unsigned long long)settings.size, (unsigned long long)settings.count,
           (unsigned long long)settings.pause_us, (double)sum / (double)settings.count,
           (unsigned long long)samples[0], (unsigned long long)samples[settings.count / 2],
           (unsigned long long)samples[settings.count * 99 / 100]);
    time_batches(&target, samples, batches);
    printf("\"batch_calls\":%d,\"batch_p50_ns\":%.1f,\"clock_ns\":%.1f}\n", BATCH_CALLS,
           (double)samples[batches / 2] / BATCH_CALLS, clock_ns());
    free(samples);
    free(target.buffer);
    close(target.descriptor);
    return EXIT_SUCCESS;
}
