/* last_words CALL: ends by a function of libc that writes a message and does not return, with status 3. */
#include <err.h>
#include <errno.h>
#include <error.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void listed(void (*call)(int, const char *, va_list), const char *format, ...)
{
    va_list list;
    va_start(list, format);
    call(3, format, list);
    va_end(list);
}

int main(int argc, char **argv)
{
    const char *call = argv[1], *format = "last words of %s";
    /* of no importance: the program goes on */
    error(0, 0, "first words");
    error_at_line(0, 0, "file", 7, "first words");
    errno = ENOSPC;
    if (!strcmp(call, "err")) err(3, format, call);
    if (!strcmp(call, "errx")) errx(3, format, call);
    if (!strcmp(call, "verr")) listed(verr, format, call);
    if (!strcmp(call, "verrx")) listed(verrx, format, call);
    if (!strcmp(call, "error")) error(3, errno, format, call);
    if (!strcmp(call, "error_at_line")) error_at_line(3, errno, "file", 7, format, call);
    return 99;
}
