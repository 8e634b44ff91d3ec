/* Threads at one offset: `shared_offset held` while a read waits for the agent, `shared_offset records` at the end of a file that
 * grows. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 50, READERS = 4, RECORDS = 3000 };
static int fd;
static char seen[READERS * 100];
static long times[RECORDS];

static void *read_it(void *nothing)
{
    assert(read(fd, seen, 2 * SIZE) == SIZE);
    return 0;
}

static void *write_it(void *nothing)
{
    assert(write(fd, "end", 3) == 3);
    return 0;
}

static void *seek_it(void *nothing)
{
    assert(lseek(fd, 1000, SEEK_SET) == 1000);
    return 0;
}

static void until_told(const char *said)
{
    char line[64];
    assert(puts(said) >= 0 && !fflush(stdout) && fgets(line, sizeof line, stdin));
}

/* The calls come one after the other, and the read is the first. */
static void held(void *(*second)(void *), off_t offset, off_t size)
{
    pthread_t reader, other;
    struct stat found;
    assert(!ftruncate(fd, 0) && pwrite(fd, seen, SIZE, 0) == SIZE && lseek(fd, 0, SEEK_SET) == 0);
    until_told("ready");
    assert(!pthread_create(&reader, 0, read_it, 0));
    until_told("reading");
    assert(!pthread_create(&other, 0, second, 0));
    until_told("moving");
    assert(!pthread_join(reader, 0) && !pthread_join(other, 0));
    assert(lseek(fd, 0, SEEK_CUR) == offset);
    assert(!fstat(fd, &found) && found.st_size == size);
}

static void *take_records(void *nothing)
{
    long number;
    do {
        ssize_t count = read(fd, &number, sizeof number);
        if (count == 0) continue;
        assert(count == sizeof number && number >= 0 && number < RECORDS);
        __atomic_fetch_add(&times[number], 1, __ATOMIC_RELAXED);
    } while (lseek(fd, 0, SEEK_CUR) < (off_t)(RECORDS * sizeof number));
    return 0;
}

static void records(void)
{
    pthread_t readers[READERS];
    for (int k = 0; k < READERS; k++) assert(!pthread_create(&readers[k], 0, take_records, 0));
    for (long k = 0; k < RECORDS; k++) assert(pwrite(fd, &k, sizeof k, k * sizeof k) == sizeof k);
    for (int k = 0; k < READERS; k++) assert(!pthread_join(readers[k], 0));
    for (long k = 0; k < RECORDS; k++)
        if (times[k] != 1) { fprintf(stderr, "record %ld was read %ld times\n", k, times[k]); assert(0); }
}

int main(int count, char **arguments)
{
    fd = open("file", O_RDWR | O_CREAT, 0644);
    if (!strcmp(arguments[1], "records")) {
        records();
        return 0;
    }
    held(write_it, SIZE + 3, SIZE + 3);
    held(seek_it, 1000, SIZE);
    return 0;
}
