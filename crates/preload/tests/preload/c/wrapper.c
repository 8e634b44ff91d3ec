/* A preloaded library that calls libc's functions as it finds them in libc itself. */
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    static ssize_t (*libc)(int, const void *, size_t, off_t);
    if (!libc)
        libc = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(dlopen("libc.so.6", RTLD_LAZY), "pwrite");
    return libc(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) { return pwrite(fd, bytes, length, offset); }
