/* Files opened by every kind of name, inside and outside of the managed directory: each is found to be what it is, and errors are the
 * kernel's. */
#pragma GCC diagnostic ignored "-Wnonnull"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char name[5000], link_name[5000];
static int inside;

static const char *in(const char *variable, const char *rest)
{
    sprintf(name, "%s%s", getenv(variable), rest);
    return name;
}

/* Whether a name leads to the file whose bytes are on flash alone. */
static int is_managed(const char *path, int flags)
{
    char byte = 0;
    errno = 77;
    int fd = open(path, flags);
    assert(fd >= 0 && errno == 77);
    assert(fcntl(fd, F_GETFL) >= 0 && pread(fd, &byte, 1, 0) == 1 && !close(fd));
    return byte == 'm';
}

static void fails(const char *path, int flags, int expected)
{
    errno = 0;
    assert(open(path, flags) < 0 && errno == expected);
}

static void *waiting(void *path)
{
    return (void *)(long)open(path, O_RDONLY);
}

int main(void)
{
    const char *slow = getenv("SLOW"), *outside = getenv("OUTSIDE");
    const char *base = strrchr(slow, '/');
    inside = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(inside, "m", 1, 0) == 1);
    int other = open(in("OUTSIDE", "/file"), O_RDWR | O_CREAT, 0644);
    assert(pwrite(other, "o", 1, 0) == 1);
    sprintf(link_name, "%s/link", outside);
    assert(!symlink(in("SLOW", "/file"), link_name));
    sprintf(link_name, "%s/directory", outside);
    assert(!symlink(slow, link_name));
    assert(!symlink(in("OUTSIDE", "/file"), "out"));
    /* a fifo that nobody opens for writing */
    assert(!mkfifo(in("OUTSIDE", "/fifo"), 0600));
    char *fifo = strdup(name);
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *result;
        assert(!pthread_create(&thread, 0, waiting, fifo));
        usleep(round * 500);
        assert(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    }
    for (int round = 0; round < 100; round++) {
        fails(in("OUTSIDE", "/missing"), O_RDONLY, ENOENT);
        fails(in("OUTSIDE", "/file/below"), O_RDONLY, ENOTDIR);
        fails(in("OUTSIDE", ""), O_RDWR, EISDIR);
        fails("", O_RDONLY, ENOENT);
        fails(NULL, O_RDONLY, EFAULT);
        fails((char *)8, O_RDONLY, EFAULT);
        memset(name, 'n', 4999);
        fails(name, O_RDONLY, ENAMETOOLONG);
        /* flags that nothing knows are nobody's business */
        int fd = open(in("OUTSIDE", "/file"), O_RDONLY | 1 << 30);
        assert(fd >= 0 && !close(fd));
    }
    /* more rounds than opens are left to libc after a link */
    for (int round = 0; round < 100; round++) {
        int flags = round % 3 == 0 ? O_RDONLY : round % 3 == 1 ? O_RDWR : O_RDWR | O_CLOEXEC | O_NOCTTY;
        assert(is_managed("file", flags) && is_managed(in("SLOW", "/file"), flags));
        assert(!is_managed(in("OUTSIDE", "/file"), flags));
        assert(is_managed(in("SLOW", "//file"), flags) && is_managed(in("SLOW", "/./file"), flags));
        sprintf(name, "%s/..%s/file", outside, base);
        assert(is_managed(name, flags));
        sprintf(name, "/%s/file", slow);
        assert(is_managed(name, flags));
        if (round >= 90) {
            assert(is_managed(in("OUTSIDE", "/link"), flags) && is_managed(in("OUTSIDE", "/directory/file"), flags));
            assert(!is_managed("out", flags));
            sprintf(name, "/proc/self/fd/%d", inside);
            assert(is_managed(name, flags));
        }
    }
    for (int round = 0; round < 100; round++) fails(in("OUTSIDE", "/link"), O_RDONLY | O_NOFOLLOW, ELOOP);
    /* who cannot be cancelled so far is not later */
    int before;
    assert(!pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before) && before == PTHREAD_CANCEL_DEFERRED);
    return 0;
}
