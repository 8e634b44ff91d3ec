/* Children by `_Fork`, and by fork's and clone's numbers, for which libc runs no handlers: each is a process of its own to the
   library. Also from a signal handler, where `_Fork` is allowed, that interrupts requests on the file. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20

static int fd;
static volatile sig_atomic_t forked;

static pid_t by_number(void) { return syscall(SYS_fork); }
static pid_t by_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static void expect(off_t offset, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, strlen(text), offset) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

static void put(off_t offset, const char *text)
{
    assert(pwrite(fd, text, strlen(text), offset) == (ssize_t)strlen(text));
}

static void waited(pid_t child)
{
    int status;
    assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* A child reads, writes, overwrites what its parent wrote, has a child of its own and closes the file, all at the same time as its
   parent writes. */
static void family(pid_t (*make)(void), off_t base)
{
    put(base, "parent");
    put(base + 10, "parent");
    pid_t child = make();
    if (child == 0) {
        expect(base, "parent");
        put(base + 10, "child!");
        expect(base + 10, "child!");
        put(base + 100, "child");
        pid_t grandchild = make();
        if (grandchild == 0) {
            expect(base + 100, "child");
            put(base + 200, "grandchild");
            _exit(0);
        }
        waited(grandchild);
        expect(base + 200, "grandchild");
        _exit(close(fd) != 0);
    }
    put(base + 300, "meanwhile");
    waited(child);
    expect(base, "parent");
    expect(base + 10, "child!");
    expect(base + 100, "child");
    expect(base + 200, "grandchild");
    expect(base + 300, "meanwhile");
}

static void on_alarm(int signal)
{
    (void)signal;
    char text[] = "handler a";
    text[8] += forked;
    pid_t child = _Fork();
    if (child == 0) {
        put(100000 + 100 * forked, text);
        expect(100000 + 100 * forked, text);
        _exit(0);
    }
    waited(child);
    forked++;
}

/* Requests until handlers have forked often enough in between. */
static void interrupted(void)
{
    struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    char text[32], name[32];
    assert(!sigaction(SIGALRM, &action, 0) && !setitimer(ITIMER_REAL, &often, 0));
    for (int k = 0; forked < FORKS; k++) {
        sprintf(text, "request %d", k);
        put(50000 + k % 10 * 64, text);
        expect(50000 + k % 10 * 64, text);
        sprintf(name, "other.%d", k % 3);
        int other = open(name, O_RDWR | O_CREAT, 0644);
        assert(other >= 0 && !close(other));
    }
    assert(!setitimer(ITIMER_REAL, &never, 0));
    for (int k = 0; k < FORKS; k++) {
        char written[] = "handler a";
        written[8] += k;
        expect(100000 + 100 * k, written);
    }
}

int main(void)
{
    fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0);
    family(_Fork, 0);
    family(by_number, 1000);
    family(by_clone, 2000);
    interrupted();
    return 0;
}
