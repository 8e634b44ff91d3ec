/* The null interposer: takes the place of the symbols that move bytes, open and close, and passes every call on. Whatever
 * it costs is the price of being preloaded at all; every figure of overhead is a difference to a run under it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* One function: its result, name, parameters and arguments. */
#define PASS(result, name, parameters, arguments)                                                                                \
    result name parameters {                                                                                                     \
        static result(*next) parameters;                                                                                         \
        if (!next) {                                                                                                             \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                                                           \
        }                                                                                                                        \
        return next arguments;                                                                                                   \
    }

/* The same for the two names a call has. */
#define BOTH(result, name, parameters, arguments)                                                                                \
    PASS(result, name, parameters, arguments)                                                                                    \
    PASS(result, name##64, parameters, arguments)

#define OPEN(name, first, pass)                                                                                                  \
    int name(first const char *path, int flags, ...) {                                                                           \
        static int (*next)(first const char *, int, ...);                                                                        \
        va_list list;                                                                                                            \
        va_start(list, flags);                                                                                                   \
        mode_t mode = va_arg(list, mode_t);                                                                                      \
        va_end(list);                                                                                                            \
        if (!next) {                                                                                                             \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                                                           \
        }                                                                                                                        \
        return next(pass path, flags, mode);                                                                                     \
    }

#define NOTHING
#define DIRECTORY int directory,
#define PASSED_DIRECTORY directory,

OPEN(open, NOTHING, NOTHING)
OPEN(open64, NOTHING, NOTHING)
OPEN(openat, DIRECTORY, PASSED_DIRECTORY)
OPEN(openat64, DIRECTORY, PASSED_DIRECTORY)
PASS(int, close, (int fd), (fd))
PASS(int, dup, (int fd), (fd))
PASS(int, dup2, (int fd, int to), (fd, to))
PASS(ssize_t, read, (int fd, void *buffer, size_t length), (fd, buffer, length))
PASS(ssize_t, write, (int fd, const void *buffer, size_t length), (fd, buffer, length))
BOTH(ssize_t, pread, (int fd, void *buffer, size_t length, off_t offset), (fd, buffer, length, offset))
BOTH(ssize_t, pwrite, (int fd, const void *buffer, size_t length, off_t offset), (fd, buffer, length, offset))
PASS(ssize_t, readv, (int fd, const struct iovec *vector, int count), (fd, vector, count))
PASS(ssize_t, writev, (int fd, const struct iovec *vector, int count), (fd, vector, count))
BOTH(ssize_t, preadv, (int fd, const struct iovec *vector, int count, off_t offset), (fd, vector, count, offset))
BOTH(ssize_t, pwritev, (int fd, const struct iovec *vector, int count, off_t offset), (fd, vector, count, offset))
BOTH(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence))
PASS(int, fsync, (int fd), (fd))
PASS(int, fdatasync, (int fd), (fd))
BOTH(int, ftruncate, (int fd, off_t size), (fd, size))
PASS(int, stat, (const char *path, struct stat *found), (path, found))
PASS(int, lstat, (const char *path, struct stat *found), (path, found))
PASS(int, fstat, (int fd, struct stat *found), (fd, found))
PASS(int, unlink, (const char *path), (path))
