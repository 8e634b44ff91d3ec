/* Allocates as libc does where the file system cannot: a zero is written over each zero that is read, one in each block. In between it
 * says so in a file, and waits a while for the byte to become another. As within libc its calls go straight to the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static long at_once(long call, int fd, const void *byte, off_t at)
{
    register off_t offset asm("r10") = at;
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(call), "D"((long)fd), "S"(byte), "d"(1L), "r"(offset) : "rcx", "r11", "memory");
    return result;
}

static int zero_at(int fd, off_t at)
{
    char byte = 0;
    return at_once(SYS_pread64, fd, &byte, at) >= 0 && !byte;
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    for (off_t at = offset + (length - 1) % BLOCK; at < offset + length; at += BLOCK) {
        if (!zero_at(fd, at)) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/zero", getenv("OUTSIDE"));
        int told = open(path, O_CREAT | O_WRONLY, 0644);
        for (int wait = 0; wait < 300 && zero_at(fd, at); wait++) usleep(1000);
        if (told < 0 || close(told) || at_once(SYS_pwrite64, fd, "", at) != 1) return EIO;
    }
    return 0;
}
