/*
 * What is measured of a phase, over all ranks, as text and as JSON. MB is 10^6 bytes.
 *
 * Latencies go into a histogram with 64 buckets per power of two, so a percentile is at most 1.6 % off whatever the
 * number of requests. Below 64 ns buckets are exact.
 */
#include "patterns.h"

#include <stdio.h>

enum { SUB_BUCKETS = 1 << HISTOGRAM_SUB_BITS };

static size_t bucket_of(uint64_t value) {
    if (value < SUB_BUCKETS) {
        return (size_t)value;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return ((size_t)(shift + 1) << HISTOGRAM_SUB_BITS) + (size_t)((value >> shift) - SUB_BUCKETS);
}

/* The middle of the values that fall into a bucket. */
static double bucket_value(size_t bucket) {
    if (bucket < SUB_BUCKETS) {
        return (double)bucket;
    }
    unsigned shift = (unsigned)(bucket >> HISTOGRAM_SUB_BITS) - 1;
    double width = (double)((uint64_t)1 << shift);
    return ((double)(SUB_BUCKETS + bucket % SUB_BUCKETS) + 0.5) * width;
}

void measurement_add_call(struct measurement *measurement, uint64_t bytes, uint64_t call_ns) {
    measurement->bytes += bytes;
    measurement->requests++;
    measurement->call_ns += call_ns;
    measurement->histogram[bucket_of(call_ns)]++;
}

static double percentile_ns(const uint64_t *histogram, uint64_t count, double share) {
    uint64_t rank = (uint64_t)((double)count * share), seen = 0;
    for (size_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram[bucket];
        if (seen > rank) {
            return bucket_value(bucket);
        }
    }
    return 0;
}

struct summary {
    uint64_t bytes, requests, errors;
    double seconds, transfer_seconds;
    double mb_per_s, transfer_mb_per_s, native_mb_per_s;
    double mean_us, p50_us, p99_us;
};

static double ratio(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0; }

static struct summary summarize(enum workload_rate kind, const struct measurement *own, MPI_Comm communicator) {
    static uint64_t histogram[HISTOGRAM_BUCKETS];
    uint64_t sums[4] = {own->bytes, own->requests, own->errors, own->call_ns}, sum[4];
    uint64_t largests[2] = {own->end_ns, own->call_ns}, largest[2];
    uint64_t start_ns;
    double rates[2] = {ratio((double)own->bytes, (double)own->loop_ns * 1e-9),
                       ratio(1, (double)own->call_ns * 1e-9)};
    double rate[2];
    int ranks;
    MPI_Comm_size(communicator, &ranks);
    MPI_Allreduce(sums, sum, 4, MPI_UINT64_T, MPI_SUM, communicator);
    MPI_Allreduce(largests, largest, 2, MPI_UINT64_T, MPI_MAX, communicator);
    MPI_Allreduce(&own->start_ns, &start_ns, 1, MPI_UINT64_T, MPI_MIN, communicator);
    MPI_Allreduce(rates, rate, 2, MPI_DOUBLE, MPI_SUM, communicator);
    MPI_Reduce(own->histogram, histogram, HISTOGRAM_BUCKETS, MPI_UINT64_T, MPI_SUM, 0, communicator);

    struct summary summary = {.bytes = sum[0], .requests = sum[1], .errors = sum[2]};
    double megabytes = (double)summary.bytes * 1e-6;
    summary.seconds = (double)(largest[0] - start_ns) * 1e-9;
    summary.transfer_seconds = (double)largest[1] * 1e-9;
    summary.mb_per_s = ratio(megabytes, summary.seconds);
    summary.transfer_mb_per_s = ratio(megabytes, summary.transfer_seconds);
    summary.mean_us = ratio((double)sum[3] * 1e-3, (double)summary.requests);
    summary.p50_us = percentile_ns(histogram, summary.requests, 0.50) * 1e-3;
    summary.p99_us = percentile_ns(histogram, summary.requests, 0.99) * 1e-3;
    switch (kind) {
    case RATE_OPEN_TO_CLOSE:
        summary.native_mb_per_s = summary.mb_per_s;
        break;
    case RATE_SLOWEST_CALLS:
        summary.native_mb_per_s = summary.transfer_mb_per_s;
        break;
    case RATE_MEAN_OF_RANKS:
        summary.native_mb_per_s = megabytes * rate[1] / ranks;
        break;
    case RATE_SUM_OF_RANKS:
        summary.native_mb_per_s = rate[0] * 1e-6;
        break;
    }
    return summary;
}

static bool first_phase;

/* A file name as a JSON string. */
static void print_quoted(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char character = (unsigned char)*text;
        if (character == '"' || character == '\\') {
            printf("\\%c", character);
        } else if (character < 0x20) {
            printf("\\u%04x", character);
        } else {
            putchar(character);
        }
    }
    putchar('"');
}

/* With --json the text goes to standard error, so that standard output holds one JSON object. */
void report_begin(const struct options *options, int ranks, int active_ranks) {
    FILE *text = options->json ? stderr : stdout;
    first_phase = true;
    fprintf(text, "%s, %d ranks, %d active, %s, file %s\n", options->pattern->name, ranks, active_ranks,
            options->workload.collective ? "collective" : "independent", options->file);
    fprintf(text, "%-13s %14s %10s %9s %9s %10s %9s %9s %9s %9s %7s\n", "phase", "bytes", "seconds", "MB/s",
            "transfer", "requests", "mean us", "p50 us", "p99 us", "native", "errors");
    fflush(text);
    if (options->json) {
        printf("{\"pattern\":\"%s\",\"ranks\":%d,\"active_ranks\":%d,\"collective\":%s,\"verify\":%s,\"file\":",
               options->pattern->name, ranks, active_ranks, options->workload.collective ? "true" : "false",
               options->verify ? "true" : "false");
        print_quoted(options->file);
        printf(",\"phases\":[");
    }
}

uint64_t report_phase(const struct options *options, const struct workload_phase *phase, uint64_t repetition,
                      uint64_t generation, struct measurement *measurement, MPI_Comm communicator) {
    int rank;
    MPI_Comm_rank(communicator, &rank);
    struct summary s = summarize((enum workload_rate)phase->rate, measurement, communicator);
    uint64_t windows[WINDOW_COUNT_MAX];
    MPI_Reduce(measurement->windows, windows, WINDOW_COUNT_MAX, MPI_UINT64_T, MPI_SUM, 0, communicator);
    if (rank != 0) {
        return 0;
    }
    FILE *text = options->json ? stderr : stdout;
    fprintf(text, "%-13s %14llu %10.4f %9.2f %9.2f %10llu %9.1f %9.1f %9.1f %9.2f %7llu\n", phase->name,
            (unsigned long long)s.bytes, s.seconds, s.mb_per_s, s.transfer_mb_per_s, (unsigned long long)s.requests,
            s.mean_us, s.p50_us, s.p99_us, s.native_mb_per_s, (unsigned long long)s.errors);
    fflush(text);
    if (options->json) {
        printf("%s{\"op\":\"%s\",\"repetition\":%llu,\"generation\":%llu,\"bytes\":%llu,\"seconds\":%.9f,"
               "\"mb_per_s\":%.3f,\"transfer_seconds\":%.9f,\"transfer_mb_per_s\":%.3f,\"native_mb_per_s\":%.3f,"
               "\"requests\":%llu,\"errors\":%llu,\"latency_us\":{\"mean\":%.3f,\"p50\":%.3f,\"p99\":%.3f}",
               first_phase ? "" : ",", phase->name, (unsigned long long)repetition, (unsigned long long)generation,
               (unsigned long long)s.bytes, s.seconds, s.mb_per_s, s.transfer_seconds, s.transfer_mb_per_s,
               s.native_mb_per_s, (unsigned long long)s.requests, (unsigned long long)s.errors, s.mean_us, s.p50_us,
               s.p99_us);
        for (uint64_t window = 0; options->shift_seconds > 0 && window < options->shift_windows; window++) {
            printf("%s%llu", window ? "," : ",\"windows\":[", (unsigned long long)windows[window]);
        }
        printf("%s}", options->shift_seconds > 0 ? "]" : "");
        first_phase = false;
    }
    return s.errors;
}

void report_end(const struct options *options, uint64_t errors) {
    if (options->json) {
        printf("],\"errors\":%llu}\n", (unsigned long long)errors);
    } else if (errors > 0) {
        printf("%llu bytes wrong or missing\n", (unsigned long long)errors);
    }
    fflush(stdout);
}
