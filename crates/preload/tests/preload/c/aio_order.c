/* A sync that was queued behind a write ends no sooner than the write, however long the thread that carried the write
 * out takes to store its outcome. Both are held up where they touch memory: the write at its first byte, its outcome
 * at the second half of its control block. Ends with 77 where the kernel has no such memory to give. */
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, OUTCOME_OFFSET = 112, LIMIT_MS = 60000, LOOK_MS = 300 };

static int faults;

static char *pages(int count)
{
    char *memory = mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

static void watch(char *page, int mode)
{
    struct uffdio_register all = { .range = { (unsigned long)page, PAGE }, .mode = mode };
    if (ioctl(faults, UFFDIO_REGISTER, &all)) _exit(77);
}

static void protect(char *page, int mode)
{
    struct uffdio_writeprotect change = { .range = { (unsigned long)page, PAGE }, .mode = mode };
    assert(!ioctl(faults, UFFDIO_WRITEPROTECT, &change));
}

/* Waits until a thread is held up at a page. */
static void held_at(char *page)
{
    struct pollfd ready = { faults, POLLIN, 0 };
    struct uffd_msg message;
    assert(poll(&ready, 1, LIMIT_MS) == 1);
    assert(read(faults, &message, sizeof message) == sizeof message && message.event == UFFD_EVENT_PAGEFAULT);
    assert((message.arg.pagefault.address & ~(PAGE - 1UL)) == (unsigned long)page);
}

static void prepare(struct aiocb *block, int fd, char *buffer, size_t length)
{
    memset(block, 0, sizeof *block);
    block->aio_fildes = fd;
    block->aio_buf = buffer;
    block->aio_nbytes = length;
    block->aio_sigevent.sigev_notify = SIGEV_NONE;
}

static void ends_well(struct aiocb *block, ssize_t result)
{
    const struct aiocb *list[] = { block };
    while (aio_error(block) == EINPROGRESS) aio_suspend(list, 1, 0);
    assert(aio_error(block) == 0 && aio_return(block) == result);
}

int main(void)
{
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 77;
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    char *buffer = pages(1), *outcome = pages(2) + PAGE;
    struct aiocb *write = (struct aiocb *)(outcome - OUTCOME_OFFSET), first, sync;
    /* threads are there, and the file is known */
    prepare(&first, fd, "begin", 5);
    assert(!aio_write(&first));
    ends_well(&first, 5);

    prepare(write, fd, buffer, 5);
    watch(buffer, UFFDIO_REGISTER_MODE_MISSING);
    watch(outcome, UFFDIO_REGISTER_MODE_WP);
    assert(!aio_write(write));
    held_at(buffer);
    prepare(&sync, fd, 0, 0);
    assert(!aio_fsync(O_SYNC, &sync));
    protect(outcome, UFFDIO_WRITEPROTECT_MODE_WP);
    struct uffdio_zeropage zero = { .range = { (unsigned long)buffer, PAGE } };
    assert(!ioctl(faults, UFFDIO_ZEROPAGE, &zero));
    held_at(outcome);
    for (int ms = 0; ms < LOOK_MS; ms++) {
        assert(aio_error(write) == EINPROGRESS);
        assert(aio_error(&sync) == EINPROGRESS && "a sync is not done before what it syncs");
        usleep(1000);
    }
    protect(outcome, 0);
    ends_well(write, 5);
    ends_well(&sync, 0);
    return 0;
}
