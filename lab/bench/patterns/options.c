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

enum kind { KIND_FLAG, KIND_COUNT, KIND_SIZE, KIND_REAL, KIND_LIST, KIND_CHOICE };

enum {
    MASK_IOR = 1 << WORKLOAD_IOR,
    MASK_MPI_IO_TEST = 1 << WORKLOAD_MPI_IO_TEST,
    MASK_TILE = 1 << WORKLOAD_TILE,
    MASK_HPIO = 1 << WORKLOAD_HPIO,
    MASK_BTIO = 1 << WORKLOAD_BTIO,
    MASK_IOZONE = 1 << WORKLOAD_IOZONE,
    MASK_ALL = 63
};

struct option {
    const char *name;
    unsigned mask;
    enum kind kind;
    size_t field;
    const char *preset;  /* unless the generator says */
    const char *choices; /* separated by '|', in the order of the generator's lists */
    const char *help;
};

#define FIELD(name) offsetof(struct options, name)
#define WORKLOAD(name) offsetof(struct options, workload.name)

static const struct option OPTIONS[] = {
    {"op", MASK_ALL, KIND_CHOICE, WORKLOAD(operation), NULL, "write|read|write-read", "phases to run"},
    {"collective", MASK_ALL, KIND_FLAG, WORKLOAD(collective), NULL, NULL, "MPI_File_*_all calls"},
    {"verify", MASK_ALL, KIND_FLAG, FIELD(verify), NULL, NULL, "check every byte read; exit status 1 when wrong"},
    {"seed", MASK_ALL, KIND_COUNT, WORKLOAD(seed), NULL, NULL, "of random orders"},
    {"generation", MASK_ALL, KIND_COUNT, FIELD(generation), "0", NULL,
     "contents of the first write phase (each further one adds 1), or to expect"},
    {"repetitions", MASK_ALL, KIND_COUNT, FIELD(repetitions), "1", NULL, "of all phases"},
    {"prealloc", MASK_ALL, KIND_FLAG, FIELD(prealloc), NULL, NULL, "give the file its final size before timing"},
    {"sync", MASK_ALL, KIND_FLAG, FIELD(sync), NULL, NULL, "MPI_File_sync before close, timed"},
    {"think-us", MASK_ALL, KIND_COUNT, FIELD(think_us), "0", NULL, "busy computing between requests (btio: dumps)"},
    {"keep", MASK_ALL, KIND_FLAG, FIELD(keep), NULL, NULL, "accepted for clarity: files are never deleted"},
    {"json", MASK_ALL, KIND_FLAG, FIELD(json), NULL, NULL, "one JSON object on standard output, text on stderr"},
    {"progress", MASK_ALL, KIND_FLAG, FIELD(progress), NULL, NULL, "percent of rank 0, when stderr is a terminal"},

    {"transfer", MASK_IOR, KIND_SIZE, WORKLOAD(transfer), NULL, NULL, "bytes per request"},
    {"block", MASK_IOR, KIND_SIZE, WORKLOAD(block), NULL, NULL, "contiguous bytes per rank and segment"},
    {"segments", MASK_IOR, KIND_COUNT, WORKLOAD(segments), NULL, NULL, "blocks per rank"},
    {"order", MASK_IOR, KIND_CHOICE, WORKLOAD(order), NULL,
     "seq|perm_own_block|uniform_own_block|deal_global|zipf_own_block", "of transfers"},
    {"theta", MASK_IOR, KIND_REAL, WORKLOAD(theta), NULL, NULL, "exponent of zipf_own_block"},
    {"requests", MASK_IOR, KIND_COUNT, WORKLOAD(requests), NULL, NULL,
     "draws per rank and segment, instead of block / transfer; uniform_own_block and zipf_own_block"},
    {"shift-seconds", MASK_IOR, KIND_REAL, FIELD(shift_seconds), "0", NULL,
     "the hot region of zipf_own_block moves so often; each phase lasts as long as its windows"},
    {"shift-windows", MASK_IOR, KIND_COUNT, FIELD(shift_windows), "3", NULL,
     "places of the hot region, one after another"},
    {"shift-first", MASK_IOR, KIND_COUNT, WORKLOAD(shift_first), NULL, NULL, "number of the first of these places"},
    {"file-per-process", MASK_IOR | MASK_MPI_IO_TEST, KIND_FLAG, WORKLOAD(file_per_process), NULL, NULL,
     "files FILE.00000000 and on"},
    {"reorder-tasks", MASK_IOR, KIND_COUNT, WORKLOAD(reorder_tasks), NULL, NULL,
     "rank r reads what rank r + this wrote"},
    {"reorder-random", MASK_IOR, KIND_FLAG, WORKLOAD(reorder_random), NULL, NULL,
     "each rank reads what a random rank wrote, no two the same"},

    {"block", MASK_MPI_IO_TEST, KIND_SIZE, WORKLOAD(block), NULL, NULL, "bytes per request"},
    {"iterations", MASK_MPI_IO_TEST, KIND_COUNT, WORKLOAD(iterations), NULL, NULL, "requests per rank"},
    {"single-region", MASK_MPI_IO_TEST, KIND_FLAG, WORKLOAD(single_region), NULL, NULL,
     "every request is for the first block of the file"},

    {"nx", MASK_TILE, KIND_COUNT, WORKLOAD(nx), NULL, NULL, "tiles across"},
    {"ny", MASK_TILE, KIND_COUNT, WORKLOAD(ny), NULL, NULL, "tiles down"},
    {"sx", MASK_TILE, KIND_COUNT, WORKLOAD(sx), NULL, NULL, "elements of a tile across"},
    {"sy", MASK_TILE, KIND_COUNT, WORKLOAD(sy), NULL, NULL, "elements of a tile down"},
    {"element", MASK_TILE, KIND_SIZE, WORKLOAD(element), NULL, NULL, "bytes of an element"},
    {"overlap-x", MASK_TILE, KIND_COUNT, WORKLOAD(overlap_x), NULL, NULL, "elements shared with the neighbour across"},
    {"overlap-y", MASK_TILE, KIND_COUNT, WORKLOAD(overlap_y), NULL, NULL, "elements shared with the neighbour below"},
    {"header", MASK_TILE, KIND_SIZE, WORKLOAD(header), NULL, NULL, "bytes before the dataset"},

    {"region-count", MASK_HPIO, KIND_COUNT, WORKLOAD(region_count), NULL, NULL, "regions per rank"},
    {"region-size", MASK_HPIO, KIND_SIZE, WORKLOAD(region_size), NULL, NULL, "bytes of a region"},
    {"region-spacing", MASK_HPIO, KIND_SIZE, WORKLOAD(region_spacing), NULL, NULL, "bytes between regions"},
    {"pattern", MASK_HPIO, KIND_CHOICE, WORKLOAD(shape), NULL, "c-c|nc-c|c-nc|nc-nc",
     "memory, then file: contiguous or not"},
    {"individual", MASK_HPIO | MASK_TILE, KIND_FLAG, WORKLOAD(individual), NULL, NULL,
     "one blocking call per region (row) instead of one for all"},

    {"class", MASK_BTIO, KIND_CHOICE, WORKLOAD(class), NULL, "S|W|A|B|C|D|E", "grid and dumps of NPB"},
    {"grid", MASK_BTIO, KIND_COUNT, WORKLOAD(grid), NULL, NULL, "points along an edge, instead of the class's"},
    {"dumps", MASK_BTIO, KIND_COUNT, WORKLOAD(dumps), NULL, NULL, "instead of the class's"},

    {"tests", MASK_IOZONE, KIND_LIST, WORKLOAD(tests), NULL, NULL,
     "0 write and rewrite, 1 read and reread, 2 random, 3 reverse"},
    {"record", MASK_IOZONE, KIND_SIZE, WORKLOAD(record), NULL, NULL, "bytes per request"},
    {"file-size", MASK_IOZONE, KIND_SIZE, WORKLOAD(file_size), NULL, NULL, "bytes per rank"},
    {"stonewall", MASK_IOZONE, KIND_FLAG, FIELD(stonewall), NULL, NULL, "the first rank to finish stops the clock"},
};

enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static const struct pattern PATTERNS[] = {
    {"ior", WORKLOAD_IOR, "contiguous blocks per rank, in transfers"},
    {"mpi-io-test", WORKLOAD_MPI_IO_TEST, "blocks side by side, a barrier before each request"},
    {"tile", WORKLOAD_TILE, "tiles of a dense two-dimensional dataset"},
    {"hpio", WORKLOAD_HPIO, "regions that alternate between ranks"},
    {"btio", WORKLOAD_BTIO, "dumps of a cube in diagonal cells"},
    {"iozone", WORKLOAD_IOZONE, "one file per rank, several tests"},
};

enum { PATTERN_COUNT = sizeof PATTERNS / sizeof *PATTERNS };

const char *problem(const char *format, ...) {
    static char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

struct workload *options_workload(struct options *options, int ranks, const char **wrong) {
    static char text[TEXT_BYTES];
    struct workload_description *described = &options->workload;
    described->ranks = (uint32_t)ranks;
    described->shift_windows = options->shift_seconds > 0 ? options->shift_windows : 0;
    if (options->shift_seconds > 0 && (options->shift_windows == 0 || options->shift_windows > WINDOW_COUNT_MAX)) {
        *wrong = problem("--shift-windows must be from 1 to %d", WINDOW_COUNT_MAX);
        return NULL;
    }
    struct workload *workload = workload_create(described, text, sizeof text);
    if (workload == NULL) {
        *wrong = text;
        return NULL;
    }
    uint64_t bytes = workload_request_bytes_max(workload);
    if (bytes > INT_MAX || (described->kind == WORKLOAD_HPIO && !described->individual &&
                            bytes / described->region_size * described->region_spacing > INT_MAX - bytes)) {
        *wrong = problem("one request would span %llu bytes or more; MPI counts end at 2^31 - 1, use smaller requests",
                         (unsigned long long)bytes);
        workload_free(workload);
        return NULL;
    }
    return workload;
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

/* Digits with commas between them: bit n for each n. */
static bool parse_list(const char *text, uint32_t *bits) {
    *bits = 0;
    if (*text == '\0' || strspn(text, "0123,") != strlen(text)) {
        return false;
    }
    for (; *text != '\0'; text++) {
        *bits |= *text == ',' ? 0 : 1u << (*text - '0');
    }
    return *bits != 0;
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
    case KIND_LIST:
        return parse_list(text, field) ? NULL : problem("--%s takes a list such as 0,1,2,3", option->name);
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

static void set_defaults(struct options *options, const struct pattern *pattern) {
    options->pattern = pattern;
    workload_defaults(pattern->kind, &options->workload);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (OPTIONS[i].preset != NULL) {
            set_option(options, &OPTIONS[i], OPTIONS[i].preset);
        }
    }
}

static const char *parse_pattern(struct options *options, const char *name) {
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        if (name != NULL && strcmp(name, PATTERNS[i].name) == 0) {
            set_defaults(options, &PATTERNS[i]);
            return NULL;
        }
    }
    return problem("the first argument must be ior, mpi-io-test, tile, hpio, btio or iozone");
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
        const struct option *option = find_option(argument + 2, length, 1u << options->pattern->kind);
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

static void print_size(uint64_t bytes) {
    static const char *const UNITS[] = {"", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++) {
        bytes /= 1024;
    }
    printf("%llu%s", (unsigned long long)bytes, UNITS[unit]);
}

/* The default, as it would be typed. */
static void print_default(const struct options *options, const struct option *option) {
    const void *field = (const char *)options + option->field;
    const char *choice = option->choices;
    const char *comma = "";
    printf(" (");
    switch (option->kind) {
    case KIND_FLAG:
        break;
    case KIND_COUNT:
        printf("%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case KIND_SIZE:
        print_size(*(const uint64_t *)field);
        break;
    case KIND_REAL:
        printf("%g", *(const double *)field);
        break;
    case KIND_LIST:
        for (unsigned number = 0; number < 32; number++) {
            if (*(const uint32_t *)field >> number & 1) {
                printf("%s%u", comma, number);
                comma = ",";
            }
        }
        break;
    case KIND_CHOICE:
        for (int32_t i = 0; i < *(const int32_t *)field; i++) {
            choice += strcspn(choice, "|") + 1;
        }
        printf("%.*s", (int)strcspn(choice, "|"), choice);
        break;
    }
    printf(")");
}

/* The options of a pattern alone, or those of every pattern. */
static void print_options(const struct pattern *pattern, bool of_every_pattern) {
    struct options defaults = {0};
    set_defaults(&defaults, pattern);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &OPTIONS[i];
        if ((option->mask == MASK_ALL) != of_every_pattern || !(option->mask & 1u << pattern->kind)) {
            continue;
        }
        static const char *const VALUES[] = {"", " N", " SIZE", " X", " LIST", " "};
        printf("  --%s%s%s\n      %s", option->name, VALUES[option->kind], option->choices ? option->choices : "",
               option->help);
        if (option->kind != KIND_FLAG) {
            print_default(&defaults, option);
        }
        printf("\n");
    }
}

void options_print_help(void) {
    printf("patterns PATTERN [options] FILE\n\n"
           "Access patterns of parallel I/O benchmarks through MPI-IO. A SIZE is in bytes or ends in k, K, KiB, M,\n"
           "MiB, G or GiB, all powers of 1024. MB/s in the output are 10^6 bytes per second: first from before open\n"
           "to after the last close, then over the time of the slowest rank's data calls; 'native' is the rate as\n"
           "the original program defines it.\n\nFor every pattern:\n");
    print_options(&PATTERNS[0], true);
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        printf("\n%s: %s\n", PATTERNS[i].name, PATTERNS[i].summary);
        print_options(&PATTERNS[i], false);
    }
}
