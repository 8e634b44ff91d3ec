/* Threads that are cancelled while all they do is call the library: they end, and leave no request and no lock behind. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int fd, other;
static volatile long calls;

static void *reading(void *at)
{
    char buffer[100];
    for (;;) {
        assert(pread(fd, buffer, sizeof buffer, (long)at) == sizeof buffer);
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    }
}

static void *writing(void *at)
{
    for (;;) {
        assert(pwrite(fd, "written", 7, (long)at) == 7);
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    }
}

static void *resizing(void *at)
{
    for (;;) {
        assert(!posix_fallocate(fd, 0, 30000) && !fallocate(fd, 0, 0, 30000) && !fsync(fd));
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
        pthread_testcancel();
    }
}

static void *opening(void *nothing)
{
    for (;;) {
        int state, opened;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        assert((opened = open("other", O_RDWR)) >= 0 && !close(opened));
        pthread_setcancelstate(state, 0);
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
        pthread_testcancel();
    }
}

int main(void)
{
    static char zeroes[20000];
    void *(*work[])(void *) = { reading, writing, opening, resizing };
    fd = open("file", O_RDWR | O_CREAT, 0644);
    other = open("other", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, zeroes, sizeof zeroes, 0) == sizeof zeroes && pwrite(other, "x", 1, 0) == 1);
    for (int round = 0; round < 60; round++) {
        pthread_t threads[4];
        void *result;
        long before = calls;
        for (long k = 0; k < 4; k++) assert(!pthread_create(&threads[k], 0, work[k], (void *)(k * 1000)));
        while (__atomic_load_n(&calls, __ATOMIC_RELAXED) < before + 30) usleep(100);
        for (int k = 0; k < 4; k++) assert(!pthread_cancel(threads[k]));
        for (int k = 0; k < 4; k++) assert(!pthread_join(threads[k], &result) && result == PTHREAD_CANCELED);
    }
    /* whatever they left would be waited for here */
    assert(!ftruncate(fd, 0) && !close(fd) && !close(other));
    return 0;
}
