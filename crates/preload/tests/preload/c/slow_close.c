/* Another preloaded library: close, dup2 and freopen of the descriptor that the program names take a while, and dup of it
 * takes until the program names another. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int slow_fd = -1;
int slow_calls;

static void hold(int fd)
{
    struct timespec pause = { 0, 400000000 };
    if (fd != __atomic_load_n(&slow_fd, __ATOMIC_ACQUIRE)) return;
    __atomic_fetch_add(&slow_calls, 1, __ATOMIC_RELEASE);
    nanosleep(&pause, 0);
}

int close(int fd)
{
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "close");
    hold(fd);
    return next(fd);
}

int dup2(int fd, int to)
{
    static int (*next)(int, int);
    if (!next) next = dlsym(RTLD_NEXT, "dup2");
    hold(to);
    return next(fd, to);
}

int dup(int fd)
{
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "dup");
    if (fd == __atomic_load_n(&slow_fd, __ATOMIC_ACQUIRE)) __atomic_fetch_add(&slow_calls, 1, __ATOMIC_RELEASE);
    while (fd == __atomic_load_n(&slow_fd, __ATOMIC_ACQUIRE)) usleep(100);
    return next(fd);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    static FILE *(*next)(const char *, const char *, FILE *);
    if (!next) next = dlsym(RTLD_NEXT, "freopen");
    hold(fileno(stream));
    return next(path, mode, stream);
}
