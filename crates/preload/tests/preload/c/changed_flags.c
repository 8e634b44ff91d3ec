/* O_APPEND comes and goes: for a descriptor that arrived beside the one it is a duplicate of, while others are closed, and inside
 * fdopen. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 2000 };

static volatile int over;

static void expect(int fd, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, sizeof seen - 1, 0) == (ssize_t)strlen(text) && !strcmp(seen, text));
}

/* A duplicate that came over a socket. */
static int arrived(int fd)
{
    int pair[2], got;
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    assert(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    assert(!close(pair[0]) && !close(pair[1]));
    return got;
}

/* Numbers are closed, and mean other files, while flags are asked for. */
static void *opens(void *nothing)
{
    while (!over) {
        int fd = open("file", O_RDWR), other = open("other", O_RDWR | O_CREAT | O_APPEND, 0644);
        assert(fd >= 0 && other >= 0 && !close(fd) && !close(other));
    }
    return 0;
}

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, "flash", 5, 0) == 5);
    int other = arrived(fd);
    assert(!fcntl(other, F_SETFL, O_APPEND) && write(fd, " ends", 5) == 5);
    expect(other, "flash ends");
    assert(lseek(fd, 0, SEEK_CUR) == 10);
    assert(!fcntl(fd, F_SETFL, 0) && pwrite(other, "F", 1, 0) == 1);
    expect(fd, "Flash ends");

    pthread_t thread;
    assert(!pthread_create(&thread, 0, opens, 0));
    for (int k = 0; k < ROUNDS; k++) {
        assert(!fcntl(fd, F_SETFL, O_APPEND) && !fcntl(fd, F_SETFL, 0));
        assert(pwrite(other, k % 2 ? "F" : "f", 1, 0) == 1);
    }
    over = 1;
    assert(!pthread_join(thread, 0));
    expect(fd, "Flash ends");

    int log = open("log", O_RDWR | O_CREAT, 0644);
    assert(write(log, "one ", 4) == 4);
    FILE *stream = fdopen(log, "a+");
    assert(stream && !lseek(log, 0, SEEK_SET) && write(log, "two", 3) == 3 && lseek(log, 0, SEEK_CUR) == 7);
    expect(log, "one two");
    return fclose(stream);
}
