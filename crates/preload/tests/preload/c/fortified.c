/* Built with -O2 -D_FORTIFY_SOURCE=2, and lengths that the compiler cannot prove: the reads are __read_chk, __pread_chk and
   __pread64_chk. Another process has written the bytes, which are dirty on flash. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 9000

static char byte_of(long offset)
{
    return (char)(offset * 31 + (offset >> 8));
}

static void expect(const char *bytes, long offset, long length)
{
    for (long k = 0; k < length; k++)
        assert(bytes[k] == byte_of(offset + k));
}

/* Whether a read that is longer than its buffer ends the program, as libc has it. */
static void refused(int fd, int call, size_t length)
{
    pid_t child = fork();
    if (child == 0) {
        char room[100];
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        assert(!close(2));
        ssize_t count = call == 0 ? read(fd, room, length) : call == 1 ? pread(fd, room, length, 0) : pread64(fd, room, length, 0);
        _exit(count == room[0]);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(int argc, char **argv)
{
    /* Nothing that the compiler knows. */
    size_t length = argc > 1 ? strtoul(argv[1], 0, 10) : 0;
    static char bytes[LENGTH];
    for (long k = 0; k < LENGTH; k++)
        bytes[k] = byte_of(k);
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open("file", O_RDWR | O_CREAT, 0644);
        assert(pwrite(fd, bytes, LENGTH, 0) == LENGTH);
        _exit(0);
    }
    int status;
    assert(waitpid(writer, &status, 0) == writer && status == 0);
    int fd = open("file", O_RDONLY);
    assert(fd >= 0);
    char room[5000];
    assert(read(fd, room, length) == (ssize_t)length);
    expect(room, 0, length);
    assert(read(fd, room, length) == (ssize_t)length);
    expect(room, length, length);
    assert(lseek(fd, 0, SEEK_CUR) == (off_t)(2 * length));
    assert(pread(fd, room, length, 4321) == (ssize_t)length);
    expect(room, 4321, length);
    assert(pread64(fd, room, length, 1234) == (ssize_t)length);
    expect(room, 1234, length);
    assert(pread(fd, room, length, LENGTH - 7) == 7);
    expect(room, LENGTH - 7, 7);
    for (int call = 0; call < 3; call++)
        refused(fd, call, length);
    return 0;
}
