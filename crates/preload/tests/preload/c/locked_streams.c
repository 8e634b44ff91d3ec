/* A thread that holds a stream's lock uses the stream while another thread reopens or closes it; and streams are closed while all
 * are flushed. Nobody waits for ever. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { LIMIT_S = 60, BEGIN_US = 300000, ROUNDS = 2000 };

static FILE *stream;
static volatile int over;

static void *reopens(void *nothing)
{
    assert(freopen("other", "r", stream) == stream);
    return 0;
}

static void *closes(void *nothing)
{
    assert(!fclose(stream));
    return 0;
}

static void *flushes(void *nothing)
{
    while (!over) fflush(NULL);
    return 0;
}

/* `work` is given time to begin. */
static void uses_during(void *(*work)(void *))
{
    pthread_t thread;
    flockfile(stream);
    assert(!pthread_create(&thread, 0, work, 0));
    usleep(BEGIN_US);
    assert(getc(stream) == 'f' && getc(stream) == 'i');
    funlockfile(stream);
    assert(!pthread_join(thread, 0));
}

static void absorbed(const char *name, const char *text)
{
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, text, 5, 0) == 5 && !close(fd));
}

int main(void)
{
    alarm(LIMIT_S);
    absorbed("file", "first");
    absorbed("other", "final");
    assert((stream = fopen("file", "r")));
    uses_during(reopens);
    assert(getc(stream) == 'f' && getc(stream) == 'i' && getc(stream) == 'n');
    rewind(stream);
    uses_during(closes);

    pthread_t thread;
    assert(!pthread_create(&thread, 0, flushes, 0));
    for (int k = 0; k < ROUNDS; k++) {
        FILE *out = fopen("out", "w");
        assert(out && fputs("text", out) >= 0 && !fclose(out));
    }
    over = 1;
    return pthread_join(thread, 0);
}
