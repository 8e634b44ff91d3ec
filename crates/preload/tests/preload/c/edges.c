/* edges PATH: calls at the edge of what is allowed; prints what each returned, to be compared with a run without the library. */
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(call) do { \
    errno = 77; \
    long shown = (long)(call); \
    printf("%d %s = %ld, errno %d\n", __LINE__, #call, shown, errno); \
} while (0)

static char bytes[1 << 16], *half;
static const long last = 0x7fffffffffffffff;

static void rights(const char *path)
{
    int r = open(path, O_RDONLY), w = open(path, O_WRONLY), neither = open(path, 3);
    struct iovec v[2] = { { bytes, 4 }, { bytes + 4, 4 } }, none[1] = { { bytes, 0 } };
    SHOW(pread(w, bytes, 10, 0)); SHOW(read(w, bytes, 10)); SHOW(preadv(w, v, 2, 0)); SHOW(readv(w, v, 2));
    SHOW(preadv2(w, v, 2, 0, 0)); SHOW(pread(w, bytes, 0, 0)); SHOW(pread(neither, bytes, 10, 0));
    SHOW(pwrite(r, bytes, 10, 0)); SHOW(write(r, bytes, 10)); SHOW(pwritev(r, v, 2, 0)); SHOW(writev(r, v, 2));
    SHOW(pwritev2(r, v, 2, 0, RWF_DSYNC)); SHOW(pwrite(r, bytes, 0, 0)); SHOW(pwrite(neither, bytes, 10, 0));
    SHOW(ftruncate(r, 3)); SHOW(fallocate(r, 0, 0, 10)); SHOW(posix_fallocate(r, 0, 10)); SHOW(fsync(r)); SHOW(fsync(w));
    SHOW(pread(r, bytes, 0, 0)); SHOW(pwrite(w, bytes, 0, 0)); SHOW(readv(r, none, 1)); SHOW(writev(w, none, 1));
    SHOW(readv(r, v, 0)); SHOW(writev(w, v, 0)); SHOW(pread(r, bytes, 100, 0)); SHOW(pwrite(w, "x", 1, 3));
    SHOW(close(r)); SHOW(close(w)); SHOW(close(neither)); SHOW(pread(r, bytes, 1, 0)); SHOW(pwrite(w, bytes, 1, 0));
    SHOW(close(r)); SHOW(dup(r)); SHOW(dup2(r, 40)); SHOW(fcntl(r, F_DUPFD, 3)); SHOW(pread(-1, bytes, 1, 0));
}

static void offsets(int fd)
{
    struct iovec v[1] = { { bytes, 100 } };
    SHOW(pread(fd, bytes, 1, -1)); SHOW(pwrite(fd, bytes, 1, -1)); SHOW(pwrite(fd, bytes, 0, -1));
    SHOW(preadv(fd, v, 1, -1)); SHOW(pwritev(fd, v, 1, -1)); SHOW(preadv2(fd, v, 1, -2, 0));
    SHOW(pwritev2(fd, v, 1, 0, 0x40000000)); SHOW(preadv2(fd, v, 1, 0, 0x40000000));
    SHOW(pread(fd, bytes, 100, last - 10)); SHOW(pread(fd, bytes, 10, last - 10)); SHOW(pread(fd, bytes, 50, last - 100));
    SHOW(pwrite(fd, bytes, 100, last - 10)); SHOW(pwritev(fd, v, 1, last - 10));
    SHOW(pread(fd, bytes, -1, 0)); SHOW(pwrite(fd, bytes, -1, 0)); SHOW(read(fd, bytes, -1)); SHOW(write(fd, bytes, -1));
    long at[] = { 1L << 31, 5L << 30, 1L << 43, (1L << 44) - 4096 - 10, last - 10 };
    for (unsigned k = 0; k < sizeof at / sizeof *at; k++) {
        SHOW(lseek(fd, at[k], SEEK_SET)); SHOW(write(fd, "0123456789abcdefghij", 20)); SHOW(lseek(fd, 0, SEEK_CUR));
        SHOW(pread(fd, bytes, 4096, at[k])); SHOW(memcmp(bytes, "0123456789", 10)); SHOW(lseek(fd, at[k], SEEK_SET));
        SHOW(read(fd, bytes, 4096)); SHOW(lseek(fd, 0, SEEK_CUR)); SHOW(lseek(fd, 0, SEEK_END));
        struct stat s;
        struct statx x;
        SHOW(fstat(fd, &s)); SHOW(s.st_size); SHOW(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x)); SHOW(x.stx_size);
    }
    SHOW(pread(fd, bytes, 4096, (1L << 31) - 100)); SHOW(memcmp(bytes + 100, "0123456789", 10)); SHOW(bytes[99]);
    SHOW(ftruncate(fd, 0)); SHOW(pread(fd, bytes, 1, 0)); SHOW(lseek(fd, 0, SEEK_SET)); SHOW(read(fd, bytes, 1));
    SHOW(pwrite(fd, "end", 3, 9000)); SHOW(pread(fd, bytes, 100, 8999)); SHOW(pread(fd, bytes, 100, 9003));
    SHOW(pread(fd, bytes, 100, 9999)); SHOW(ftruncate(fd, -1)); SHOW(ftruncate(fd, last));
}

static void memory(int fd)
{
    char *page = half + 4096 - 10;
    struct iovec v[2] = { { bytes, 10 }, { half + 4096, 10 } }, w[2] = { { half + 4096, 10 }, { bytes, 10 } };
    memset(bytes, 'm', sizeof bytes);
    SHOW(pwrite(fd, bytes, 20000, 0));
    SHOW(pread(fd, 0, 10, 0)); SHOW(pread(fd, (void *)-1, 10, 0)); SHOW(pread(fd, half + 4096, 10, 0));
    SHOW(pread(fd, page, 100, 0)); SHOW(page[9]); SHOW(pread(fd, half, 20000, 0)); SHOW(half[4095]);
    SHOW(preadv(fd, v, 2, 0)); SHOW(preadv(fd, w, 2, 0));
    SHOW(pwrite(fd, 0, 10, 0)); SHOW(pwrite(fd, (void *)-1, 10, 0)); SHOW(pwrite(fd, half + 4096, 10, 0));
    SHOW(pwritev(fd, w, 2, 0)); SHOW(pread(fd, bytes, 5, 0)); SHOW(bytes[0]);
    SHOW(readv(fd, 0, 1)); SHOW(readv(fd, (void *)-1, 1)); SHOW(writev(fd, (void *)8, 2)); SHOW(readv(fd, v, -1));
    SHOW(writev(fd, v, 1025)); SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(rename((void *)-1, "x")); SHOW(rename((void *)8, (void *)8)); SHOW(unlink((void *)-1));
    SHOW(truncate((void *)-1, 0)); SHOW(open((void *)-1, O_RDWR)); SHOW(open((void *)8, O_RDWR | O_TRUNC));
}

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

static void flags(const char *path, int fd)
{
    int append = open(path, O_RDWR | O_APPEND);
    struct iovec v[2] = { { bytes, 5 }, { bytes + 5, 5 } }, many[1024], gaps[4] = { { 0, 0 }, { bytes, 3 }, { 0, 0 }, { bytes + 3, 4 } };
    struct stat s;
    memset(bytes, 'f', sizeof bytes);
    SHOW(ftruncate(fd, 0)); SHOW(pwrite(fd, "0123456789", 10, 0));
    int reading[] = { RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_DSYNC | RWF_APPEND, 1 << 29, 1 << 30, -1 };
    for (unsigned k = 0; k < sizeof reading / sizeof *reading; k++) {
        SHOW(preadv2(fd, v, 2, 0, reading[k])); SHOW(lseek(fd, 0, SEEK_SET)); SHOW(preadv2(fd, v, 2, -1, reading[k]));
        SHOW(preadv64v2(fd, v, 1, 1L << 40, reading[k]));
    }
    int writing[] = { RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_APPEND | RWF_DSYNC, RWF_NOAPPEND, RWF_APPEND | RWF_NOAPPEND, 1 << 29, 1 << 30 };
    for (unsigned k = 0; k < sizeof writing / sizeof *writing; k++) {
        memset(bytes, 'A' + k, 10);
        SHOW(pwritev2(fd, v, 2, 3, writing[k])); SHOW(fstat(fd, &s)); SHOW(s.st_size);
        SHOW(lseek(fd, 1, SEEK_SET)); SHOW(pwritev2(fd, v, 2, -1, writing[k])); SHOW(lseek(fd, 0, SEEK_CUR));
        memset(bytes, 'a' + k, 10);
        SHOW(pwritev2(append, v, 2, 4, writing[k])); SHOW(fstat(fd, &s)); SHOW(s.st_size);
        SHOW(lseek(append, 2, SEEK_SET)); SHOW(pwritev64v2(append, v, 1, -1, writing[k])); SHOW(lseek(append, 0, SEEK_CUR));
        long count = pread(fd, bytes + 100, 1000, 0);
        printf("%ld %.*s\n", count, (int)count, bytes + 100);
    }
    SHOW(pwrite(append, "at", 2, 0)); SHOW(fstat(fd, &s)); SHOW(s.st_size);
    /* as many elements as the kernel takes, one more, empty ones, and ones without memory behind them */
    for (int k = 0; k < 1024; k++) many[k] = (struct iovec) { bytes + k * 3, 3 };
    for (int k = 0; k < 3072; k++) bytes[k] = k * 7 + k / 256;
    SHOW(pwritev(fd, many, 1024, 77)); memset(bytes, 0, 3072); SHOW(preadv(fd, many, 1024, 77));
    for (int k = 0; k < 3072; k++) if (bytes[k] != (char)(k * 7 + k / 256)) { printf("byte %d\n", k); break; }
    SHOW(preadv(fd, many, 1025, 77)); SHOW(pwritev(fd, gaps, 4, 5000)); SHOW(preadv(fd, gaps, 4, 5000)); SHOW(preadv(fd, gaps, 1, 0));
    SHOW(preadv(fd, gaps, -1, 0)); SHOW(pwritev2(fd, gaps, 3, -1, RWF_DSYNC)); SHOW(preadv2(fd, 0, 3, 0, 0)); SHOW(pwritev2(fd, 0, 0, 0, 0));
    many[1].iov_len = -1; SHOW(preadv(fd, many, 1024, 0)); many[1].iov_len = 3; many[5].iov_base = half + 4096;
    SHOW(preadv(fd, many, 1024, 77)); SHOW(pwritev(fd, many, 3, -5)); SHOW(pwritev2(fd, many, 3, -2, 0));
    SHOW(pread(fd, bytes, 10, last)); SHOW(pwrite(fd, bytes, 1, last)); SHOW(pwrite(fd, bytes, 0, last)); SHOW(preadv2(fd, v, 1, last, 0));
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)); SHOW(readahead(fd, 0, 100)); SHOW(sync_file_range(fd, 0, 100, SYNC_FILE_RANGE_WRITE));
    SHOW(pread(fd, bytes, 3, 5000)); SHOW(syncfs(fd)); SHOW(syncfs(-1)); sync();
    SHOW(close(append));
}

/* Past the page cache; 1 where that cannot be. */
static void uncached(const char *path, int fd)
{
    int direct = open(path, O_RDWR | O_DIRECT);
    char *aligned = (char *)(((unsigned long)bytes + 4095) & ~4095UL);
    if (direct < 0) return;
    SHOW(ftruncate(fd, 0)); memset(bytes, 'd', sizeof bytes);
    SHOW(pwrite(direct, aligned, 8192, 0)); SHOW(pwrite(direct, aligned, 4096, 8192)); SHOW(pread(direct, aligned, 16384, 0));
    SHOW(pread(direct, aligned, 4096, 4096)); SHOW(pread(direct, aligned, 4096, 1 << 20)); SHOW(lseek(direct, 4096, SEEK_SET));
    SHOW(read(direct, aligned, 4096)); SHOW(lseek(direct, 0, SEEK_CUR));
    /* what is not aligned, over bytes on flash and beyond them */
    struct iovec v[2] = { { aligned, 4096 }, { aligned + 4096, 100 } }, odd[2] = { { aligned, 100 }, { aligned + 100, 3996 } };
    off_t places[] = { 0, 1 << 24 };
    for (int k = 0; k < 2; k++) {
        SHOW(pwrite(direct, aligned, 100, places[k])); SHOW(pwrite(direct, aligned, 4096, places[k] + 100));
        SHOW(pwrite(direct, aligned + 1, 4096, places[k])); SHOW(pwrite(direct, aligned + 1, 100, places[k] + 7));
        SHOW(pwritev(direct, v, 2, places[k])); SHOW(pwritev(direct, odd, 2, places[k]));
        SHOW(lseek(direct, places[k] + 1, SEEK_SET)); SHOW(write(direct, aligned, 4096)); SHOW(lseek(direct, 0, SEEK_CUR));
        SHOW(pread(direct, aligned, 100, places[k])); SHOW(pread(direct, aligned, 4096, places[k] + 100));
        SHOW(pread(direct, aligned + 1, 4096, places[k])); SHOW(pread(direct, aligned + 512, 512, places[k] + 1536));
        SHOW(preadv(direct, v, 2, places[k])); SHOW(preadv(direct, odd, 2, places[k])); SHOW(pread(direct, aligned + 1, 0, 1));
        SHOW(read(direct, aligned, 4096)); SHOW(lseek(direct, 0, SEEK_CUR));
        SHOW(lseek(fd, 0, SEEK_END));
    }
    SHOW(close(direct));
}

static void limits(int fd)
{
    struct rlimit limit = { 65536, RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    SHOW(ftruncate(fd, 0));
    SHOW(setrlimit(RLIMIT_FSIZE, &limit));
    SHOW(pwrite(fd, bytes, 100, 65500)); SHOW(pwrite(fd, bytes, 100, 65536)); SHOW(pwrite(fd, bytes, 100, 1 << 20));
    SHOW(ftruncate(fd, 100000)); SHOW(lseek(fd, 0, SEEK_END));
    for (int k = 0; k < 40; k++) {
        memset(bytes, k, 4096);
        if (pwrite(fd, bytes, 4096, k % 3 * 4096) != 4096) printf("write %d\n", k);
        if (pread(fd, bytes + 4096, 4096, k % 3 * 4096) != 4096 || memcmp(bytes, bytes + 4096, 4096)) printf("read %d\n", k);
    }
    limit.rlim_cur = RLIM_INFINITY;
    SHOW(setrlimit(RLIMIT_FSIZE, &limit));
    SHOW(pwrite(fd, bytes, 100, 65536));
}

int main(int argc, char **argv)
{
    half = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(half + 4096, 4096, PROT_NONE);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
    SHOW(pread(fd, bytes, 10, 0)); SHOW(read(fd, bytes, 10)); SHOW(pwrite(fd, "hello", 5, 0));
    rights(argv[1]);
    offsets(fd);
    memory(fd);
    flags(argv[1], fd);
    uncached(argv[1], fd);
    limits(fd);
    SHOW(fsync(fd)); SHOW(close(fd));
    return 0;
}
