/* Every call that makes a file of a name of its own: what is written to it is absorbed, and read by whoever opens it by name. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH 9000

static void fill(char *bytes, int number)
{
    for (int k = 0; k < LENGTH; k++)
        bytes[k] = (char)(k * 31 + number * 7 + (k >> 8));
}

static int make(int number, char *name)
{
    int with_suffix = number >= 4;
    sprintf(name, "made.%d.XXXXXX%s", number, with_suffix ? ".end" : "");
    switch (number) {
    case 0: return mkstemp(name);
    case 1: return mkstemp64(name);
    case 2: return mkostemp(name, O_CLOEXEC);
    case 3: return mkostemp64(name, O_APPEND);
    case 4: return mkstemps(name, 4);
    case 5: return mkstemps64(name, 4);
    case 6: return mkostemps(name, 4, O_SYNC);
    default: return mkostemps64(name, 4, O_CLOEXEC);
    }
}

int main(void)
{
    static char bytes[LENGTH], seen[LENGTH + 1], other[LENGTH];
    for (int number = 0; number < 8; number++) {
        char name[64], kept[16];
        int fd = make(number, name);
        assert(fd >= 0 && !strstr(name, "XXXXXX"));
        struct stat s;
        assert(!fstat(fd, &s) && (s.st_mode & 07777) == 0600 && s.st_size == 0);
        int flags = fcntl(fd, F_GETFL), on_exec = fcntl(fd, F_GETFD);
        assert((flags & O_ACCMODE) == O_RDWR && !(flags & O_APPEND) == (number != 3) && !(flags & O_SYNC) == (number != 6));
        assert(!(on_exec & FD_CLOEXEC) == (number != 2 && number != 7));
        fill(bytes, number);
        assert(write(fd, bytes, LENGTH - 1000) == LENGTH - 1000);
        assert(write(fd, bytes + LENGTH - 1000, 1000) == 1000);
        int again = open(name, O_RDONLY);
        assert(again >= 0 && pread(again, seen, sizeof seen, 0) == LENGTH && !memcmp(seen, bytes, LENGTH));
        assert(!close(again));
        sprintf(kept, "kept.%d", number);
        assert(!rename(name, kept) && !close(fd));
        /* One without a name, as a scratch file has it. */
        fd = make(number, name);
        assert(fd >= 0 && !unlink(name));
        fill(other, number + 100);
        assert(write(fd, other, LENGTH) == LENGTH);
        assert(pread(fd, seen, sizeof seen, 0) == LENGTH && !memcmp(seen, other, LENGTH));
        assert(!close(fd));
    }
    return 0;
}
