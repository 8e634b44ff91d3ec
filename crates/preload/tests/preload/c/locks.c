/* POSIX locks outlast everything the library does with the file by itself. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd;

/* Whether another process finds bytes 100 to 200 locked. */
static void held(const char *after)
{
    pid_t child = fork();
    if (!child) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 150, .l_len = 1 };
        assert(!fcntl(fd, F_GETLK, &lock));
        _exit(lock.l_type == F_WRLCK && lock.l_pid == getppid() ? 0 : 1);
    }
    int status;
    assert(waitpid(child, &status, 0) == child);
    if (status) {
        fprintf(stderr, "the lock is gone after %s\n", after);
        abort();
    }
}

int main(void)
{
    char bytes[4096] = "";
    struct stat s;
    struct statx x;
    fd = open("file", O_RDWR | O_CREAT, 0755);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 100 };
    assert(!fcntl(fd, F_SETLKW, &lock));
    held("locking");
    assert(pwrite(fd, bytes, 4096, 0) == 4096 && pread(fd, bytes, 4096, 0) == 4096);
    held("reading and writing");
    assert(!truncate("file", 5000) && !ftruncate(fd, 6000) && !posix_fallocate(fd, 0, 7000));
    held("resizing, by name too");
    assert(!stat("file", &s) && !lstat("file", &s) && !statx(AT_FDCWD, "file", 0, STATX_ALL, &x));
    held("stat");
    assert(!rename("file", "renamed") && !link("renamed", "second") && !unlink("renamed") && !rename("second", "file"));
    held("names");
    assert(!fsync(fd) && !fdatasync(fd) && !syncfs(fd) && lseek(fd, 0, SEEK_DATA) >= 0);
    held("syncing");
    assert(!system("./file 2>/dev/null; test -s file"));
    held("executing it in a child");
    assert(execl("./file", "file", (char *)0) == -1 && execv("./file", (char *[]) { "file", 0 }) == -1);
    held("executing what is no program");
    assert(mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    held("mapping it");
    assert(pwrite(fd, bytes, 4096, 0) == 4096);
    held("bypassing flash");
    assert(!chmod("file", 0644));
    assert(!flock(fd, LOCK_EX) && !lockf(fd, F_TEST, 10) && !flock(fd, LOCK_UN));
    held("other kinds of lock");
    /* as POSIX says, and as without the library */
    int second = open("file", O_RDONLY);
    assert(!close(second));
    pid_t child = fork();
    if (!child) {
        assert(!fcntl(fd, F_GETLK, &lock));
        _exit(lock.l_type == F_UNLCK ? 0 : 1);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
