/* Closes every descriptor it did not open, as daemons do, in all the ways there are, and goes on with its file. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fd;

static void check(const char *text)
{
    char seen[64] = "";
    assert(pwrite(fd, text, strlen(text), 100) == (ssize_t)strlen(text));
    assert(pread(fd, seen, strlen(text), 100) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

int main(void)
{
    fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(fd == 3);
    check("one");
    long limit = sysconf(_SC_OPEN_MAX);
    for (int k = 4; k < limit; k++) close(k);
    check("two");
    assert(!close_range(4, ~0U, 0));
    check("three");
    closefrom(4);
    check("four");
    /* 900 and above belong to the library, if anything does: replacing one of them must not redirect our bytes */
    int other = open("/dev/null", O_RDWR);
    for (int k = 5; k < limit; k++) dup2(other, k);
    check("five");
    assert(!close_range(3, ~0U, CLOSE_RANGE_CLOEXEC));
    assert(fcntl(3, F_GETFD) == FD_CLOEXEC);
    assert(!close_range(3, ~0U, 0));
    assert(fcntl(3, F_GETFD) == -1 && errno == EBADF);
    /* the number means another file now */
    struct stat s;
    fd = open("/dev/zero", O_RDWR);
    assert(fd == 3 && !fstat(fd, &s) && S_ISCHR(s.st_mode));
    char byte = 1;
    assert(read(fd, &byte, 1) == 1 && byte == 0);
    return 0;
}
