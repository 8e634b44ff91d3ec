/* What each call takes of the stack, in a handler on a stack of its own and in a thread: `NAME HANDLER THREAD`, in bytes. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20, UNTOUCHED = 0x5a };

static const char *const CALLS[] = { "read", "write", "readv", "create", "cut", "append", "rename", "link", "unlink", "stat", "fsync",
                                     "utime", "truncate", "exec" };
static const char *call;
static int fd;

static int is(const char *name)
{
    return !strcmp(call, name);
}

static void work(void)
{
    char bytes[64] = "bytes";
    struct stat found;
    struct iovec parts[2] = { { bytes, 32 }, { bytes + 32, 32 } };
    if (is("read")) assert(pread(fd, bytes, 64, 100) == 64);
    else if (is("write")) assert(pwrite(fd, bytes, 64, 100) == 64);
    else if (is("readv")) assert(preadv(fd, parts, 2, 100) == 64);
    else if (is("stat")) assert(!stat("file", &found));
    else if (is("fsync")) assert(!fsync(fd));
    else if (is("utime")) assert(!utimensat(AT_FDCWD, "file", 0, 0));
    else if (is("truncate")) assert(!truncate("file", 8192));
    else if (is("exec")) assert(execlp("no-such-program", "none", (char *)0) == -1);
    else {
        int flags = is("cut") ? O_TRUNC : is("append") ? O_APPEND : 0;
        int opened = open("other", O_RDWR | O_CREAT | flags, 0644);
        assert(opened >= 0 && write(opened, bytes, 64) == 64);
        if (is("rename")) assert(!rename("other", "renamed"));
        if (is("link")) assert(!link("other", "second") && !unlink("second"));
        if (is("unlink")) assert(!unlink("other"));
        assert(!close(opened));
    }
}

static void handler(int signal)
{
    work();
}

static void *thread(void *nothing)
{
    work();
    return 0;
}

static char *stack(void)
{
    char *memory = mmap(0, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memset(memory, UNTOUCHED, STACK_BYTES);
}

static size_t used(const char *memory)
{
    size_t at = 0;
    while (at < STACK_BYTES && memory[at] == UNTOUCHED) at++;
    return STACK_BYTES - at;
}

int main(void)
{
    char whole[8192] = "";
    fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0 && pwrite(fd, whole, sizeof whole, 0) == sizeof whole);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    assert(!sigaction(SIGUSR1, &action, 0));
    for (size_t k = 0; k < sizeof CALLS / sizeof *CALLS; k++) {
        call = CALLS[k];
        char *aside = stack(), *below = stack();
        assert(!sigaltstack(&(stack_t){ .ss_sp = aside, .ss_size = STACK_BYTES }, 0) && !raise(SIGUSR1));
        pthread_attr_t attributes;
        pthread_t number;
        assert(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, below, STACK_BYTES));
        assert(!pthread_create(&number, &attributes, thread, 0) && !pthread_join(number, 0));
        printf("%s %zu %zu\n", call, used(aside), used(below));
    }
    return 0;
}
