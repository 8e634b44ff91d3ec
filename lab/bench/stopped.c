/*
 * stopped: a rank that is stopped in the middle of a request, as a debugger, Ctrl-Z or a batch system may stop one.
 *
 *   stopped --file FILE --call read|write|sync|open --at slow|flash --when before|after [--offset N] [--size BYTES]
 *
 * A child makes the call; this process traces it up to the kernel call that touches FILE (--at slow) or a data file on
 * flash (--at flash). There the child stays: held by its tracer before the kernel call is made, or stopped by SIGSTOP
 * after it. One JSON object says so. At the end of this process's standard input the child goes on, and this process
 * ends with its exit status: 0 if the call did what it was to do. What it writes is one letter, 's'.
 *
 * Exit status 1: an I/O error. Exit status 2: wrong arguments. Exit status 3: tracing is not permitted here. Exit
 * status 4: the child came to its end without that kernel call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_IO = 1, EXIT_USAGE = 2, EXIT_UNTRACED = 3, EXIT_MISSED = 4 };

static const char *const CALLS[] = {"read", "write", "sync", "open"};

enum call { CALL_READ, CALL_WRITE, CALL_SYNC, CALL_OPEN, CALL_COUNT };

struct settings {
    const char *file;
    enum call call;
    bool on_flash, after;
    uint64_t offset, size;
};

static void usage(const char *text, const char *argument) {
    fprintf(stderr,
            "stopped: %s '%s'\nusage: stopped --file FILE --call read|write|sync|open --at slow|flash\n"
            "               --when before|after [--offset N] [--size BYTES]\n",
            text, argument);
    exit(EXIT_USAGE);
}

static void fail(const char *action) {
    fprintf(stderr, "stopped: %s: %s\n", action, strerror(errno));
    exit(EXIT_IO);
}

static int choice(const char *text, const char *const *choices, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            return i;
        }
    }
    usage("unknown value:", text);
    return 0;
}

static uint64_t number(const char *text) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0') {
        usage("not a number:", text);
    }
    return value;
}

static struct settings parse(int argc, char **argv) {
    static const char *const PLACES[] = {"slow", "flash"}, *const MOMENTS[] = {"before", "after"};
    struct settings settings = {.call = CALL_COUNT, .size = 4096};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--file") == 0) {
            settings.file = value;
        } else if (strcmp(name, "--call") == 0) {
            settings.call = choice(value, CALLS, CALL_COUNT);
        } else if (strcmp(name, "--at") == 0) {
            settings.on_flash = choice(value, PLACES, 2) == 1;
        } else if (strcmp(name, "--when") == 0) {
            settings.after = choice(value, MOMENTS, 2) == 1;
        } else if (strcmp(name, "--offset") == 0) {
            settings.offset = number(value);
        } else if (strcmp(name, "--size") == 0) {
            settings.size = number(value);
        } else {
            usage("unknown option:", name);
        }
    }
    if (argc % 2 == 0 || settings.file == NULL || settings.call == CALL_COUNT || settings.size == 0) {
        usage("give", "--file and --call, and a value for each option");
    }
    return settings;
}

/* The child: what comes before the call is not traced. */
static int make_call(const struct settings *settings) {
    int descriptor = settings->call == CALL_OPEN ? -1 : open(settings->file, O_RDWR);
    char *bytes = malloc(settings->size);
    if (bytes == NULL || (descriptor < 0 && settings->call != CALL_OPEN)) {
        fail("open");
    }
    memset(bytes, 's', settings->size);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        return EXIT_UNTRACED;
    }
    raise(SIGSTOP);
    bool done = false;
    switch (settings->call) {
    case CALL_READ:
        done = pread(descriptor, bytes, settings->size, (off_t)settings->offset) == (ssize_t)settings->size;
        break;
    case CALL_WRITE:
        done = pwrite(descriptor, bytes, settings->size, (off_t)settings->offset) == (ssize_t)settings->size;
        break;
    case CALL_SYNC:
        done = fsync(descriptor) == 0;
        break;
    default:
        done = (descriptor = open(settings->file, O_RDWR)) >= 0;
    }
    return done && close(descriptor) == 0 ? EXIT_SUCCESS : EXIT_IO;
}

/* The path that a descriptor of the child leads to. */
static void path_of_descriptor(pid_t child, int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)child, descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
}

/* A string in the child's memory. */
static void string_at(pid_t child, uint64_t address, char *string) {
    char memory[64];
    snprintf(memory, sizeof memory, "/proc/%d/mem", (int)child);
    int descriptor = open(memory, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor < 0 ? 0 : pread(descriptor, string, PATH_MAX - 1, (off_t)address);
    string[length < 0 ? 0 : length] = '\0';
    close(descriptor);
}

/* Whether the kernel call that the child is about to make is the one to stop at. */
static bool is_the_call(const struct settings *settings, pid_t child, const struct __ptrace_syscall_info *info) {
    static const uint64_t NUMBERS[CALL_COUNT] = {SYS_pread64, SYS_pwrite64, SYS_fsync, SYS_openat};
    char path[PATH_MAX];
    if (info->op != PTRACE_SYSCALL_INFO_ENTRY || info->entry.nr != NUMBERS[settings->call]) {
        return false;
    }
    if (settings->call == CALL_OPEN) {
        string_at(child, info->entry.args[1], path);
    } else {
        path_of_descriptor(child, (int)info->entry.args[0], path);
    }
    return settings->on_flash ? strstr(path, "/.headstart/data.") != NULL : strcmp(path, settings->file) == 0;
}

/* Lets the child go on to its next stop; false once it is gone. */
static bool next_stop(pid_t child, int *status) {
    return ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && waitpid(child, status, 0) == child && WIFSTOPPED(*status);
}

/* Traces the child up to the kernel call. */
static void trace(const struct settings *settings, pid_t child) {
    struct __ptrace_syscall_info info;
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
        exit(EXIT_UNTRACED);
    }
    do {
        if (!next_stop(child, &status)) {
            exit(EXIT_MISSED);
        }
        info.op = PTRACE_SYSCALL_INFO_NONE;
        ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    } while (WSTOPSIG(status) != (SIGTRAP | 0x80) || !is_the_call(settings, child, &info));
    if (settings->after && (!next_stop(child, &status) || ptrace(PTRACE_DETACH, child, NULL, SIGSTOP) != 0 ||
                            waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))) {
        exit(EXIT_MISSED);
    }
}

int main(int argc, char **argv) {
    struct settings settings = parse(argc, argv);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(make_call(&settings));
    } else if (child < 0) {
        fail("fork");
    }
    trace(&settings, child);
    printf("{\"pid\":%d,\"call\":\"%s\",\"at\":\"%s\",\"when\":\"%s\"}\n", (int)child, CALLS[settings.call],
           settings.on_flash ? "flash" : "slow", settings.after ? "after" : "before");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    int status;
    bool goes_on = settings.after ? kill(child, SIGCONT) == 0 : ptrace(PTRACE_DETACH, child, NULL, NULL) == 0;
    if (!goes_on || waitpid(child, &status, 0) != child) {
        fail("let the child go on");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_IO;
}
