/* Threads come and go, each with a connection of its own, while the program closes high numbers that it has not opened. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINES = 8, ROUNDS = 1000 };

static int fd;
static atomic_int running = LINES;

static void *brief(void *place)
{
    char text[8] = "1234567", seen[8] = "";
    long offset = (long)place * 8;
    assert(pwrite(fd, text, 7, offset) == 7);
    assert(pread(fd, seen, 7, offset) == 7 && !strcmp(seen, text));
    return 0;
}

static void *line(void *number)
{
    for (long k = 0; k < ROUNDS; k++) {
        pthread_t t;
        assert(!pthread_create(&t, 0, brief, (void *)((long)number * ROUNDS + k)) && !pthread_join(t, 0));
    }
    running--;
    return 0;
}

int main(void)
{
    struct rlimit limit;
    assert(!getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur > 4096) {
        limit.rlim_cur = 4096;
        assert(!setrlimit(RLIMIT_NOFILE, &limit));
    }
    fd = open("file", O_RDWR | O_CREAT, 0644);
    pthread_t lines[LINES];
    for (long k = 0; k < LINES; k++)
        assert(!pthread_create(&lines[k], 0, line, (void *)k));
    while (running > 0)
        for (int number = limit.rlim_cur - 1024; number < (int)limit.rlim_cur; number++)
            close(number);
    for (int k = 0; k < LINES; k++)
        assert(!pthread_join(lines[k], 0));
    for (long k = 0; k < LINES * ROUNDS; k++) {
        char seen[8] = "";
        assert(pread(fd, seen, 7, k * 8) == 7 && !strcmp(seen, "1234567"));
    }
    return 0;
}
