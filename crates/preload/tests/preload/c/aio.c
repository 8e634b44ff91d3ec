/* aio(7) on a file whose newest bytes lie on flash; libc's own aio_error, aio_return, aio_suspend and aio_cancel report. */
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int signalled, called, value;

static void on_signal(int number, siginfo_t *info, void *context)
{
    assert(info->si_code == SI_ASYNCIO);
    value = info->si_value.sival_int;
    signalled++;
}

static void on_thread(union sigval with)
{
    value = with.sival_int;
    __atomic_store_n(&called, 1, __ATOMIC_RELEASE);
}

static struct aiocb block(int fd, int opcode, void *buffer, size_t length, off_t offset)
{
    struct aiocb b;
    memset(&b, 0, sizeof b);
    b.aio_fildes = fd;
    b.aio_lio_opcode = opcode;
    b.aio_buf = buffer;
    b.aio_nbytes = length;
    b.aio_offset = offset;
    b.aio_sigevent.sigev_notify = SIGEV_NONE;
    return b;
}

static ssize_t result(struct aiocb *b)
{
    const struct aiocb *list[] = { b };
    while (aio_error(b) == EINPROGRESS) assert(!aio_suspend(list, 1, 0));
    int error = aio_error(b);
    ssize_t returned = aio_return(b);
    assert((error == 0) == (returned >= 0));
    return error ? -error : returned;
}

static void expect(int fd, off_t offset, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, strlen(text), offset) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

static void single(int fd, int other)
{
    char seen[64] = "";
    struct aiocb b = block(fd, 0, seen, 5, 0);
    errno = 77;
    assert(!aio_read(&b) && errno == 77);
    const struct aiocb *list[] = { 0, &b };
    struct timespec long_time = { 60, 0 };
    while (aio_error(&b) == EINPROGRESS) assert(!aio_suspend(list, 2, &long_time));
    /* what looks for it finds nothing under way */
    assert(aio_error(&b) == 0 && !aio_suspend(list, 2, 0));
    assert(aio_cancel(fd, &b) == AIO_ALLDONE && aio_cancel(fd, 0) == AIO_ALLDONE);
    assert(aio_return(&b) == 5 && !strcmp(seen, "flash"));
    b = block(fd, 0, "written", 7, 100);
    assert(!aio_write(&b) && result(&b) == 7);
    expect(fd, 100, "written");
    b = block(fd, 0, seen, 60, 100);
    assert(!aio_read(&b) && result(&b) == 7);
    b = block(fd, 0, seen, 60, 1000);
    assert(!aio_read(&b) && result(&b) == 0);
    b = block(fd, 0, "", 0, 0);
    assert(!aio_write(&b) && result(&b) == 0);
    b = block(fd, 0, 0, 0, 0);
    assert(!aio_fsync(O_SYNC, &b) && result(&b) == 0);
    assert(!aio_fsync(O_DSYNC, &b) && result(&b) == 0);
    assert(aio_fsync(0, &b) == -1 && errno == EINVAL);
    /* what fails, fails in the control block */
    b = block(fd, 0, seen, 5, -1);
    assert(!aio_read(&b) && result(&b) == -EINVAL);
    b = block(fd, 0, 0, 5, 0);
    assert(!aio_read(&b) && result(&b) == -EFAULT);
    b = block(fd, 0, seen, 5, 0);
    b.aio_reqprio = -1;
    assert(aio_read(&b) == -1 && errno == EINVAL);
    int w = open("file", O_WRONLY), r = open("file", O_RDONLY), append = open("file", O_WRONLY | O_APPEND);
    b = block(w, 0, seen, 5, 0);
    assert(!aio_read(&b) && result(&b) == -EBADF);
    b = block(r, 0, seen, 5, 0);
    assert(!aio_write(&b) && result(&b) == -EBADF);
    b = block(r, 0, 0, 0, 0);
    assert(!aio_fsync(O_SYNC, &b) && result(&b) == 0);
    b = block(append, 0, "at the end", 10, 0);
    assert(!aio_write(&b) && result(&b) == 10);
    expect(fd, 107, "at the end");
    expect(fd, 0, "flash");
    assert(!close(w) && !close(r) && !close(append));
    /* libc's business */
    b = block(other, 0, "other", 5, 0);
    assert(!aio_write(&b) && result(&b) == 5);
    b = block(-1, 0, "other", 5, 0);
    assert(!aio_write(&b) && result(&b) == -EBADF);
}

static void notified(int fd)
{
    char seen[64] = "";
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigaction(SIGUSR1, &action, 0);
    struct aiocb b = block(fd, 0, seen, 5, 0);
    b.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    b.aio_sigevent.sigev_signo = SIGUSR1;
    b.aio_sigevent.sigev_value.sival_int = 42;
    assert(!aio_read(&b) && result(&b) == 5);
    while (!signalled) usleep(100);
    assert(signalled == 1 && value == 42);
    b.aio_sigevent.sigev_notify = SIGEV_THREAD;
    b.aio_sigevent.sigev_notify_function = on_thread;
    b.aio_sigevent.sigev_notify_attributes = 0;
    b.aio_sigevent.sigev_value.sival_int = 43;
    assert(!aio_write(&b) && result(&b) == 5);
    while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE)) usleep(100);
    assert(value == 43);
}

static void lists(int fd, int other)
{
    char seen[4][16] = { "" };
    int pipes[2];
    assert(!pipe(pipes));
    struct aiocb a = block(fd, LIO_WRITE, "list", 4, 300), b = block(other, LIO_WRITE, "list", 4, 0),
        c = block(fd, LIO_READ, seen[0], 5, 0), d = block(fd, LIO_NOP, 0, 0, 0), e = block(pipes[0], LIO_READ, seen[1], 4, 0);
    struct aiocb *mixed[] = { &a, 0, &b, &d, &c }, *slow[] = { &e, &a }, *failing[] = { &b, &a, &c };
    assert(!lio_listio(LIO_WAIT, mixed, 5, 0));
    assert(result(&a) == 4 && result(&b) == 4 && result(&c) == 5 && !strcmp(seen[0], "flash"));
    assert(mixed[0] == &a && mixed[4] == &c);
    expect(fd, 300, "list");
    expect(other, 0, "list");
    /* notified when everything is done, libc's part too */
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 44 };
    signalled = 0;
    assert(!lio_listio(LIO_NOWAIT, slow, 2, &event));
    assert(result(&a) == 4 && aio_error(&e) == EINPROGRESS && !signalled);
    assert(write(pipes[1], "pipe", 4) == 4);
    while (!signalled) usleep(100);
    assert(signalled == 1 && value == 44 && result(&e) == 4 && !strcmp(seen[1], "pipe"));
    struct aiocb *ours[] = { &a, &c };
    assert(!lio_listio(LIO_NOWAIT, ours, 2, &event));
    while (signalled < 2) usleep(100);
    assert(result(&a) == 4 && result(&c) == 5);
    /* one of ours fails, one of libc's fails */
    a.aio_offset = -5;
    assert(lio_listio(LIO_WAIT, failing, 3, 0) == -1 && errno == EIO);
    assert(result(&a) == -EINVAL && result(&b) == 4 && result(&c) == 5);
    a.aio_offset = 300;
    b.aio_fildes = -1;
    assert(lio_listio(LIO_WAIT, failing, 3, 0) == -1 && errno == EIO);
    assert(result(&a) == 4 && result(&b) == -EBADF && result(&c) == 5);
    assert(!lio_listio(LIO_NOWAIT, failing, 3, 0));
    assert(result(&c) == 5 && result(&a) == 4 && result(&b) == -EBADF);
    assert(lio_listio(7, failing, 3, 0) == -1 && errno == EINVAL);
    assert(!lio_listio(LIO_WAIT, failing, 0, 0));
}

/* Many at once: what overlaps keeps its order, appends keep theirs, and a sync has everything before it. */
static void many(int fd)
{
    enum { COUNT = 300 };
    static struct aiocb blocks[COUNT], syncs[3];
    static char text[COUNT][100], seen[100 * COUNT];
    for (int round = 0; round < 5; round++) {
        for (int k = 0; k < COUNT; k++) {
            memset(text[k], 'a' + (k + round) % 26, 100);
            /* every place three times, the last one counts */
            blocks[k] = block(fd, LIO_WRITE, text[k], 100, 10000 + k % (COUNT / 3) * 100);
            assert(!aio_write(&blocks[k]));
            if (k % 100 == 50) {
                syncs[k / 100] = block(fd, 0, 0, 0, 0);
                assert(!aio_fsync(O_DSYNC, &syncs[k / 100]));
            }
        }
        for (int k = 0; k < 3; k++) {
            assert(result(&syncs[k]) == 0);
            for (int before = 0; before <= k * 100 + 50; before++) assert(aio_error(&blocks[before]) == 0);
        }
        for (int k = 0; k < COUNT; k++) assert(result(&blocks[k]) == 100);
        assert(pread(fd, seen, 100 * COUNT / 3, 10000) == 100 * COUNT / 3);
        for (int k = 0; k < COUNT / 3; k++) assert(!memcmp(seen + 100 * k, text[k + 2 * COUNT / 3], 100));
    }
    int append = open("appended", O_RDWR | O_APPEND | O_CREAT, 0644);
    for (int k = 0; k < COUNT; k++) {
        blocks[k] = block(append, LIO_WRITE, text[k], 1 + k % 100, 0);
        assert(!aio_write(&blocks[k]));
    }
    /* a close has them done */
    int again = open("appended", O_RDONLY);
    assert(!close(append));
    long at = 0;
    for (int k = 0; k < COUNT; at += 1 + k++ % 100) {
        assert(result(&blocks[k]) == 1 + k % 100);
        assert(pread(again, seen, 1 + k % 100, at) == 1 + k % 100 && !memcmp(seen, text[k], 1 + k % 100));
    }
    assert(!close(again));
    /* a child has none of its parent's, and its own */
    for (int k = 0; k < COUNT; k++) {
        blocks[k] = block(fd, LIO_WRITE, text[k], 100, 50000 + k * 100);
        assert(!aio_write(&blocks[k]));
    }
    pid_t child = fork();
    if (!child) {
        struct aiocb mine = block(fd, 0, "child", 5, 5000);
        assert(!aio_write(&mine) && result(&mine) == 5);
        expect(fd, 5000, "child");
        _exit(0);
    }
    int status;
    for (int k = 0; k < COUNT; k++) assert(result(&blocks[k]) == 100);
    assert(waitpid(child, &status, 0) == child && status == 0);
    expect(fd, 5000, "child");
}

int main(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/other", getenv("OUTSIDE"));
    int fd = open("file", O_RDWR | O_CREAT, 0644), other = open(path, O_RDWR | O_CREAT, 0644);
    assert(fd >= 0 && other >= 0);
    assert(pwrite(fd, "flash", 5, 0) == 5);
    single(fd, other);
    notified(fd);
    lists(fd, other);
    many(fd);
    return 0;
}
