/*
 * The bytes of a file are a function of the offset and of a key, nothing else, so that any rank can write or check
 * any byte. The key holds the generation, which tells a new write from an old one, and the number of the file when
 * each rank has its own, which tells files apart.
 *
 * The file is a row of 8-byte little-endian words, word i = mix((i + key) * MULTIPLIER). For one key the words are
 * pairwise different, so misplaced data is found. The product advances by one addition per word.
 */
#include "patterns.h"

#include <endian.h>
#include <string.h>

static const uint64_t MULTIPLIER = 0x9e3779b97f4a7c15u;
static const uint64_t GENERATION_STEP = 0xd6e8feb86659fd93u;
static const uint64_t FILE_STEP = 0xa0761d6478bd642fu;

enum { WORD = 8, CHECK_BYTES = 4096 };

uint64_t content_key(uint64_t generation, int file_index) {
    return (generation + 1) * GENERATION_STEP + (uint64_t)file_index * FILE_STEP;
}

/* Carries the well mixed upper half into the lower half. */
static uint64_t mix(uint64_t value) { return htole64(value ^ (value >> 32)); }

static void fill_partial_word(unsigned char *buffer, int64_t offset, size_t bytes, uint64_t key) {
    uint64_t word = mix(((uint64_t)offset / WORD + key) * MULTIPLIER);
    memcpy(buffer, (const unsigned char *)&word + offset % WORD, bytes);
}

void content_fill(void *buffer, int64_t offset, size_t bytes, uint64_t key) {
    unsigned char *next = buffer;
    size_t head = (size_t)(-(uint64_t)offset % WORD);
    if (head > bytes) {
        head = bytes;
    }
    if (head > 0) {
        fill_partial_word(next, offset, head, key);
        next += head;
        offset += (int64_t)head;
        bytes -= head;
    }
    uint64_t value = ((uint64_t)offset / WORD + key) * MULTIPLIER;
    for (; bytes >= WORD; bytes -= WORD) {
        uint64_t word = mix(value);
        memcpy(next, &word, WORD);
        value += MULTIPLIER;
        next += WORD;
        offset += WORD;
    }
    if (bytes > 0) {
        fill_partial_word(next, offset, bytes, key);
    }
}

unsigned char content_byte(int64_t offset, uint64_t key) {
    unsigned char byte;
    fill_partial_word(&byte, offset, 1, key);
    return byte;
}

size_t content_count_wrong(const void *buffer, int64_t offset, size_t bytes, uint64_t key, size_t *first) {
    const unsigned char *found = buffer;
    unsigned char expected[CHECK_BYTES];
    size_t wrong = 0;
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < CHECK_BYTES ? bytes - done : CHECK_BYTES;
        content_fill(expected, offset + (int64_t)done, length, key);
        if (memcmp(found + done, expected, length) != 0) {
            for (size_t i = 0; i < length; i++) {
                if (found[done + i] != expected[i] && wrong++ == 0) {
                    *first = done + i;
                }
            }
        }
        done += length;
    }
    return wrong;
}
