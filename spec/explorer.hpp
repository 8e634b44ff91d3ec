// What the checkers of the client protocol share: steps and how they are told, the breadth-first search over explicit
// states, in which a counterexample is a shortest one, and the commands with their tables.
//
//   list                 names rows and variants
//   table [VARIANT [ROW]]    runs rows; LIMIT=N bounds the states of one
//   trace ROW VARIANT    prints a counterexample
//   check [all]          judges: the rules hold in every row that is searched in seconds (all: in every row), each
//                        variant is refuted, and (all) those hold that are known to
//
// volume.cpp has its own search: its states are larger, so that it keeps digests of them, and its steps are told in
// words of their own.
//
// A checker is a struct `Model` of static members:
//   State, Row           a state, compared as bytes (no padding); a configuration, with `name` and `what`
//   C                    the row that is searched
//   stateBytes()         how many bytes of a state are kept; the others are zero
//   initial(), canonical(State &)    a state made the one that stands for all that are like it
//   wrong(state)         the invariant that it breaks, or null
//   steps(state)         emits every step from it
//   finished(state)      what every state must be able to reach; stuck(state): the invariant that says so
//   stepText(step)       a step in words
//   ROWS, VARIANTS; LARGE: rows that are left to `check all`; HOLD: variants that hold as well; GAPS: rows that have a
//   counterexample which is known
//   NAME, LINE, STATES_MAX           of the last line of `check`; of a line of a table; of a search, unless LIMIT says
#pragma once
#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;

// ---- variants

struct Variant { const char *name, *what, *rows; std::vector<int> deviations; }; // rows: "*" is the specification's
static std::bitset<128> deviations;            // of the variant that is searched
inline bool dev(int deviation) { return deviations[deviation]; }
static bool traced = false;                    // the search is for a trace, which names things as they are

// ---- steps: STEPS(X) lists them as X(NAME, "in words")

#define STEP_NAME(name, text) name,
#define STEP_IN_WORDS(name, text) text,
#define DEFINE_STEPS(STEPS) \
  enum Step : u8 { STEPS(STEP_NAME) }; \
  static const char *const STEP_TEXT[] = { STEPS(STEP_IN_WORDS) };

const u8 AGENT = 0xf, NOTHING = 0xff;          // who: a rank, or the agent; value: none
struct Label { u8 step, who, value; };
static const char *violated;                   // set by a step that breaks an invariant
static int violatedAt;                         // that step's index among the emitted
template <typename State> struct Emitted { static inline std::vector<std::pair<State, Label>> all; };
template <typename State> static void emit(const State &s, u8 step, int who, int value = NOTHING) {
  auto &all = Emitted<State>::all;
  if (violated && violatedAt < 0) violatedAt = all.size();
  all.push_back({s, {step, (u8)who, (u8)value}});
}

// ---- search

// Grows without moving what it holds.
template <typename T> class Chunks {
  static const u64 CHUNK = 1 << 20;
  std::vector<std::unique_ptr<T[]>> chunks; u64 width, count = 0;
public:
  explicit Chunks(u64 width = 1) : width(width) {}
  u64 size() const { return count; }
  T *operator[](u64 i) const { return &chunks[i / CHUNK][i % CHUNK * width]; }
  void push(const T *item) {
    if (count == chunks.size() * CHUNK) chunks.emplace_back(new T[CHUNK * width]);
    memcpy(&chunks.back()[count % CHUNK * width], item, width * sizeof(T)); count++;
  }
  void push(T item) { push(&item); }
};
// The states found, each once.
template <typename State> class Found {
  size_t bytes; Chunks<u8> states; std::vector<u32> table;
  u64 hash(const u8 *p) const {
    u64 h = 0x9e3779b97f4a7c15ull; size_t i = 0;
    for (; i + 8 <= bytes; i += 8) { u64 w; memcpy(&w, p + i, 8); h = (h ^ w) * 0xff51afd7ed558ccdull; h ^= h >> 32; }
    for (; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3ull;
    h ^= h >> 29; return h * 0xc4ceb9fe1a85ec53ull;
  }
  void grow() {                                // built anew from the states: both at once would need half as much again
    u64 size = table.empty() ? 1 << 16 : table.size() * 2, mask = size - 1;
    std::vector<u32>().swap(table); table.resize(size, 0);
    for (u64 i = 0; i < states.size(); i++) {
      u64 h = hash(states[i]) & mask;
      while (table[h]) h = (h + 1) & mask;
      table[h] = i + 1; }
  }
public:
  explicit Found(size_t bytes) : bytes(bytes), states(bytes) { grow(); }
  u64 size() const { return states.size(); }
  State operator[](u32 i) const { State s; memset(&s, 0, sizeof s); memcpy(&s, states[i], bytes); return s; }
  u32 add(const State &s, bool &fresh) {
    if (states.size() * 4 >= table.size() * 3) grow();
    const u8 *p = (const u8 *)&s; u64 mask = table.size() - 1, h = hash(p) & mask;
    for (; table[h]; h = (h + 1) & mask)
      if (!memcmp(states[table[h] - 1], p, bytes)) { fresh = false; return table[h] - 1; }
    states.push(p); table[h] = states.size(); fresh = true; return states.size() - 1;
  }
};

struct Result { u64 states = 0; std::string why; std::vector<Label> trace; double seconds = 0; bool whole = true; };
template <typename Model> static Result explore(u64 limit) {
  typedef typename Model::State State;
  auto begun = std::chrono::steady_clock::now();
  Result res; Found<State> found(Model::stateBytes()); std::vector<bool> ok;
  Chunks<u32> parents, edges; Chunks<Label> labels; Chunks<u8> degrees;
  auto &successors = Emitted<State>::all;
  auto path = [&](u32 i) { std::vector<Label> t; while (i) { t.push_back(*labels[i]); i = *parents[i]; }
    std::reverse(t.begin(), t.end()); return t; };
  State first = Model::initial(); bool fresh; Model::canonical(first);
  found.add(first, fresh); parents.push(0u); labels.push(Label{0, 0, 0});
  for (u32 i = 0; i < found.size() && res.whole; i++) {
    const State s = found[i];
    if (const char *why = Model::wrong(s)) { res.why = why; res.trace = path(i); break; }
    successors.clear(); violated = nullptr; violatedAt = -1;
    Model::steps(s);
    if (violated) {
      res.why = violated; res.trace = path(i); res.trace.push_back(successors[violatedAt].second);
      break; }
    ok.push_back(Model::finished(s)); degrees.push((u8)successors.size());
    for (auto &o : successors) {
      Model::canonical(o.first); u32 j = found.add(o.first, fresh);
      if (fresh) { parents.push(i); labels.push(o.second); }
      edges.push(j); }
    res.whole = found.size() <= limit;
  }
  res.states = found.size();
  bool changed = res.why.empty() && res.whole; // backwards from what is finished, in as many rounds as it takes
  while (changed) { changed = false;
    for (u64 i = ok.size(), e = edges.size(); i-- > 0; ) { e -= *degrees[i]; if (ok[i]) continue;
      for (int d = 0; d < *degrees[i]; d++) if (ok[*edges[e + d]]) { ok[i] = true; changed = true; break; } } }
  if (res.why.empty() && res.whole) for (u32 i = 0; i < ok.size(); i++) if (!ok[i]) {
    res.why = Model::stuck(found[i]); res.trace = path(i); break; }
  res.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return res;
}

// ---- commands

typedef std::vector<std::string> Names;
inline bool among(const Names &names, const char *name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
inline bool listed(const char *names, const char *name) {
  return (std::string(" ") + names + " ").find(std::string(" ") + name + " ") != std::string::npos;
}
template <typename T> static const T &named(const std::vector<T> &all, const char *name) {
  for (auto &x : all) if (!strcmp(x.name, name)) return x;
  fprintf(stderr, "nothing is called %s\n", name); exit(2);
}
inline bool isSpec(const Variant &v) { return !strcmp(v.rows, "*"); }
template <typename Model> static Result run(const typename Model::Row &row, const Variant &variant, u64 limit) {
  Model::C = row; deviations.reset(); for (int d : variant.deviations) deviations.set(d);
  Result r = explore<Model>(limit);
  std::string why = r.why.empty() ? (r.whole ? "holds" : "no counterexample so far")
    : r.why + " (" + std::to_string(r.trace.size()) + " steps)";
  printf(Model::LINE, variant.name, row.name, (unsigned long long)r.states, r.seconds, why.c_str());
  fflush(stdout);
  return r;
}
template <typename Model> static int check(bool all, u64 limit) {
  int right = 0, wrong = 0;
  auto judge = [&](bool ok, const char *name, const char *what) {
    (ok ? right : wrong)++;
    if (!ok) printf("WRONG: %s %s\n", name, what); };
  for (auto &v : Model::VARIANTS) {
    bool hold = among(Model::HOLD, v.name), refuted = false, whole = true;
    if (!all && hold) continue;
    for (auto &c : Model::ROWS) {
      if (isSpec(v) ? !all && among(Model::LARGE, c.name) : !listed(v.rows, c.name)) continue;
      Result r = run<Model>(c, v, limit);
      refuted |= !r.why.empty(); whole &= r.whole;
      if (isSpec(v) && among(Model::GAPS, c.name)) judge(!r.why.empty(), c.name, "has a known counterexample no more");
      else if (isSpec(v))
        judge(r.why.empty() && r.whole, c.name, "is a row where the rules do not hold, or was not searched to the end");
      else if (refuted) break;
    }
    if (isSpec(v)) continue;
    if (hold) judge(!refuted && whole, v.name, "is known to hold, and does not");
    else judge(refuted, v.name, "leaves a rule out, and nothing fails: the rule is not there");
  }
  printf("%s: %d passed, %d failed\n", Model::NAME, right, wrong);
  return wrong > 0;
}
template <typename Model> static int trace(const char *row, const char *variant, u64 limit) {
  traced = true;
  Result r = run<Model>(named(Model::ROWS, row), named(Model::VARIANTS, variant), limit);
  int k = 0;
  for (auto &l : r.trace) {
    std::string who = l.who == AGENT ? "" : "rank " + std::to_string(l.who) + ": ";
    std::string value = l.value == NOTHING ? "" : " " + std::to_string(l.value);
    printf("  %2d. %s%s%s\n", ++k, who.c_str(), Model::stepText(l.step), value.c_str()); }
  if (!r.why.empty()) printf("  => %s\n", r.why.c_str());
  return !r.why.empty();
}
template <typename Model> static int table(const char *variant, const char *row, u64 limit) { // null: every one
  int bad = 0;
  for (auto &v : Model::VARIANTS) for (auto &c : Model::ROWS) {
    if (variant && strcmp(variant, v.name)) continue;
    if (row ? strcmp(row, c.name) != 0 : !isSpec(v) && !listed(v.rows, c.name)) continue;
    bad |= !run<Model>(c, v, limit).why.empty() && isSpec(v) && !among(Model::GAPS, c.name);
  }
  return bad;
}
template <typename Model> static int commands(int argc, char **argv) {
  std::string cmd = argc > 1 ? argv[1] : "list";
  u64 limit = getenv("LIMIT") ? strtoull(getenv("LIMIT"), 0, 10) : Model::STATES_MAX;
  if (cmd == "list") {
    for (auto &c : Model::ROWS) printf("row     %-22s %s\n", c.name, c.what);
    for (auto &v : Model::VARIANTS) printf("variant %-22s %s\n", v.name, v.what);
    return 0;
  }
  if (cmd == "check") return check<Model>(argc > 2, limit);
  if (cmd == "trace" && argc == 4) return trace<Model>(argv[2], argv[3], limit);
  if (cmd == "table") return table<Model>(argc > 2 ? argv[2] : nullptr, argc > 3 ? argv[3] : nullptr, limit);
  return 2;
}
