/* A plugin that writes a file. */
#include <fcntl.h>
#include <unistd.h>

int put(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    return fd < 0 || pwrite(fd, "plugin", 6, 0) != 6 || close(fd);
}
