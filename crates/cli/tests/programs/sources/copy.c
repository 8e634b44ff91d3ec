/* Copies one file to another by read and write. copy FROM TO */
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char buffer[7000];
    int from = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    int to = from < 0 ? -1 : open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t count = -1;
    while (to >= 0 && (count = read(from, buffer, sizeof buffer)) > 0) {
        if (write(to, buffer, (size_t)count) != count) {
            return 1;
        }
    }
    return count != 0;
}
