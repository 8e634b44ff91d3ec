/* Files that posix_spawn opens in the child, and cuts. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const int CUT = O_WRONLY | O_CREAT | O_TRUNC;

static int absorbed(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    for (int k = 0; k < 1000; k++) assert(pwrite(fd, "before...", 9, k * 9) == 9);
    return fd;
}

static void expect(int fd, const char *text)
{
    char seen[64] = "";
    struct stat found;
    assert(!fstat(fd, &found) && found.st_size == (off_t)strlen(text));
    assert(pread(fd, seen, sizeof seen, 0) == (ssize_t)strlen(text) && !strcmp(seen, text));
}

/* Spawns a shell, or what does not exist, and waits for it. */
static int spawned(posix_spawn_file_actions_t *actions, const char *program)
{
    char *arguments[] = { "sh", "-c", "echo out; echo err >&2", 0 };
    pid_t child;
    int status, result = posix_spawn(&child, program, actions, 0, arguments, environ);
    assert(!posix_spawn_file_actions_destroy(actions));
    if (!result) assert(waitpid(child, &status, 0) == child && status == 0);
    return result;
}

/* A child that nobody sees writes to the file, and renames it before the library looks what became of it. */
static int renamed(void)
{
    posix_spawn_file_actions_t actions;
    char *arguments[] = { "sh", "-c", "echo out; mv out moved", 0 }, *unseen[] = { "HEADSTART=off", "PATH=/usr/bin:/bin", 0 };
    pid_t child;
    int status, out = absorbed("out");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "out", CUT, 0644);
    assert(!posix_spawn(&child, "/bin/sh", &actions, 0, arguments, unseen));
    assert(waitpid(child, &status, 0) == child && status == 0);
    expect(out, "out\n");
    assert(access("moved", F_OK) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return renamed();
    posix_spawn_file_actions_t actions;
    assert(!mkdir("below", 0755));
    int out = absorbed("out"), err = absorbed("below/err"), namesake = absorbed("err");

    /* several files, one of them twice, after a change of the directory */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "out", CUT, 0644);
    posix_spawn_file_actions_addopen(&actions, 7, "out", CUT, 0644);
    posix_spawn_file_actions_addchdir_np(&actions, "below");
    posix_spawn_file_actions_addopen(&actions, 2, "err", CUT, 0644);
    assert(!spawned(&actions, "/bin/sh"));
    expect(out, "out\n");
    expect(err, "err\n");
    char kept[10] = "";
    assert(pread(namesake, kept, 9, 8991) == 9 && !strcmp(kept, "before..."));

    /* the same by the directory's descriptor, and a file that is not there yet */
    int root = open(".", O_RDONLY | O_DIRECTORY);
    assert(pwrite(namesake, "BEFORE", 6, 0) == 6);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, "below");
    posix_spawn_file_actions_addopen(&actions, 1, "new", CUT, 0644);
    posix_spawn_file_actions_addfchdir_np(&actions, root);
    posix_spawn_file_actions_addopen(&actions, 2, "err", CUT, 0644);
    assert(!spawned(&actions, "/bin/sh"));
    expect(namesake, "err\n");
    expect(open("below/new", O_RDONLY), "out\n");

    /* an action that fails comes first: nothing is cut */
    absorbed("out");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "missing", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "out", CUT, 0644);
    assert(spawned(&actions, "/bin/sh") == ENOENT);
    assert(pread(out, kept, 9, 8991) == 9 && !strcmp(kept, "before..."));

    /* a program that is not there: the file is cut before that is found out */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "out", CUT, 0644);
    assert(spawned(&actions, "missing") == ENOENT);
    expect(out, "");
    return 0;
}
