/* Descriptors of managed files that come by other ways than open: every one is found, and none is written past flash. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/openat2.h>

int pidfd_getfd(int, int, unsigned);

static void expect(int fd, off_t offset, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, strlen(text), offset) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

/* Makes number `fd` one that the table holds for unmanaged, and closes it unseen. */
static void unseen(int fd)
{
    char byte;
    int null = open("/dev/zero", O_RDONLY);
    assert(dup2(null, fd) == fd && read(fd, &byte, 1) == 1);
    if (null != fd) close(null);
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
    assert(result == 0);
}

static int passed(int fd)
{
    int pair[2], got;
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = "";
    struct iovec v = { &byte, 1 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    assert(sendmsg(pair[0], &m, 0) == 1);
    int next = dup(0);
    close(next);
    unseen(next);
    m.msg_controllen = sizeof room;
    assert(recvmsg(pair[1], &m, 0) == 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    assert(got == next);
    close(pair[0]);
    close(pair[1]);
    return got;
}

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, "flash", 5, 0) == 5);

    int got = passed(fd);
    expect(got, 0, "flash");
    assert(pwrite(got, "passed", 6, 100) == 6);
    expect(fd, 100, "passed");
    close(got);

    int self = syscall(SYS_pidfd_open, getpid(), 0);
    assert(self >= 0);
    int next = dup(0);
    close(next);
    unseen(next);
    got = pidfd_getfd(self, fd, 0);
    if (got >= 0) {
        assert(got == next);
        expect(got, 0, "flash");
        close(got);
    }
    close(self);

    /* a file without a name gets one: from then on others may keep its bytes on flash */
    int nameless = open(".", O_RDWR | O_TMPFILE, 0600);
    if (nameless >= 0) {
        char path[64];
        assert(pwrite(nameless, "nameless", 8, 0) == 8);
        snprintf(path, sizeof path, "/proc/self/fd/%d", nameless);
        assert(!linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
        int named = open("named", O_RDWR);
        expect(named, 0, "nameless");
        assert(pwrite(named, "NAME", 4, 0) == 4);
        expect(nameless, 0, "NAMEless");
        assert(pwrite(nameless, "more", 4, 100) == 4);
        expect(named, 100, "more");
    }

    /* no file comes from outside by its name: others may have it open */
    char outside[4096];
    snprintf(outside, sizeof outside, "%s/moved", getenv("OUTSIDE"));
    int moved = open(outside, O_RDWR | O_CREAT, 0644);
    assert(pwrite(moved, "moved", 5, 0) == 5 && rename(outside, "moved") == -1 && errno == EXDEV);
    /* no file has names on both sides */
    assert(link("file", outside) == -1 && errno == EXDEV);
    int other = open(outside, O_RDWR | O_CREAT, 0644);
    assert(link(outside, "linked") == -1 && errno == EXDEV);
    assert(!link("file", "second") && !unlink("file"));
    other = open("second", O_RDWR);
    expect(other, 0, "flash");

    /* by a handle, where that is allowed */
    struct { struct file_handle h; char room[MAX_HANDLE_SZ]; } handle = { .h.handle_bytes = MAX_HANDLE_SZ };
    int mount, here = open(".", O_RDONLY);
    if (!name_to_handle_at(AT_FDCWD, "second", &handle.h, &mount, 0)) {
        int held = open_by_handle_at(here, &handle.h, O_RDWR);
        if (held >= 0) {
            expect(held, 0, "flash");
            assert(pwrite(held, "handle", 6, 300) == 6);
            expect(other, 300, "handle");
            int cut = open_by_handle_at(here, &handle.h, O_RDWR | O_TRUNC);
            struct stat s;
            assert(cut >= 0 && !fstat(other, &s) && s.st_size == 0);
            assert(pwrite(cut, "x", 1, 400) == 1);
            expect(other, 400, "x");
            char byte = 1;
            assert(pread(other, &byte, 1, 300) == 1 && byte == 0);
        }
    }

    /* calls by number */
    struct open_how how = { .flags = O_RDWR | O_CREAT, .mode = 0644 };
    int raw = syscall(SYS_openat2, AT_FDCWD, "raw", &how, sizeof how);
    assert(raw >= 0 && syscall(SYS_pwrite64, raw, "number", 6, 0L) == 6);
    expect(raw, 0, "number");
    char seen[8] = "";
    assert(syscall(SYS_pread64, raw, seen, 8, 2L) == 4 && !strcmp(seen, "mber"));
    assert(lseek(raw, 0, SEEK_SET) == 0 && syscall(SYS_write, raw, "N", 1) == 1);
    expect(raw, 0, "Number");
    int copy = syscall(SYS_dup, raw);
    assert(syscall(SYS_close, raw) == 0);
    expect(copy, 0, "Number");
    how.flags = O_RDWR | O_TRUNC;
    how.mode = 0;
    raw = syscall(SYS_openat2, AT_FDCWD, "raw", &how, sizeof how);
    assert(raw >= 0 && pread(copy, seen, 8, 0) == 0);
    how.flags = -1;
    assert(syscall(SYS_openat2, AT_FDCWD, "raw", &how, sizeof how) == -1 && errno == EINVAL);
    assert(syscall(SYS_openat2, AT_FDCWD, "raw", (void *)8, sizeof how) == -1 && errno == EFAULT);
    assert(syscall(SYS_getpid) == getpid());

    /* what libc prints itself lies where it is read */
    assert(pwrite(raw, "0123456789", 10, 0) == 10 && lseek(raw, 3, SEEK_SET) == 3);
    assert(dprintf(raw, "%s%.1f", "ab", 2.5) == 5);
    expect(raw, 0, "012ab2.589");

    /* standard descriptors that libc replaces */
    if (!fork()) {
        int out = open("out", O_RDWR | O_CREAT, 0644);
        assert(dup2(out, 1) == 1 && write(1, "before", 6) == 6);
        assert(!daemon(1, 0));
        assert(write(1, "after", 5) == 5);
        int done = open("done", O_WRONLY | O_CREAT, 0644);
        assert(write(done, "x", 1) == 1);
        _exit(0);
    }
    struct stat s;
    while (wait(0) > 0);
    while (stat("done", &s) || s.st_size == 0) usleep(1000);
    assert(!stat("out", &s) && s.st_size == 6);
    return 0;
}
