/* Every way to start a program, with an environment that lacks the library; each child reads what lies on flash alone. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char cat[] = "/bin/cat", *arguments[] = { cat, "f", 0 }, *nothing[] = { 0 };
static char *others[] = { "LD_PRELOAD=libm.so.6 libdl.so.2", "HEADSTART_RUNTIME=", 0 };

enum { EXECVE, NO_LIST, REPLACED, EXECV, EXECVP, EXECVPE, EXECL, EXECLE, EXECLP, EXECVEAT, FEXECVE, BY_NUMBER, EXECS };

static void execute(int way)
{
    switch (way) {
    case EXECVE: execve(cat, arguments, nothing); break;
    case NO_LIST: execve(cat, arguments, NULL); break;
    case REPLACED: execve(cat, arguments, others); break;
    case EXECV: execv(cat, arguments); break;
    case EXECVP: execvp("cat", arguments); break;
    case EXECVPE: execvpe("cat", arguments, nothing); break;
    case EXECL: execl(cat, cat, "-u", "-u", "-u", "-u", "-u", "-u", "f", (char *)0); break;
    case EXECLE: execle(cat, cat, "-u", "-u", "-u", "-u", "-u", "f", (char *)0, nothing); break;
    case EXECLP: execlp("cat", "cat", "f", (char *)0); break;
    case EXECVEAT: execveat(AT_FDCWD, cat, arguments, nothing, 0); break;
    case FEXECVE: fexecve(open(cat, O_RDONLY | O_CLOEXEC), arguments, nothing); break;
    case BY_NUMBER: syscall(SYS_execve, cat, arguments, nothing); break;
    }
    _exit(99);
}

/* What comes out of the pipe is the file, once. */
static void expect(int from, const char *expected, int way)
{
    char seen[65536];
    ssize_t length = 0, got;
    while ((got = read(from, seen + length, sizeof seen - length)) > 0) length += got;
    if (length != 8192 || memcmp(seen, expected, 8192)) {
        fprintf(stderr, "way %d: %zd bytes\n", way, length);
        abort();
    }
    close(from);
}

static void reap(pid_t child)
{
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
}

static void start_each(const char *expected)
{
    int ends[2];
    for (int way = 0; way < 2 * EXECS; way++) {
        assert(!pipe(ends));
        pid_t child = way < EXECS ? fork() : vfork();
        if (!child) {
            dup2(ends[1], 1);
            execute(way % EXECS);
        }
        close(ends[1]);
        expect(ends[0], expected, way);
        reap(child);
    }
    for (int by_name = 0; by_name < 2; by_name++) {
        posix_spawn_file_actions_t actions;
        pid_t child;
        assert(!pipe(ends));
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        assert(!(by_name ? posix_spawnp(&child, "cat", &actions, 0, arguments, nothing)
                         : posix_spawn(&child, cat, &actions, 0, arguments, nothing)));
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        expect(ends[0], expected, 100 + by_name);
        reap(child);
    }
    FILE *stream = popen("x='f'; cat \"$x\"", "r");
    assert(stream && dup2(fileno(stream), 60) == 60);
    expect(60, expected, 200);
    assert(pclose(stream) == 0);
    assert(system("test \"$(cat 'f' | wc -c)\" = 8192 ") == 0);
    assert(system("exit 7") == 7 << 8 && system(NULL) != 0);
}

/* The longest environment that a program starts with when nothing is put into it. */
static void fill(void)
{
    static char filler[131072];
    char *longest[4] = { "HEADSTART=off", filler, 0 };
    struct rlimit limit = { 512 << 10, 512 << 10 };
    size_t low = 1000, high = sizeof filler - 1;
    char *quiet[] = { "true", 0 };
    int status;
    assert(!setrlimit(RLIMIT_STACK, &limit));
    while (high - low > 1) {
        size_t length = (low + high) / 2;
        memset(filler, 'x', sizeof filler);
        filler[1] = '=';
        filler[length] = 0;
        pid_t child = fork();
        if (!child) {
            execve("/bin/true", quiet, longest);
            _exit(errno == E2BIG ? 8 : 9);
        }
        assert(waitpid(child, &status, 0) == child && (status == 0 || status == 8 << 8));
        *(status ? &high : &low) = length;
    }
    filler[low] = 0;
    longest[0] = "HEADSTART=on_";
    if (!vfork()) {
        execve("/bin/true", quiet, longest);
        _exit(errno == E2BIG ? 8 : 9);
    }
    assert(wait(&status) > 0 && status == 8 << 8);
    pid_t child;
    assert(posix_spawn(&child, "/bin/true", 0, 0, quiet, longest) == E2BIG);
}

int main(int argc, char **argv)
{
    static char bytes[8192];
    memset(bytes, 'n', sizeof bytes);
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    assert(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
    assert(argc == 1 || (fill(), 1));
    if (argc > 1) return 0;
    start_each(bytes);
    setenv("SECRET", "kept", 1);
    unsetenv("LD_PRELOAD");
    start_each(bytes);
    clearenv();
    char **before = environ;
    start_each(bytes);
    errno = 0;
    assert(execv("/bin/none", arguments) == -1 && errno == ENOENT && execlp("none", "none", (char *)0) == -1 && errno == ENOENT);
    /* The program's own environment is as it made it. */
    assert(environ == before && getenv("LD_PRELOAD") == NULL && getenv("HEADSTART_SLOW") == NULL);
    return 0;
}
