/* splitmix64: small, seedable, equal on every machine. */
#include "patterns.h"

uint64_t random_next(uint64_t *state) {
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* A number in [0, bound). The bias of the multiplication, bound / 2^64, is of no importance here. */
uint64_t random_below(uint64_t *state, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)random_next(state) * bound) >> 64);
}

/* Independent streams of one seed, one per rank. */
uint64_t random_state(uint64_t seed, uint64_t stream) {
    uint64_t state = seed;
    uint64_t mixed = random_next(&state);
    state = mixed ^ (stream * 0xd1342543de82ef95u);
    return random_next(&state);
}

void regions_shuffle(struct region *regions, uint64_t count, uint64_t *state) {
    for (uint64_t left = count; left > 1; left--) {
        uint64_t chosen = random_below(state, left);
        struct region last = regions[left - 1];
        regions[left - 1] = regions[chosen];
        regions[chosen] = last;
    }
}
