/* Functions that are looked up in libc itself, or bound past what is preloaded, are the hooks all the same; other look-ups are libc's. */
#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int main(int count, char **argument)
{
    char found[8] = {0};
    assert(count == 2);
    void *libc = dlopen("libc.so.6", RTLD_NOW), *plugin = dlopen(argument[1], RTLD_NOW | RTLD_DEEPBIND);
    assert(libc && plugin);
    int (*put)(const char *) = (int (*)(const char *))dlsym(plugin, "put");
    assert(put && !put("by-plugin"));

    int (*opened)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(libc, "open");
    ssize_t (*written)(int, const void *, size_t, off_t) =
        (ssize_t (*)(int, const void *, size_t, off_t))dlvsym(libc, "pwrite", "GLIBC_2.2.5");
    if (!written)
        written = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(libc, "pwrite");
    int fd = opened("by-hand", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0 && written(fd, "by hand", 7, 0) == 7);
    assert(pread(fd, found, 7, 0) == 7 && !strcmp(found, "by hand"));
    assert(opened == open && written == pwrite && dlsym(plugin, "open") == (void *)open);

    assert(!dlsym(libc, "no such function") && dlerror() && !dlerror());
    assert(dlsym(libc, "strlen") == dlsym(RTLD_DEFAULT, "strlen") && !dlerror());
    assert(dlsym(RTLD_NEXT, "open") == (void *)open && dlsym(RTLD_DEFAULT, "open") == (void *)open);
    return 0;
}
