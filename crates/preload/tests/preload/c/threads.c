/* Many short threads; signals whose handler writes; a thread cancelled in a blocking read of a pipe. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int fd, pipes[2];
static volatile long handled;

static void *brief(void *number)
{
    char text[8] = "1234567", seen[8] = "";
    long offset = 100 + (long)number * 8;
    assert(pwrite(fd, text, 7, offset) == 7);
    assert(pread(fd, seen, 7, offset) == 7 && !strcmp(seen, text));
    return 0;
}

static void on_alarm(int signal)
{
    char seen[4] = "";
    handled++;
    assert(pwrite(fd, "sig", 3, 50) == 3);
    assert(pread(fd, seen, 3, 50) == 3 && !strcmp(seen, "sig"));
}

static void *blocked(void *nothing)
{
    char byte;
    return (void *)read(pipes[0], &byte, 1);
}

int main(void)
{
    fd = open("file", O_RDWR | O_CREAT, 0644);
    for (long k = 0; k < 200; k++) {
        pthread_t t;
        assert(!pthread_create(&t, 0, brief, (void *)k) && !pthread_join(t, 0));
    }
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (int k = 0; k < 5000 || handled < 20; k++) {
        char seen[6] = "";
        assert(pwrite(fd, "12345", 5, 5000 + k % 1000) == 5);
        assert(pread(fd, seen, 5, 5000 + k % 1000) == 5 && !strcmp(seen, "12345"));
    }
    setitimer(ITIMER_REAL, &never, 0);
    pthread_t t;
    void *result;
    assert(!pipe(pipes) && !pthread_create(&t, 0, blocked, 0));
    usleep(50000);
    assert(!pthread_cancel(t) && !pthread_join(t, &result) && result == PTHREAD_CANCELED);
    return 0;
}
