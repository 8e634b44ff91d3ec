/* Descriptors over fork, vfork and exec. Called again as `children read FD TEXT` it checks a descriptor it inherited. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int fd, long offset, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, strlen(text), offset) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

static void waited(void)
{
    int status;
    assert(wait(&status) > 0);
    assert(status == 0);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        expect(atoi(argv[2]), 0, argv[3]);
        assert(pwrite(atoi(argv[2]), "exec", 4, 200) == 4);
        return 0;
    }
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, "parent", 6, 0) == 6);
    /* a forked child reads its parent's bytes and writes its own; the parent goes on */
    if (fork() == 0) {
        expect(fd, 0, "parent");
        assert(pwrite(fd, "child", 5, 100) == 5);
        expect(fd, 100, "child");
        if (fork() == 0) {
            expect(fd, 100, "child");
            assert(pwrite(fd, "grandchild", 10, 300) == 10);
            assert(!close(fd));
            exit(0);
        }
        waited();
        expect(fd, 300, "grandchild");
        exit(0);
    }
    assert(pwrite(fd, "PARENT", 6, 50) == 6);
    waited();
    expect(fd, 50, "PARENT");
    expect(fd, 100, "child");
    expect(fd, 300, "grandchild");
    /* the shared offset */
    assert(lseek(fd, 0, SEEK_SET) == 0);
    if (fork() == 0) {
        char seen[7] = "";
        assert(read(fd, seen, 6) == 6 && !strcmp(seen, "parent"));
        exit(0);
    }
    waited();
    assert(lseek(fd, 0, SEEK_CUR) == 6);
    /* exec with an inherited descriptor */
    char number[16];
    sprintf(number, "%d", fd);
    if (fork() == 0) {
        execl(argv[0], argv[0], "read", number, "parent", (char *)0);
        abort();
    }
    waited();
    expect(fd, 200, "exec");
    /* a vfork child shares the table, not the descriptors */
    if (vfork() == 0) {
        close(fd);
        dup2(1, fd + 1);
        _exit(0);
    }
    waited();
    expect(fd, 0, "parent");
    assert(pwrite(fd, "after", 5, 400) == 5);
    expect(fd, 400, "after");
    assert(!close(fd));
    /* opened in the parent after all that */
    fd = open("file", O_RDONLY);
    expect(fd, 400, "after");
    /* a vfork child cuts it */
    if (vfork() == 0) {
        int cut = open("file", O_WRONLY | O_TRUNC);
        _exit(cut < 0 || close(cut));
    }
    waited();
    char left[8];
    assert(pread(fd, left, sizeof left, 0) == 0);
    assert(pread(fd, left, sizeof left, 400) == 0);
    return 0;
}
