/* Bytes that wait on flash, over a hole of the slow file, stay what they are while the file is allocated. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 4096 };

int main(void)
{
    char written[SIZE], found[SIZE];
    memset(written, 'x', SIZE);
    int fd = open("allocated", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0 && !ftruncate(fd, SIZE) && pwrite(fd, written, SIZE, 0) == SIZE);
    assert(!posix_fallocate(fd, 0, SIZE));
    assert(pread(fd, found, SIZE, 0) == SIZE && !memcmp(found, written, SIZE));
    return 0;
}
