/* Operations whose outcome takes a while: the agent does not answer until this program says that it has seen enough. */
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct aiocb block(int fd, char *buffer, size_t length, off_t offset)
{
    struct aiocb b;
    memset(&b, 0, sizeof b);
    b.aio_fildes = fd;
    b.aio_buf = buffer;
    b.aio_nbytes = length;
    b.aio_offset = offset;
    b.aio_sigevent.sigev_notify = SIGEV_NONE;
    return b;
}

static void ignore(int number)
{
}

int main(void)
{
    char line[8];
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, "begin", 5, 0) == 5);
    puts("ready");
    fflush(stdout);
    assert(read(0, line, 3) == 3);
    struct aiocb first = block(fd, "first", 5, 0), over = block(fd, "OVER", 4, 2), far = block(fd, "far", 3, 1 << 20),
        sync = block(fd, 0, 0, 0);
    assert(!aio_write(&first) && !aio_write(&over) && !aio_write(&far) && !aio_fsync(O_SYNC, &sync));
    const struct aiocb *list[] = { &first, 0, &over, &far, &sync };
    struct timespec brief = { 0, 50000000 };
    assert(aio_suspend(list, 5, &brief) == -1 && errno == EAGAIN);
    /* whatever was begun goes on, what was not does not begin */
    assert(aio_cancel(fd, &over) == AIO_CANCELED && aio_error(&over) == ECANCELED && aio_return(&over) == -1);
    list[2] = 0;
    assert(aio_cancel(fd, &first) == AIO_NOTCANCELED);
    assert(aio_cancel(fd + 1, &first) == -1 && errno == EINVAL);
    assert(aio_cancel(fd, 0) == AIO_NOTCANCELED && aio_error(&sync) == ECANCELED);
    list[4] = 0;
    struct sigaction action = { .sa_handler = ignore };
    sigaction(SIGALRM, &action, 0);
    alarm(1);
    assert(aio_suspend(list, 5, 0) == -1 && errno == EINTR);
    assert(aio_error(&first) == EINPROGRESS && aio_error(&far) == EINPROGRESS);
    puts("pending");
    fflush(stdout);
    assert(!aio_suspend(list, 5, 0));
    for (int k = 0; k < 4; k += 3)
        while (aio_error(list[k]) == EINPROGRESS) assert(!aio_suspend(&list[k], 1, 0));
    assert(aio_error(&first) == 0 && aio_return(&first) == 5 && aio_error(&far) == 0 && aio_return(&far) == 3);
    char seen[6] = "";
    assert(pread(fd, seen, 5, 0) == 5 && !strcmp(seen, "first"));
    memset(seen, 0, sizeof seen);
    assert(pread(fd, seen, 5, 1 << 20) == 3 && !strcmp(seen, "far"));
    return 0;
}
