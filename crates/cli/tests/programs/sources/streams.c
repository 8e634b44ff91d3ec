/* C streams on one set of files. streams write|update|mixed|append|reopen|read */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *must(FILE *file) {
    if (file == NULL) {
        perror("streams");
        exit(1);
    }
    return file;
}

static void print_sum(const char *name) {
    FILE *file = must(fopen(name, "rb"));
    uint64_t sum = 14695981039346656037u, count = 0;
    for (int c; (c = getc(file)) != EOF; count++) {
        sum = (sum ^ (uint64_t)c) * 1099511628211u;
    }
    fclose(file);
    printf("%s %llu %016llx\n", name, (unsigned long long)count, (unsigned long long)sum);
}

static void write_all(void) {
    FILE *file = must(fopen("lines", "w"));
    for (int k = 0; k < 9000; k++) {
        fprintf(file, "line %d of many\n", k);
    }
    fclose(file);
    file = must(fopen64("records", "wb"));
    setvbuf(file, NULL, _IOFBF, 777);
    for (int k = 0; k < 3000; k++) {
        fwrite(&k, sizeof k, 1, file);
        fwrite("abcdefghijkl", 1, (size_t)(k % 13), file);
    }
    fclose(file);
    file = must(fopen("unbuffered", "wx"));
    setvbuf(file, NULL, _IONBF, 0);
    for (int k = 0; k < 200; k++) {
        fputs("unbuffered ", file);
        putc('\n', file);
    }
    fclose(file);
    remove("renamed");
    rename("unbuffered", "renamed");
}

static void update(void) {
    FILE *file = must(fopen("records", "r+b"));
    char bytes[100];
    for (int k = 0; k < 300; k++) {
        fseek(file, k * 91L, SEEK_SET);
        size_t count = fread(bytes, 1, sizeof bytes, file);
        fseek(file, -(long)count / 2, SEEK_CUR);
        fwrite(bytes, 1, 20, file);
        fflush(file);
    }
    fseeko(file, 60000, SEEK_SET);
    fputs("behind a hole", file);
    rewind(file);
    printf("%d %ld\n", getc(file), ftell(file));
    fclose(file);
    truncate("records", 61000);
}

/* Descriptors and streams of one file, each seeing what the other wrote. */
static void mixed(void) {
    int descriptor = open("mixed", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char bytes[5000];
    memset(bytes, 'd', sizeof bytes);
    for (int k = 0; k < 40; k++) {
        pwrite(descriptor, bytes, 3000, k * 5000L);
    }
    FILE *file = must(fopen("mixed", "r+"));
    memset(bytes, 's', sizeof bytes);
    for (int k = 0; k < 40; k += 2) {
        fseek(file, k * 5000L + 1000, SEEK_SET);
        fwrite(bytes, 1, 2500, file);
        fflush(file);
        pread(descriptor, bytes, 4, k * 5000L + 998);
        printf("%.4s", bytes);
        memset(bytes, 's', sizeof bytes);
        pwrite(descriptor, "DESC", 4, k * 5000L + 2000);
        fseek(file, k * 5000L + 1999, SEEK_SET);
        printf("%c%c%c%c%c ", getc(file), getc(file), getc(file), getc(file), getc(file));
    }
    fclose(file);
    file = must(fdopen(descriptor, "r+"));
    fseek(file, 100, SEEK_SET);
    fprintf(file, "by fdopen");
    fflush(file);
    printf("%d %ld\n", fileno(file) == descriptor, (long)lseek(descriptor, 0, SEEK_CUR));
    fclose(file);
}

static void append(void) {
    FILE *file = must(fopen("appended", "a+"));
    for (int k = 0; k < 500; k++) {
        fprintf(file, "appended %d\n", k);
        if (k % 50 == 0) {
            fseek(file, 0, SEEK_SET);
            printf("%d", getc(file) == 'a');
            fseek(file, 0, SEEK_END);
        }
    }
    fflush(file);
    if (fork() == 0) {
        fprintf(file, "from the child\n");
        fclose(file);
        _exit(0);
    }
    wait(NULL);
    fprintf(file, "from the parent\n");
    fclose(file);
    printf("\n");
}

static void reopen(void) {
    if (freopen("printed", "w", stdout) == NULL || freopen("input", "r", stdin) == NULL) {
        exit(1);
    }
    char *line = NULL;
    size_t room = 0;
    for (long total = 0; getline(&line, &room, stdin) > 0 && total < 100000; total++) {
        printf("%ld %s", total, line);
    }
    free(line);
    fprintf(stderr, "done\n");
    FILE *temporary = must(tmpfile());
    fputs("gone", temporary);
    FILE *pipe = must(popen("cat input | wc -l >piped; cat >popened", "w"));
    fprintf(pipe, "%d\n", 17);
    pclose(pipe);
}

int main(int argc, char **argv) {
    const char *form = argc == 2 ? argv[1] : "";
    if (strcmp(form, "write") == 0) {
        remove("renamed");
        write_all();
    } else if (strcmp(form, "update") == 0) {
        update();
    } else if (strcmp(form, "mixed") == 0) {
        mixed();
    } else if (strcmp(form, "append") == 0) {
        append();
    } else if (strcmp(form, "reopen") == 0) {
        reopen();
        return 0;
    }
    static const char *const NAMES[] = {"input", "lines", "records", "renamed", "mixed", "appended", "printed"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct stat found;
        if (stat(NAMES[i], &found) == 0) {
            printf("%lld ", (long long)found.st_size);
            print_sum(NAMES[i]);
        }
    }
    return 0;
}
