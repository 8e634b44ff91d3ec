/* Streams see what calls wrote, and cut files through the agent. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
    char seen[64] = "";
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, "absorbed", 8, 0) == 8);
    /* what a stream writes is not hidden behind what was absorbed before */
    assert(pwrite(fd, "old old", 7, 100) == 7);
    FILE *both = fopen("file", "r+");
    assert(both && !fseek(both, 100, SEEK_SET) && fputs("new", both) >= 0 && !fclose(both));
    assert(pread(fd, seen, 7, 100) == 7 && !strcmp(seen, "new old"));
    memset(seen, 0, sizeof seen);
    FILE *in = fopen("file", "r");
    assert(in && fread(seen, 1, 8, in) == 8 && !strcmp(seen, "absorbed"));
    int number = fileno(in);
    assert(!fclose(in));
    /* the stream's number is a managed file no more */
    int null = open("/dev/zero", O_RDONLY);
    assert(null == number && read(null, seen, 1) == 1 && seen[0] == 0);
    assert(!close(null));
    assert(pwrite(fd, "again...", 8, 8) == 8);
    FILE *stream = fdopen(dup(fd), "r");
    assert(stream && fseek(stream, 0, SEEK_SET) == 0);
    assert(fread(seen, 1, 16, stream) == 16 && !strncmp(seen, "absorbedagain...", 16));
    stream = freopen("/dev/null", "r", stream);
    assert(stream && fread(seen, 1, 1, stream) == 0 && !fclose(stream));
    /* cut by a stream: nothing of what was absorbed may be seen again */
    FILE *out = fopen("file", "w");
    assert(out && fputs("new", out) >= 0 && !fclose(out));
    memset(seen, 0, sizeof seen);
    assert(pread(fd, seen, 60, 0) == 3 && !strcmp(seen, "new"));
    assert(fopen("file", "wx") == 0);
    assert(pread(fd, seen, 60, 0) == 3);
    /* the same where the stream names it by its descriptor, under which another call put it */
    int other = open("other", O_RDWR | O_CREAT, 0644);
    assert(pwrite(other, "absorbed", 8, 0) == 8);
    out = fopen("/dev/null", "w");
    assert(out && dup2(other, fileno(out)) == fileno(out));
    assert(freopen(NULL, "w", out) == out);
    assert(pread(other, seen, 60, 0) == 0);
    assert(fputs("new", out) >= 0 && !fclose(out));
    assert(pread(other, seen, 60, 0) == 3 && !strncmp(seen, "new", 3));
    return 0;
}
