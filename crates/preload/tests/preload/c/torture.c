/* Random calls on one file, checked against a copy in memory. torture PATH SEED OPERATIONS MODEL: the copy is stored in MODEL. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (6 << 20)
static unsigned char model[ROOM], bytes[ROOM];
static long size;
static unsigned long state;

static unsigned long rnd(unsigned long n)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (state >> 33) % n;
}

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "line %d: %s (step %ld, errno %s)\n", __LINE__, #c, step, strerror(errno)); abort(); } } while (0)
static long step;

static void fill(long length)
{
    for (long k = 0; k < length; k++) bytes[k] = rnd(256);
}

static int split(struct iovec *v, long length)
{
    int n = 1 + rnd(90);
    long at = 0;
    for (int k = 0; k < n; k++) {
        long part = k == n - 1 ? length - at : (long)rnd((length - at) / 2 + 1);
        v[k].iov_base = bytes + at;
        v[k].iov_len = part;
        at += part;
    }
    return n;
}

static void wrote(long offset, long n)
{
    if (offset > size) memset(model + size, 0, offset - size);
    memcpy(model + offset, bytes, n);
    if (offset + n > size) size = offset + n;
}

static long length(void)
{
    switch (rnd(8)) {
    case 0: return 1 + rnd(700000);
    case 1: return 1 + rnd(16);
    case 2: return 4096 * (1 + rnd(8));
    default: return 1 + rnd(20000);
    }
}

int main(int argc, char **argv)
{
    state = atol(argv[2]);
    long operations = atol(argv[3]);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    int log = open(argv[1], O_WRONLY | O_APPEND);
    CHECK(log >= 0);
    for (step = 0; step < operations; step++) {
        long n = length(), offset = rnd(ROOM - n), expected, got;
        if (rnd(3) && size > 0) offset = rnd(size);
        if (offset + n > ROOM) n = ROOM - offset;
        struct iovec v[100];
        switch (rnd(17)) {
        case 0: case 1: case 2:
            fill(n);
            CHECK(pwrite(fd, bytes, n, offset) == n);
            wrote(offset, n);
            break;
        case 3:
            fill(n);
            CHECK(pwritev(fd, v, split(v, n), offset) == n);
            wrote(offset, n);
            break;
        case 4:
            fill(n);
            CHECK(lseek(fd, offset, SEEK_SET) == offset);
            CHECK(write(fd, bytes, n) == n);
            CHECK(lseek(fd, 0, SEEK_CUR) == offset + n);
            wrote(offset, n);
            break;
        case 5:
            fill(n);
            CHECK(lseek(fd, offset, SEEK_SET) == offset);
            CHECK(writev(fd, v, split(v, n)) == n);
            wrote(offset, n);
            break;
        case 6: case 7: case 8:
            expected = offset >= size ? 0 : offset + n > size ? size - offset : n;
            memset(bytes, 0x5a, n);
            CHECK(pread(fd, bytes, n, offset) == expected);
            CHECK(!memcmp(bytes, model + offset, expected));
            break;
        case 9:
            expected = offset >= size ? 0 : offset + n > size ? size - offset : n;
            memset(bytes, 0x5a, n);
            CHECK(preadv(fd, v, split(v, n), offset) == expected);
            CHECK(!memcmp(bytes, model + offset, expected));
            break;
        case 10:
            expected = offset >= size ? 0 : offset + n > size ? size - offset : n;
            CHECK(lseek(fd, offset, SEEK_SET) == offset);
            got = rnd(2) ? read(fd, bytes, n) : readv(fd, v, split(v, n));
            CHECK(got == expected);
            CHECK(lseek(fd, 0, SEEK_CUR) == offset + got);
            CHECK(!memcmp(bytes, model + offset, expected));
            break;
        case 11:
            if (n > 30000 || size + n > ROOM) break;
            fill(n);
            got = rnd(2) ? write(log, bytes, n) : pwrite(log, bytes, n, 0);
            CHECK(got == n);
            wrote(size, n);
            break;
        case 12:
            if (rnd(3)) break;
            offset = rnd(2) ? rnd(size + 1) : rnd(ROOM);
            CHECK(rnd(2) ? !ftruncate(fd, offset) : !truncate(argv[1], offset));
            if (offset > size) memset(model + size, 0, offset - size);
            size = offset;
            break;
        case 13: {
            struct stat s;
            CHECK(!fstat(fd, &s) && s.st_size == size);
            CHECK(!stat(argv[1], &s) && s.st_size == size);
            CHECK(lseek(fd, 0, SEEK_END) == size);
            break;
        }
        case 14: {
            int other = rnd(2) ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 50);
            CHECK(other >= 0);
            CHECK(!close(fd));
            fd = other;
            if (rnd(4) == 0) {
                CHECK(!close(fd) && !close(log));
                CHECK((fd = open(argv[1], O_RDWR)) >= 0);
                CHECK((log = open(argv[1], O_WRONLY | O_APPEND)) >= 0);
            }
            break;
        }
        case 15:
            CHECK(!fsync(fd));
            if (size && rnd(4) == 0) {
                /* in another process, as nothing comes to flash while a process maps the file */
                int status;
                if (fork() == 0) {
                    char *map = mmap(0, size, PROT_READ, MAP_SHARED, fd, 0);
                    CHECK(map != MAP_FAILED);
                    CHECK(!memcmp(map, model, size));
                    _exit(0);
                }
                CHECK(wait(&status) > 0 && status == 0);
            }
            break;
        case 16:
            if (offset + n > size) break;
            CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, n));
            memset(model + offset, 0, n);
            break;
        }
    }
    CHECK(pread(fd, bytes, ROOM, 0) == size);
    CHECK(!memcmp(bytes, model, size));
    CHECK(!close(fd) && !close(log));
    int out = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(out >= 0 && write(out, model, size) == size && !close(out));
    return 0;
}
