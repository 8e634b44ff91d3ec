/* latency PATH: nanoseconds per call on a file of which nothing is on flash; the median of many short runs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUNS 201
#define CALLS 2000

static char buffer[1 << 16];

static int compare(const void *a, const void *b)
{
    double d = *(double *)a - *(double *)b;
    return d < 0 ? -1 : d > 0;
}

#define MEASURE(name, call) do { \
    static double runs[RUNS]; \
    for (int r = 0; r < RUNS; r++) { \
        struct timespec a, b; \
        clock_gettime(CLOCK_MONOTONIC, &a); \
        for (int k = 0; k < CALLS; k++) if ((call) < 0) abort(); \
        clock_gettime(CLOCK_MONOTONIC, &b); \
        runs[r] = ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / CALLS; \
    } \
    qsort(runs, RUNS, sizeof *runs, compare); \
    printf("%-32s %7.0f ns\n", name, runs[RUNS / 2]); \
} while (0)

static int opened(const char *path)
{
    int fd = open(path, O_RDONLY);
    return fd < 0 ? fd : close(fd);
}

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDWR | O_CREAT, 0644), zero = open("/dev/zero", O_RDONLY);
    memset(buffer, 1, sizeof buffer);
    for (int k = 0; k < 64; k++) if (pwrite(fd, buffer, 65536, k * 65536L) < 0) abort();
    MEASURE("pread 4 KiB, managed", pread(fd, buffer, 4096, (k & 63) * 4096L));
    MEASURE("pread 1 byte, managed", pread(fd, buffer, 1, (k & 63) * 4096L));
    MEASURE("pwrite 4 KiB, managed", pwrite(fd, buffer, 4096, (k & 63) * 4096L));
    MEASURE("lseek+read 4 KiB, managed", lseek(fd, (k & 63) * 4096L, SEEK_SET) < 0 ? -1 : read(fd, buffer, 4096));
    MEASURE("pread 1 byte, not managed", pread(zero, buffer, 1, 0));
    MEASURE("open and close, not managed", opened("/dev/null"));
    MEASURE("open and close, regular", opened("/etc/passwd"));
    MEASURE("open and close, managed, held", opened(argv[1]));
    return 0;
}
