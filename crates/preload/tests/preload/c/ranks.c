/* ranks PATH PROCESSES THREADS BLOCKS BYTES: every thread of every process writes its own blocks of one file, reads some back at
 * once, and at the end the parent checks all of them. The descriptor is inherited over fork. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd, processes, threads, blocks, bytes, rank;

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "rank %d line %d: %s (%s)\n", rank, __LINE__, #c, strerror(errno)); abort(); } } while (0)

static void block(unsigned char *b, long index)
{
    for (int k = 0; k < bytes; k++) b[k] = index * 31 + k * 7 + (k >> 8);
}

static void *work(void *thread)
{
    unsigned char *mine = malloc(bytes), *seen = malloc(bytes);
    for (int k = 0; k < blocks; k++) {
        long index = (long)k * processes * threads + rank * threads + (long)thread;
        block(mine, index);
        CHECK(pwrite(fd, mine, bytes, index * bytes) == bytes);
        if (k % 3 == 0) {
            CHECK(pread(fd, seen, bytes, index * bytes) == bytes);
            CHECK(!memcmp(mine, seen, bytes));
        }
    }
    free(mine);
    free(seen);
    return 0;
}

int main(int argc, char **argv)
{
    processes = atoi(argv[2]), threads = atoi(argv[3]), blocks = atoi(argv[4]), bytes = atoi(argv[5]);
    CHECK((fd = open(argv[1], O_RDWR | O_CREAT, 0644)) >= 0);
    CHECK(pwrite(fd, "x", 1, 0) == 1);
    for (rank = 0; rank < processes; rank++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pthread_t t[64];
            for (long k = 0; k < threads; k++) CHECK(!pthread_create(&t[k], 0, work, (void *)k));
            for (long k = 0; k < threads; k++) CHECK(!pthread_join(t[k], 0));
            _exit(0);
        }
    }
    for (int k = 0; k < processes; k++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    unsigned char *mine = malloc(bytes), *seen = malloc(bytes);
    for (long index = 0; index < (long)blocks * processes * threads; index++) {
        block(mine, index);
        CHECK(pread(fd, seen, bytes, index * bytes) == bytes);
        CHECK(!memcmp(mine, seen, bytes));
    }
    CHECK(!close(fd));
    return 0;
}
