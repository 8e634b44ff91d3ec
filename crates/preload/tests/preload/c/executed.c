/* Programs that are executed by a descriptor: each finds a managed file that it inherited, and is whole itself though its bytes
   were on flash alone. Called again as `executed NUMBER FD` it is such a program. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FEXECVE, EMPTY_PATH, BESIDE, BY_NUMBER, HOWS };

static void expect(int fd, off_t offset, const char *text)
{
    char seen[64] = "";
    assert(pread(fd, seen, strlen(text), offset) == (ssize_t)strlen(text));
    assert(!strcmp(seen, text));
}

static void copy(const char *source, const char *target)
{
    static char bytes[512];
    int from = open(source, O_RDONLY), to = open(target, O_WRONLY | O_CREAT | O_EXCL, 0755);
    assert(from >= 0 && to >= 0);
    for (ssize_t count; (count = read(from, bytes, sizeof bytes)) != 0;)
        assert(count > 0 && write(to, bytes, count) == count);
    assert(!close(from) && !close(to));
}

static void execute(int how, const char *name, char **arguments)
{
    int program = open(name, O_RDONLY | O_CLOEXEC), directory = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(program >= 0 && directory >= 0);
    switch (how) {
    case FEXECVE: fexecve(program, arguments, environ); break;
    case EMPTY_PATH: execveat(program, "", arguments, environ, AT_EMPTY_PATH); break;
    case BESIDE: execveat(directory, name, arguments, environ, 0); break;
    default: syscall(SYS_execveat, program, "", arguments, environ, AT_EMPTY_PATH);
    }
    perror("exec");
    abort();
}

int main(int argc, char **argv)
{
    char text[64], number[16], descriptor[16], name[32];
    if (argc == 3) {
        int fd = atoi(argv[2]), how = atoi(argv[1]);
        sprintf(text, "before %d", how);
        expect(fd, how * 1000, text);
        char seen[16] = "";
        assert(read(fd, seen, 6) == 6 && !strcmp(seen, "before"));
        sprintf(text, "executed %d", how);
        assert(pwrite(fd, text, strlen(text), how * 1000 + 500) == (ssize_t)strlen(text));
        return 0;
    }
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    assert(fd >= 0);
    for (int how = 0; how < HOWS; how++) {
        sprintf(name, "program.%d", how);
        copy(argv[0], name);
        sprintf(text, "before %d", how);
        assert(pwrite(fd, text, strlen(text), how * 1000) == (ssize_t)strlen(text));
        assert(lseek(fd, how * 1000, SEEK_SET) == how * 1000);
        sprintf(number, "%d", how);
        sprintf(descriptor, "%d", fd);
        pid_t child = fork();
        if (child == 0)
            execute(how, name, (char *[]) { name, number, descriptor, 0 });
        int status;
        assert(waitpid(child, &status, 0) == child && status == 0);
        /* The offset is shared with it. */
        assert(lseek(fd, 0, SEEK_CUR) == how * 1000 + 6);
        sprintf(text, "executed %d", how);
        expect(fd, how * 1000 + 500, text);
    }
    /* What is no program changes nothing. */
    assert(fexecve(fd, (char *[]) { "file", 0 }, environ) == -1 && errno == EACCES);
    assert(execveat(fd, "", (char *[]) { "file", 0 }, environ, AT_EMPTY_PATH) == -1 && errno == EACCES);
    expect(fd, 0, "before 0");
    return 0;
}
