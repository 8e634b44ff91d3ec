/* Number 0 comes to be a managed file in every way there is: libc's standard input reads what flash had of it. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *names[] = { "dup2", "dup3", "dup", "fcntl", "open", "number", "message" };
enum { DUP2, DUP3, DUP, FCNTL, OPEN, NUMBER, MESSAGE, FILES };

static void reads(const char *expected)
{
    char line[64] = "";
    assert(fgets(line, sizeof line, stdin));
    if (strcmp(line, expected)) {
        fprintf(stderr, "%s, not %s\n", line, expected);
        abort();
    }
}

static void adds(int fd, const char *line)
{
    assert(pwrite(fd, line, strlen(line), lseek(0, 0, SEEK_CUR)) == (ssize_t)strlen(line));
}

static void sends(int socket, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    assert(sendmsg(socket, &message, 0) == 1);
}

static void receives(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    assert(recvmsg(socket, &message, 0) == 1);
}

int main(void)
{
    int fds[FILES], pair[2];
    char line[64], template[] = "madeXXXXXX";
    for (int k = 0; k < FILES; k++) {
        fds[k] = open(names[k], O_RDWR | O_CREAT, 0644);
        sprintf(line, "%s\n", names[k]);
        assert(fds[k] > 0 && pwrite(fds[k], line, strlen(line), 0) == (ssize_t)strlen(line));
    }
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));

    assert(dup2(fds[DUP2], 0) == 0);
    reads("dup2\n");
    /* and nothing comes to flash from then on */
    adds(fds[DUP2], "later\n");
    reads("later\n");
    assert(dup3(fds[DUP3], 0, 0) == 0);
    reads("dup3\n");
    assert(!close(0) && dup(fds[DUP]) == 0);
    reads("dup\n");
    assert(!close(0) && fcntl(fds[FCNTL], F_DUPFD, 0) == 0);
    reads("fcntl\n");
    assert(!close(0) && open("open", O_RDONLY) == 0);
    reads("open\n");
    assert(syscall(SYS_dup3, fds[NUMBER], 0, 0) == 0);
    reads("number\n");
    sends(pair[1], fds[MESSAGE]);
    assert(!close(0));
    receives(pair[0]);
    reads("message\n");
    assert(!close(0) && mkstemp(template) == 0);
    adds(0, "made\n");
    reads("made\n");
    /* what cannot be read goes on using flash */
    assert(!close(0) && open("written", O_WRONLY | O_CREAT, 0644) == 0);
    assert(pwrite(0, "absorbed", 8, 0) == 8);
    return 0;
}
