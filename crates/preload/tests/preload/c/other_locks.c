/* Locks of open file descriptions, by fcntl and by flock, go with the description: over dup, fork and whatever the library does
   with the file, until the last descriptor is closed. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd;

static struct flock at(short type, off_t start, off_t length)
{
    return (struct flock) { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length };
}

static void waited(pid_t child, const char *after)
{
    int status;
    assert(child > 0 && waitpid(child, &status, 0) == child);
    if (status) {
        fprintf(stderr, "status %d after %s\n", status, after);
        abort();
    }
}

/* Whether the locks are held against whoever opens the file anew. */
static void held(const char *after)
{
    int other = open("file", O_RDWR);
    assert(other >= 0);
    struct flock lock = at(F_WRLCK, 150, 1);
    assert(!fcntl(other, F_OFD_GETLK, &lock));
    if (lock.l_type != F_WRLCK || lock.l_pid != -1 || lock.l_start != 100 || lock.l_len != 100) {
        fprintf(stderr, "the lock of the description is gone after %s\n", after);
        abort();
    }
    lock = at(F_WRLCK, 150, 1);
    assert(fcntl(other, F_OFD_SETLK, &lock) == -1 && (errno == EAGAIN || errno == EACCES));
    /* Beside it there is nothing. */
    lock = at(F_WRLCK, 200, 10);
    assert(!fcntl(other, F_OFD_SETLK, &lock));
    if (!flock(other, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) {
        fprintf(stderr, "the lock by flock is gone after %s\n", after);
        abort();
    }
    /* What it locked itself goes with its only descriptor. */
    assert(!close(other));
    other = open("file", O_RDWR);
    lock = at(F_WRLCK, 200, 10);
    assert(!fcntl(other, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK);
    assert(!close(other));
}

/* One process waits for a part, another lets go of it when it knows that the first has not got it. */
static void waits(void)
{
    int ends[2];
    char bytes[100], byte;
    assert(!pipe(ends));
    memset(bytes, 'p', sizeof bytes);
    pid_t child = fork();
    if (child == 0) {
        int own = open("file", O_RDWR);
        struct flock lock = at(F_WRLCK, 100, 100);
        assert(own >= 0 && fcntl(own, F_OFD_SETLK, &lock) == -1);
        assert(write(ends[1], "w", 1) == 1);
        lock = at(F_WRLCK, 100, 100);
        assert(!fcntl(own, F_OFD_SETLKW, &lock));
        assert(write(ends[1], "g", 1) == 1);
        /* What was written under the lock before. */
        assert(pread(own, bytes, 100, 100) == 100);
        for (int k = 0; k < 100; k++)
            assert(bytes[k] == 'p');
        memset(bytes, 'c', sizeof bytes);
        assert(pwrite(own, bytes, 100, 100) == 100);
        lock = at(F_UNLCK, 100, 100);
        assert(!fcntl(own, F_OFD_SETLK, &lock) && !close(own));
        _exit(0);
    }
    assert(read(ends[0], &byte, 1) == 1);
    assert(pwrite(fd, bytes, 100, 100) == 100);
    struct flock lock = at(F_UNLCK, 100, 100);
    assert(!fcntl(fd, F_OFD_SETLK, &lock));
    /* Once the other has it. */
    assert(read(ends[0], &byte, 1) == 1);
    lock = at(F_WRLCK, 100, 100);
    assert(!fcntl(fd, F_OFD_SETLKW, &lock));
    waited(child, "waiting for a lock");
    assert(pread(fd, bytes, 100, 100) == 100 && bytes[0] == 'c' && bytes[99] == 'c');
    assert(!close(ends[0]) && !close(ends[1]));
}

int main(void)
{
    static char bytes[4096];
    struct stat s;
    fd = open("file", O_RDWR | O_CREAT, 0755);
    struct flock lock = at(F_WRLCK, 100, 100);
    assert(!fcntl(fd, F_OFD_SETLK, &lock) && !flock(fd, LOCK_EX));
    held("locking");
    assert(pwrite(fd, bytes, 4096, 0) == 4096 && pread(fd, bytes, 4096, 0) == 4096);
    held("reading and writing");
    assert(!truncate("file", 5000) && !ftruncate(fd, 6000) && !posix_fallocate(fd, 0, 7000) && !stat("file", &s));
    assert(!futimens(fd, 0) && !rename("file", "renamed") && !rename("renamed", "file"));
    held("resizing, times and names");
    assert(!fsync(fd) && !syncfs(fd) && lseek(fd, 0, SEEK_DATA) >= 0);
    assert(execl("./file", "file", (char *)0) == -1);
    held("syncing and executing");
    assert(open("file", O_RDWR | O_CREAT | O_EXCL, 0644) == -1 && open("file", O_WRONLY | O_TRUNC | O_DIRECTORY) == -1);
    held("opens that fail");
    int cut = open("file", O_WRONLY | O_TRUNC);
    assert(cut >= 0 && !close(cut) && pwrite(fd, bytes, 4096, 0) == 4096);
    held("cutting it, opened once more");
    /* Over dup, in whichever order they are closed. */
    int second = dup(fd);
    assert(second >= 0 && !close(fd));
    held("closing one of two descriptors");
    fd = dup(second);
    assert(!close(second));
    held("closing the other one");
    assert(dup2(fd, second) == second && fcntl(fd, F_DUPFD, 50) >= 50 && !close(second));
    held("dup2");
    assert(!close_range(50, 60, 0));
    held("close_range");
    /* A child has the same description: closing it there lets go of nothing, and unlocking it there of all. */
    pid_t child = fork();
    if (child == 0)
        _exit(pwrite(fd, bytes, 100, 8000) != 100 || close(fd) != 0);
    waited(child, "a child");
    held("the end of a child");
    waits();
    held("others wanted it");
    void *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert(mapped != MAP_FAILED && pwrite(fd, bytes, 4096, 0) == 4096);
    held("bypassing flash");
    child = fork();
    if (child == 0) {
        lock = at(F_UNLCK, 0, 0);
        _exit(fcntl(fd, F_OFD_SETLK, &lock) != 0 || flock(fd, LOCK_UN) != 0);
    }
    waited(child, "a child that unlocks");
    int other = open("file", O_RDWR);
    lock = at(F_WRLCK, 0, 0);
    assert(!fcntl(other, F_OFD_SETLK, &lock) && !flock(other, LOCK_EX | LOCK_NB));
    assert(!close(other) && !flock(fd, LOCK_EX | LOCK_NB));
    /* The last that has the description is the mapping. */
    assert(!close(fd) && !munmap(mapped, 4096));
    fd = open("file", O_RDWR);
    assert(!flock(fd, LOCK_EX | LOCK_NB));
    return 0;
}
