/* A thread that closes or replaces a descriptor is held up in the middle (slow_close.c), while another thread uses the
 * descriptor, a handler interrupts, jumps away, or the thread is cancelled. */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int *slow_fd, *slow_calls, seen;
static int fd, other, handled, jumps;
static sigjmp_buf back;

static ssize_t look(void)
{
    char text[4] = "";
    ssize_t count = pread(fd, text, 3, 0);
    assert(count < 0 || (count == 3 && (!strcmp(text, "old") || !strcmp(text, "new"))));
    return count;
}

static void on_signal(int number)
{
    int saved = errno;
    handled = look();
    errno = saved;
    if (jumps) siglongjmp(back, 1);
}

static void *replace(void *nothing)
{
    assert(dup2(other, fd) == fd);
    return 0;
}

static void *duplicate(void *nothing)
{
    static int made;
    assert((made = dup(fd)) >= 0);
    return &made;
}

static void *closing(void *nothing)
{
    assert(close(fd) == 0);
    return 0;
}

static void until_held(void)
{
    while (__atomic_load_n(slow_calls, __ATOMIC_ACQUIRE) == seen) usleep(100);
    seen++;
}

static void *interrupt(void *thread)
{
    until_held();
    assert(!pthread_kill(*(pthread_t *)thread, SIGUSR1));
    return 0;
}

static void reopened(void)
{
    assert((fd = open("old", O_RDWR | O_CREAT, 0644)) >= 0 && pwrite(fd, "old", 3, 0) == 3);
    __atomic_store_n(slow_fd, fd, __ATOMIC_RELEASE);
}

int main(void)
{
    pthread_t main_thread = pthread_self(), thread;
    void *result;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, 0);
    slow_fd = dlsym(RTLD_DEFAULT, "slow_fd");
    slow_calls = dlsym(RTLD_DEFAULT, "slow_calls");
    assert(slow_fd && slow_calls);
    assert((other = open("new", O_RDWR | O_CREAT, 0644)) >= 0 && pwrite(other, "new", 3, 0) == 3);

    /* another thread, and a handler in the one that replaces: a descriptor that is replaced is never closed */
    reopened();
    assert(!pthread_create(&thread, 0, replace, 0));
    until_held();
    assert(look() == 3);
    assert(!pthread_join(thread, 0));
    assert(!pthread_create(&thread, 0, replace, 0));
    until_held();
    assert(!pthread_kill(thread, SIGUSR1) && !pthread_join(thread, 0) && handled == 3);
    *slow_fd = -1;
    assert(!close(fd));

    /* a descriptor that is replaced before its duplicate is made: the duplicate is of the new file */
    reopened();
    assert(!pthread_create(&thread, 0, duplicate, 0));
    until_held();
    assert(dup2(other, fd) == fd);
    seen++;
    *slow_fd = -1;
    assert(!pthread_join(thread, &result));
    char text[4] = "";
    assert(pread(*(int *)result, text, 3, 0) == 3 && !strcmp(text, "new"));
    assert(!close(fd) && !close(*(int *)result));

    /* a thread that is cancelled: what it had begun is done */
    reopened();
    assert(!pthread_create(&thread, 0, closing, 0));
    until_held();
    assert(!pthread_cancel(thread) && !pthread_join(thread, &result));
    assert(fcntl(fd, F_GETFD) == -1 && errno == EBADF && look() == -1);

    /* a handler that jumps away */
    reopened();
    jumps = 1;
    assert(!pthread_create(&thread, 0, interrupt, &main_thread));
    if (!sigsetjmp(back, 1)) close(fd);
    assert(!pthread_join(thread, 0));
    assert(fcntl(fd, F_GETFD) == -1 && errno == EBADF && look() == -1);
    jumps = 0;

    /* a stream: a handler does not wait for the thread it interrupts */
    reopened();
    FILE *stream = fdopen(fd, "r+");
    assert(stream && !pthread_create(&thread, 0, interrupt, &main_thread));
    handled = 0;
    assert(freopen("new", "r", stream) == stream && fileno(stream) == fd);
    assert(!pthread_join(thread, 0) && (handled == -1 || handled == 3) && look() == 3);
    *slow_fd = -1;
    return fclose(stream);
}
