/* pclose closes its descriptor and then waits for its child: meanwhile the number is given to a managed file. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static FILE *child;
static int hold[2], channel[2];
static pthread_t closer;

static void *closes(void *nothing)
{
    assert(pclose(child) == 0);
    return 0;
}

/* A number that pclose has closed; it goes on waiting until `ended`. */
static int lingering(void)
{
    char command[64], line[16] = "";
    sprintf(command, "echo up; read line <&%d", hold[0]);
    assert((child = popen(command, "r")) && fgets(line, sizeof line, child) && !strcmp(line, "up\n"));
    int fd = fileno(child);
    assert(!pthread_create(&closer, 0, closes, 0));
    while (fcntl(fd, F_GETFD) != -1) usleep(100);
    return fd;
}

static void ended(void)
{
    assert(write(hold[1], "\n", 1) == 1 && !pthread_join(closer, 0));
}

static struct msghdr message(char *room, size_t length)
{
    static char byte;
    static struct iovec part = { &byte, 1 };
    return (struct msghdr){ .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = length };
}

static void sends(int fd)
{
    char room[CMSG_SPACE(sizeof fd)] = "";
    struct msghdr sent = message(room, sizeof room);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&sent);
    *rights = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    assert(sendmsg(channel[0], &sent, 0) == 1);
}

static int receives(void)
{
    int fd;
    char room[CMSG_SPACE(sizeof fd)];
    struct msghdr received = message(room, sizeof room);
    assert(recvmsg(channel[1], &received, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&received)), sizeof fd);
    return fd;
}

int main(void)
{
    char seen[16] = "";
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0 && pwrite(fd, "flash\n", 6, 0) == 6);
    /* the child ends with this program, whatever becomes of it */
    assert(!pipe(hold) && hold[0] < 10 && !fcntl(hold[1], F_SETFD, FD_CLOEXEC));
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel));

    /* by a message */
    sends(fd);
    int number = lingering();
    assert(receives() == number);
    assert(pread(number, seen, 6, 0) == 6 && !strcmp(seen, "flash\n"));
    assert(pwrite(number, "F", 1, 0) == 1 && pread(fd, seen, 6, 0) == 6 && !strcmp(seen, "Flash\n"));
    /* the end of the close leaves alone what the number is by now */
    ended();
    assert(pwrite(number, "f", 1, 0) == 1 && pread(fd, seen, 6, 0) == 6 && !strcmp(seen, "flash\n"));
    assert(!close(number));

    /* by a stream */
    number = lingering();
    FILE *in = fopen("file", "r");
    assert(in && fileno(in) == number && fgets(seen, sizeof seen, in) && !strcmp(seen, "flash\n"));
    ended();
    return fclose(in);
}
