/* One thread keeps replacing a descriptor by others of the same file, which is atomic; the rest never notice. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int sources[2], shared;
static volatile int over;

static void *replace(void *nothing)
{
    for (int k = 0; !over; k++) assert(dup2(sources[k & 1], shared) == shared);
    return 0;
}

static void *use(void *number)
{
    long base = (long)number * 100000;
    for (long k = 0; k < 3000; k++) {
        char text[16], seen[16] = "";
        sprintf(text, "%015ld", k);
        if (pwrite(shared, text, 15, base + k % 7 * 1000) != 15) { perror("pwrite"); abort(); }
        if (pread(shared, seen, 15, base + k % 7 * 1000) != 15) { perror("pread"); abort(); }
        if (strcmp(seen, text)) { fprintf(stderr, "%s, not %s\n", seen, text); abort(); }
    }
    return 0;
}

int main(void)
{
    sources[0] = open("file", O_RDWR | O_CREAT, 0644);
    sources[1] = open("file", O_RDWR);
    shared = dup(sources[0]);
    pthread_t replacer, users[3];
    assert(!pthread_create(&replacer, 0, replace, 0));
    for (long k = 0; k < 3; k++) assert(!pthread_create(&users[k], 0, use, (void *)k));
    for (int k = 0; k < 3; k++) assert(!pthread_join(users[k], 0));
    over = 1;
    return pthread_join(replacer, 0);
}
