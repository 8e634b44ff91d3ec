/* Another preloaded library: posix_spawn returns a while after the child has begun. */
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    int (*next)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,
                char *const *) = dlsym(RTLD_NEXT, "posix_spawn");
    int result = next(child, path, actions, attributes, arguments, environment);
    usleep(300 * 1000);
    return result;
}
