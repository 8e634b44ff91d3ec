/*
 * The option table: names, which patterns an option belongs to, defaults and help in one place. Every rank parses the
 * same arguments and comes to the same result.
 */
#include "patterns.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_FLAG, KIND_COUNT, KIND_SIZE, KIND_REAL, KIND_TEXT, KIND_CHOICE };

enum { MASK_ALL = 63 };

struct option {
    const char *name;
    unsigned mask;
    enum kind kind;
    size_t field;
    const char *preset;
    const char *choices; /* separated by '|', in the order of the enum */
    const char *help;
};

#define FIELD(name) offsetof(struct options, name)

static const struct option OPTIONS[] = {
    {"op", MASK_ALL, KIND_CHOICE, FIELD(operation), "write-read", "write|read|write-read", "phases to run"},
    {"collective", MASK_ALL, KIND_FLAG, FIELD(collective), NULL, NULL, "MPI_File_*_all calls"},
    {"verify", MASK_ALL, KIND_FLAG, FIELD(verify), NULL, NULL, "check every byte read; exit status 1 when wrong"},
    {"seed", MASK_ALL, KIND_COUNT, FIELD(seed), "0", NULL, "of random orders"},
    {"generation", MASK_ALL, KIND_COUNT, FIELD(generation), "0", NULL,
     "contents of the first write phase (each further one adds 1), or to expect"},
    {"repetitions", MASK_ALL, KIND_COUNT, FIELD(repetitions), "1", NULL, "of all phases"},
    {"prealloc", MASK_ALL, KIND_FLAG, FIELD(prealloc), NULL, NULL, "give the file its final size before timing"},
    {"sync", MASK_ALL, KIND_FLAG, FIELD(sync), NULL, NULL, "MPI_File_sync before close, timed"},
    {"think-us", MASK_ALL, KIND_COUNT, FIELD(think_us), "0", NULL, "busy computing between requests (btio: dumps)"},
    {"keep", MASK_ALL, KIND_FLAG, FIELD(keep), NULL, NULL, "accepted for clarity: files are never deleted"},
    {"json", MASK_ALL, KIND_FLAG, FIELD(json), NULL, NULL, "one JSON object on standard output, text on stderr"},
    {"progress", MASK_ALL, KIND_FLAG, FIELD(progress), NULL, NULL, "percent of rank 0, when stderr is a terminal"},

    {"transfer", MASK_IOR, KIND_SIZE, FIELD(transfer), "256KiB", NULL, "bytes per request"},
    {"block", MASK_IOR, KIND_SIZE, FIELD(block), "1MiB", NULL, "contiguous bytes per rank and segment"},
    {"segments", MASK_IOR, KIND_COUNT, FIELD(segments), "1", NULL, "blocks per rank"},
    {"order", MASK_IOR, KIND_CHOICE, FIELD(order), "seq",
     "seq|perm_own_block|uniform_own_block|deal_global|zipf_own_block", "of transfers"},
    {"theta", MASK_IOR, KIND_REAL, FIELD(theta), "1.0", NULL, "exponent of zipf_own_block"},
    {"requests", MASK_IOR, KIND_COUNT, FIELD(requests), "0", NULL,
     "draws per rank and segment, instead of block / transfer; uniform_own_block and zipf_own_block"},
    {"shift-seconds", MASK_IOR, KIND_REAL, FIELD(shift_seconds), "0", NULL,
     "the hot region of zipf_own_block moves so often; each phase lasts as long as its windows"},
    {"shift-windows", MASK_IOR, KIND_COUNT, FIELD(shift_windows), "3", NULL,
     "places of the hot region, one after another"},
    {"shift-first", MASK_IOR, KIND_COUNT, FIELD(shift_first), "0", NULL, "number of the first of these places"},
    {"file-per-process", MASK_IOR, KIND_FLAG, FIELD(file_per_process), NULL, NULL, "files FILE.00000000 and on"},
    {"reorder-tasks", MASK_IOR, KIND_COUNT, FIELD(reorder_tasks), "0", NULL,
     "rank r reads what rank r + this wrote"},

    {"block", MASK_MPI_IO_TEST, KIND_SIZE, FIELD(block), "16MiB", NULL, "bytes per request"},
    {"iterations", MASK_MPI_IO_TEST, KIND_COUNT, FIELD(iterations), "1", NULL, "requests per rank"},

    {"nx", MASK_TILE, KIND_COUNT, FIELD(nx), "1", NULL, "tiles across"},
    {"ny", MASK_TILE, KIND_COUNT, FIELD(ny), "1", NULL, "tiles down"},
    {"sx", MASK_TILE, KIND_COUNT, FIELD(sx), "1024", NULL, "elements of a tile across"},
    {"sy", MASK_TILE, KIND_COUNT, FIELD(sy), "1024", NULL, "elements of a tile down"},
    {"element", MASK_TILE, KIND_SIZE, FIELD(element), "3", NULL, "bytes of an element"},
    {"overlap-x", MASK_TILE, KIND_COUNT, FIELD(overlap_x), "0", NULL, "elements shared with the neighbour across"},
    {"overlap-y", MASK_TILE, KIND_COUNT, FIELD(overlap_y), "0", NULL, "elements shared with the neighbour below"},
    {"header", MASK_TILE, KIND_SIZE, FIELD(header), "0", NULL, "bytes before the dataset"},

    {"region-count", MASK_HPIO, KIND_COUNT, FIELD(region_count), "4096", NULL, "regions per rank"},
    {"region-size", MASK_HPIO, KIND_SIZE, FIELD(region_size), "8KiB", NULL, "bytes of a region"},
    {"region-spacing", MASK_HPIO, KIND_SIZE, FIELD(region_spacing), "0", NULL, "bytes between regions"},
    {"pattern", MASK_HPIO, KIND_CHOICE, FIELD(hpio_shape), "c-nc", "c-c|nc-c|c-nc|nc-nc",
     "memory, then file: contiguous or not"},
    {"individual", MASK_HPIO | MASK_TILE, KIND_FLAG, FIELD(individual), NULL, NULL,
     "one blocking call per region (row) instead of one for all"},

    {"class", MASK_BTIO, KIND_CHOICE, FIELD(class_index), "S", "S|W|A|B|C", "grid and dumps of NPB"},
    {"grid", MASK_BTIO, KIND_COUNT, FIELD(grid), "0", NULL, "points along an edge, instead of the class's"},
    {"dumps", MASK_BTIO, KIND_COUNT, FIELD(dumps), "0", NULL, "instead of the class's"},

    {"tests", MASK_IOZONE, KIND_TEXT, FIELD(tests), "0,1", NULL,
     "0 write and rewrite, 1 read and reread, 2 random, 3 reverse"},
    {"record", MASK_IOZONE, KIND_SIZE, FIELD(record), "4KiB", NULL, "bytes per request"},
    {"file-size", MASK_IOZONE, KIND_SIZE, FIELD(file_size), "1MiB", NULL, "bytes per rank"},
    {"stonewall", MASK_IOZONE, KIND_FLAG, FIELD(stonewall), NULL, NULL, "the first rank to finish stops the clock"},
};

enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static const struct pattern *const PATTERNS[] = {&pattern_ior,  &pattern_mpi_io_test, &pattern_tile,
                                                 &pattern_hpio, &pattern_btio,        &pattern_iozone};

enum { PATTERN_COUNT = sizeof PATTERNS / sizeof *PATTERNS };

const char *problem(const char *format, ...) {
    static char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

uint64_t product(uint64_t left, uint64_t right) {
    uint64_t result;
    return __builtin_mul_overflow(left, right, &result) ? UINT64_MAX : result;
}

const char *size_problem(uint64_t request_bytes, uint64_t file_bytes) {
    if (request_bytes > INT_MAX) {
        return problem("one request would move %llu bytes; MPI counts end at 2^31 - 1, use smaller requests",
                       (unsigned long long)request_bytes);
    }
    if (file_bytes > INT64_MAX / 4) {
        return problem("the file would exceed 2^61 bytes; lower the sizes or counts");
    }
    return NULL;
}

size_t phases_by_operation(const struct options *options, struct phase phases[PHASE_COUNT_MAX]) {
    size_t count = 0;
    if (options->operation != OPERATION_READ) {
        phases[count++] = (struct phase){"write", true, TRAVERSAL_FORWARD};
    }
    if (options->operation != OPERATION_WRITE) {
        phases[count++] = (struct phase){"read", false, TRAVERSAL_FORWARD};
    }
    return count;
}

static bool parse_number(const char *text, bool with_suffix, uint64_t *number) {
    static const struct {
        const char *suffix;
        unsigned shift;
    } SUFFIXES[] = {{"", 0}, {"k", 10}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9') {
        return false;
    }
    unsigned long long value = strtoull(text, &end, 10);
    for (size_t i = 0; i < (with_suffix ? sizeof SUFFIXES / sizeof *SUFFIXES : 1); i++) {
        if (errno == 0 && strcmp(end, SUFFIXES[i].suffix) == 0 && value <= UINT64_MAX >> SUFFIXES[i].shift) {
            *number = (uint64_t)value << SUFFIXES[i].shift;
            return true;
        }
    }
    return false;
}

static bool parse_choice(const char *text, const char *choices, int *index) {
    size_t length = strlen(text);
    for (int i = 0; choices != NULL; i++) {
        size_t choice = strcspn(choices, "|");
        if (choice == length && strncmp(text, choices, length) == 0) {
            *index = i;
            return true;
        }
        choices = choices[choice] ? choices + choice + 1 : NULL;
    }
    return false;
}

static const char *set_option(struct options *options, const struct option *option, const char *text) {
    void *field = (char *)options + option->field;
    char *end;
    switch (option->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        return NULL;
    case KIND_COUNT:
        return parse_number(text, false, field) ? NULL : problem("--%s takes a number, not '%s'", option->name, text);
    case KIND_SIZE:
        return parse_number(text, true, field)
                   ? NULL
                   : problem("--%s takes bytes, or a number with k, K, KiB, M, MiB, G or GiB, not '%s'", option->name,
                             text);
    case KIND_REAL:
        *(double *)field = strtod(text, &end);
        return end != text && *end == '\0' && *(double *)field >= 0 && *(double *)field < 100
                   ? NULL
                   : problem("--%s takes a number from 0 to 100, not '%s'", option->name, text);
    case KIND_TEXT:
        *(const char **)field = text;
        return NULL;
    case KIND_CHOICE:
        return parse_choice(text, option->choices, field)
                   ? NULL
                   : problem("--%s takes %s, not '%s'", option->name, option->choices, text);
    }
    return NULL;
}

/* Length is that of the name, which an equals sign may end. */
static const struct option *find_option(const char *name, size_t length, unsigned mask) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *candidate = OPTIONS[i].name;
        if ((OPTIONS[i].mask & mask) != 0 && strlen(candidate) == length && strncmp(candidate, name, length) == 0) {
            return &OPTIONS[i];
        }
    }
    return NULL;
}

static const char *parse_pattern(struct options *options, const char *name) {
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        if (name != NULL && strcmp(name, PATTERNS[i]->name) == 0) {
            options->pattern = PATTERNS[i];
        }
    }
    if (options->pattern == NULL) {
        return problem("the first argument must be ior, mpi-io-test, tile, hpio, btio or iozone");
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if ((OPTIONS[i].mask & options->pattern->mask) != 0 && OPTIONS[i].preset != NULL) {
            set_option(options, &OPTIONS[i], OPTIONS[i].preset);
        }
    }
    return NULL;
}

const char *options_parse(struct options *options, int argc, char **argv) {
    const char *wrong = parse_pattern(options, argc > 1 ? argv[1] : NULL);
    for (int i = 2; i < argc && wrong == NULL; i++) {
        const char *argument = argv[i];
        if (strncmp(argument, "--", 2) != 0) {
            wrong = options->file ? problem("'%s' is a second file; give one", argument) : NULL;
            options->file = argument;
            continue;
        }
        size_t length = strcspn(argument + 2, "=");
        const struct option *option = find_option(argument + 2, length, options->pattern->mask);
        const char *value = argument[2 + length] == '=' ? argument + 3 + length : NULL;
        if (option == NULL) {
            wrong = problem("%s has no option '%s'; see patterns --help", options->pattern->name, argument);
        } else if (option->kind == KIND_FLAG) {
            wrong = value ? problem("--%s takes no value", option->name) : set_option(options, option, NULL);
        } else if (value == NULL && ++i == argc) {
            wrong = problem("--%s needs a value", option->name);
        } else {
            wrong = set_option(options, option, value ? value : argv[i]);
        }
    }
    if (wrong == NULL && options->file == NULL) {
        wrong = problem("give the file to access as the last argument");
    } else if (wrong == NULL && strlen(options->file) > PATH_MAX - 16) {
        wrong = problem("the file name is too long");
    } else if (wrong == NULL && options->repetitions == 0) {
        wrong = problem("--repetitions must be at least 1");
    }
    return wrong;
}

static void print_options(unsigned mask) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &OPTIONS[i];
        if (mask == MASK_ALL ? option->mask != MASK_ALL : option->mask == MASK_ALL || !(option->mask & mask)) {
            continue;
        }
        static const char *const VALUES[] = {"", " N", " SIZE", " X", " LIST", " "};
        printf("  --%s%s%s\n      %s", option->name, VALUES[option->kind], option->choices ? option->choices : "",
               option->help);
        printf(option->preset ? " (%s)\n" : "\n", option->preset);
    }
}

void options_print_help(void) {
    printf("patterns PATTERN [options] FILE\n\n"
           "Access patterns of parallel I/O benchmarks through MPI-IO. A SIZE is in bytes or ends in k, K, KiB, M,\n"
           "MiB, G or GiB, all powers of 1024. MB/s in the output are 10^6 bytes per second: first from before open\n"
           "to after the last close, then over the time of the slowest rank's data calls; 'native' is the rate as\n"
           "the original program defines it.\n\nFor every pattern:\n");
    print_options(MASK_ALL);
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        printf("\n%s: %s\n", PATTERNS[i]->name, PATTERNS[i]->summary);
        print_options(PATTERNS[i]->mask);
    }
}
