/* A preloaded allocator that logs each call to the managed file "trace" while its lock is held, as tracing allocators do. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

static __thread int inside;

static void trace(char what)
{
    if (inside) {
        static const char text[] = "malloc was entered from within malloc\n";
        write(2, text, sizeof text - 1);
        _exit(9);
    }
    inside = 1;
    int fd = open("trace", O_WRONLY | O_CREAT, 0644);
    static long at;
    if (fd < 0 || pwrite(fd, &what, 1, __atomic_fetch_add(&at, 1, __ATOMIC_RELAXED) % 65536) != 1 || close(fd)) _exit(8);
    inside = 0;
}

void *malloc(size_t n) { trace('m'); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { trace('c'); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { trace('r'); return __libc_realloc(p, n); }
void free(void *p) { if (p) trace('f'); __libc_free(p); }
