/* While a call on a number waits for the agent, another thread puts another file under the number: the call ends on the file that
 * it began on. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 100, LARGE = 1 << 20 };
static char large[LARGE], seen[LARGE];
static int one, other, number, outside;

static void *write_it(void *nothing)
{
    memset(large, 'n', LARGE);
    assert(pwrite(number, large, LARGE, 0) == LARGE);
    return 0;
}

static void *read_it(void *nothing)
{
    assert(read(number, seen, 4096) == SMALL && seen[0] == 'a');
    return 0;
}

static void *cut_it(void *nothing)
{
    assert(ftruncate(number, 10) == 0);
    return 0;
}

static void *send_it(void *nothing)
{
    off_t from = 0;
    assert(sendfile(outside, number, &from, SMALL) == SMALL);
    return 0;
}

static void *copy_it(void *nothing)
{
    off_t from = 0, to = 0;
    assert(copy_file_range(number, &from, outside, &to, SMALL, 0) == SMALL);
    return 0;
}

static void until_told(const char *said)
{
    char line[64];
    assert(puts(said) >= 0 && !fflush(stdout) && fgets(line, sizeof line, stdin));
}

int main(int count, char **arguments)
{
    char kind = arguments[1][0], path[4096];
    int copies = kind == 's' || kind == 'd';
    void *(*call)(void *) = kind == 'w' ? write_it : kind == 'r' ? read_it : kind == 's' ? send_it : kind == 'd' ? copy_it : cut_it;
    pthread_t thread;
    struct stat of_one, of_other;
    one = open("one", O_RDWR | O_CREAT, 0644);
    other = open("other", O_RDWR | O_CREAT, 0644);
    memset(large, 'a', SMALL);
    assert(pwrite(one, large, SMALL, 0) == SMALL);
    memset(large, 'b', SMALL);
    assert(pwrite(other, large, SMALL, 0) == SMALL && lseek(other, 5000, SEEK_SET) == 5000);
    snprintf(path, sizeof path, "%s/copy", getenv("OUTSIDE"));
    assert((outside = open(path, O_RDWR | O_CREAT, 0644)) >= 0);
    number = dup(one);
    until_told("ready");
    assert(!pthread_create(&thread, 0, call, 0));
    until_told("called");
    puts("replacing");
    fflush(stdout);
    assert(dup2(other, number) == number);
    assert(!pthread_join(thread, 0));

    assert(!fstat(one, &of_one) && of_one.st_size == (kind == 'w' ? LARGE : kind == 'c' ? 10 : SMALL));
    assert(!fstat(other, &of_other) && of_other.st_size == SMALL);
    assert(lseek(other, 0, SEEK_CUR) == 5000 && lseek(one, 0, SEEK_CUR) == (kind == 'r' ? SMALL : 0));
    assert(pread(other, seen, LARGE, 0) == SMALL && seen[0] == 'b' && seen[SMALL - 1] == 'b');
    assert(pread(number, seen, 1, 0) == 1 && seen[0] == 'b');
    assert(pread(one, seen, LARGE, 0) == of_one.st_size);
    for (long at = 0; at < of_one.st_size; at++) assert(seen[at] == (kind == 'w' ? 'n' : 'a'));
    if (copies) assert(pread(outside, seen, LARGE, 0) == SMALL && seen[0] == 'a' && seen[SMALL - 1] == 'a');
    return 0;
}
