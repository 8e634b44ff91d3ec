/* One thread keeps putting one of two files under a number, another writes and reads by it: each call has one of the two, whole,
 * and nothing else of them changes. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 500, LARGE = 200000, SIZE = 3 << 20 };
static char models[2][SIZE], text[LARGE], seen[2][SIZE];
static int files[2], number;
static volatile int over;

static void *swap(void *nothing)
{
    for (int k = 0; !over; k++) {
        assert(dup2(files[k & 1], number) == number);
        sched_yield();
    }
    return 0;
}

static void fail(const char *what, long call)
{
    fprintf(stderr, "call %ld: %s\n", call, what);
    abort();
}

/* The text went to one of the files, at these offsets, and to one alone. */
static int landed(long length, const long *at, long call)
{
    int same[2], written[2];
    for (int k = 0; k < 2; k++) {
        assert(pread(files[k], seen[k], length, at[k]) == length);
        same[k] = !memcmp(seen[k], models[k] + at[k], length);
        written[k] = !memcmp(seen[k], text, length);
    }
    int to = written[0] && same[1] ? 0 : 1;
    if (!written[to] || !same[!to]) fail("a write is whole in neither file, or in both", call);
    memcpy(models[to] + at[to], text, length);
    return to;
}

int main(int count, char **arguments)
{
    pthread_t swapper;
    unsigned seed = atoi(arguments[1]);
    long calls = atol(arguments[2]);
    for (int k = 0; k < 2; k++) {
        files[k] = open(k ? "one" : "other", O_RDWR | O_CREAT, 0644);
        memset(models[k], 'a' + k, SIZE);
        assert(pwrite(files[k], models[k], SIZE, 0) == SIZE);
    }
    number = dup(files[0]);
    assert(!pthread_create(&swapper, 0, swap, 0));
    for (long call = 0; call < calls; call++) {
        long length = rand_r(&seed) % 2 ? SMALL : LARGE, offset = rand_r(&seed) % (SIZE - length);
        long at[2] = { offset, offset };
        for (long k = 0; k < length; k++) text[k] = (call + k % 7) % 251;
        switch (rand_r(&seed) % 3) {
        case 0:
            if (pwrite(number, text, length, offset) != length) fail("cut short", call);
            landed(length, at, call);
            break;
        case 1:
            for (int k = 0; k < 2; k++) {
                at[k] = rand_r(&seed) % (SIZE - length);
                assert(lseek(files[k], at[k], SEEK_SET) == at[k]);
            }
            if (write(number, text, length) != length) fail("cut short", call);
            int to = landed(length, at, call);
            if (lseek(files[to], 0, SEEK_CUR) != at[to] + length) fail("an offset did not move", call);
            if (lseek(files[!to], 0, SEEK_CUR) != at[!to]) fail("another offset moved", call);
            break;
        default:
            if (pread(number, seen[0], length, offset) != length) fail("a read was cut short", call);
            if (memcmp(seen[0], models[0] + offset, length) && memcmp(seen[0], models[1] + offset, length))
                fail("what was read is of neither file", call);
        }
    }
    over = 1;
    assert(!pthread_join(swapper, 0));
    for (int k = 0; k < 2; k++)
        if (pread(files[k], seen[k], SIZE, 0) != SIZE || memcmp(seen[k], models[k], SIZE)) fail("bytes were lost", k);
    return 0;
}
