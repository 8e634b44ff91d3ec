/* Large requests, which go to disk, interrupted by a handler whose small writes flash would absorb in the same place. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int fd;
static volatile long handled, done;
static char large[1 << 20];

static void on_alarm(int signal)
{
    char seen[4] = "";
    assert(pwrite(fd, "sig", 3, 50) == 3);
    assert(pread(fd, seen, 3, 50) == 3 && !strcmp(seen, "sig"));
    handled++;
}

static void *watch(void *nothing)
{
    for (long before = -1; !done;) {
        before = handled;
        sleep(5);
        if (!done && before == handled) abort();
    }
    return 0;
}

int main(void)
{
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { };
    sigset_t alarm;
    pthread_t watcher;
    fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, large, sizeof large, 0) == sizeof large);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, 0);
    pthread_create(&watcher, 0, watch, 0);
    sigaction(SIGALRM, &action, 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
    setitimer(ITIMER_REAL, &often, 0);
    while (handled < 300) {
        assert(pread(fd, large, sizeof large, 0) == sizeof large);
        assert(pwrite(fd, large + 4096, sizeof large - 4096, 4096) == sizeof large - 4096);
    }
    setitimer(ITIMER_REAL, &never, 0);
    done = 1;
    _exit(0);
}
