// Exhaustive check of the rules of sizes (8 and 9 of client.md). Run:  make check-protocols, or
// g++ -O2 -std=c++17 -o sizes sizes.cpp && ./sizes check
//
// Search and commands are explorer.hpp's.
//
// One file of up to three blocks, each with a granule of its own; ranks that write the disk, write flash and cut the
// file; somebody who asks for its size at any time; an agent that extends it, with one write-back at a time.
// Blocks are as client.cpp has them: a commit is one step, and its bytes are read from where the map says. Here it is
// the size that interleaves: the look at it before a cheap write is published, the one after, size bit, slots, leases,
// the agent's look at the file and its ftruncate. The wait T is a step that may come at any time; but where ranks are
// killed, truncations and the writes that they wait for have ended before it comes, unless one is frozen. Orders of
// single stores are loom's (crates/protocol/tests/handshake/sizes.rs).
//
// What POSIX allows is kept as a set: every size and content that the file may have if each operation takes effect at
// once between its begin and its return, and what was seen so far is true. A stopped or dead rank's operation may take
// effect at any time.
#include "explorer.hpp"
#include <map>

const int BLOCKS_MAX = 3, RANKS_MAX = 3;

// ---- states

enum Pc : u8 { IDLE, SIZE, PUBLISH, AGAIN, LOOK, CHEAP_IO, FREE,  // a write: looks at the size, publishes, looks again
  W_ASK, W_IO, W_TELL,                                          // under a lease
  C_ASK, C_APPLIED,                                             // a commit
  T_ASK, T_IO, T_TELL,                                          // a truncation
  GONE };                                                       // dead, and nothing of it lands any more
enum Lease : u8 { NO_LEASE, QUARANTINED, WRITES, EXTENDS, TRUNCATES }; // quarantined: what a dead rank may write
enum Extension : u8 { NONE, ANNOUNCED, RUNS, LOOKED };            // LOOKED: the agent has asked for the file's size
enum Growth : u8 { SIZED, LAST_BYTE, FOUND };
struct Rank { u8 pc, at, value, cheap, extends, lease, vain, alive, frozen; }; // at: block or cut; cheap: 2 extends
struct State {
  u8 size, slow[BLOCKS_MAX], map[BLOCKS_MAX];   // the slow file; what lies on flash, dirty, by the number of its write
  u8 known, bits, sizeBit;                      // size that it has at least, as ranks see it too; bits of granules
  u8 extension, to, run, growth, found;         // announced to, or then; under way to; the size found
  u8 overlapped, copy, copyValue, landed;       // truncations overlapped; block + 1 that is written back
  u8 pool, next, kills, freezes, waited;        // waited: T passed since the extension was announced
  Rank r[RANKS_MAX];
  u32 posix;                                    // number of the set
};
static_assert(sizeof(State) == 24 + 9 * RANKS_MAX + 1 + 4, "no padding but one byte");

struct Row {
  const char *name, *what;
  int ranks = 2, blocks = 2, ops = 3;
  bool direct = true, absorb = true, cut = true, fails = false;
  int shortAtFirst = 0;                         // bytes of a rank that is dead lie on flash beyond the end: block + 1
  int rankKills = 0, freezes = 0, sizeAtFirst = 0;
  bool asked = true;                            // somebody asks for the size
};
enum Deviation { NO_BIT, NO_WAIT, ONE_LOOK, KIND_ALONE, DIRECT_IN, CUT_IN, NO_WAIT_COPY, LATE_SIZED,
  LAST_BYTE_SEEN, EXTENSION_WAITS, CUT_IS_LAST, KNOWN_KEPT, COMMIT_IN_CUT, CUT_WAITS, COMMIT_WAITS, EARLY_ANSWER,
  DEAD_CUT, BIT_BETWEEN, CUT_IN_COMMIT, DEAD_SIZED,
  CUT_NO_BIT, CUT_NO_WAIT, CUT_BESIDE_CUT, DIRECT_BESIDE_CUT, CUT_WAITS_WRITE, DIRECT_WAITS };
static Row C;

// ---- what POSIX allows

// A file: size, and by block the number of the write that its bytes are of; ranks whose operation has taken effect.
struct File { u8 size, block[BLOCKS_MAX], ranks; };
static bool operator<(const File &a, const File &b) { return memcmp(&a, &b, sizeof a) < 0; }
static bool operator==(const File &a, const File &b) { return !memcmp(&a, &b, sizeof a); }
typedef std::vector<File> Files;
static std::vector<Files> sets; static std::map<Files, u32> numbers;
static u32 numberOf(Files files) {
  std::sort(files.begin(), files.end()); files.erase(std::unique(files.begin(), files.end()), files.end());
  auto found = numbers.emplace(files, sets.size());
  if (found.second) sets.push_back(files);
  return found.first->second;
}
static bool truncates(const Rank &k) { return !k.value; }
static File after(File f, const Rank &k, int i) {
  if (truncates(k)) { for (int b = k.at; b < C.blocks; b++) f.block[b] = 0; f.size = k.at; }
  else { f.block[k.at] = k.value; f.size = std::max<int>(f.size, k.at + 1); }
  f.ranks |= 1 << i;
  return f;
}
static bool underWay(const Rank &k) { return k.pc != IDLE && (k.value || k.pc >= T_ASK); }
static Files possible(const State &s) {         // with every operation under way that may have taken effect
  Files files = sets[s.posix];
  for (size_t j = 0; j < files.size(); j++) for (int i = 0; i < C.ranks; i++)
    if (underWay(s.r[i]) && !(files[j].ranks >> i & 1)) {
      File f = after(files[j], s.r[i], i);
      if (std::find(files.begin(), files.end(), f) == files.end()) files.push_back(f); }
  return files;
}

// ---- steps

#define STEPS(X) \
  X(BEGIN_WRITE, "begins a write of block") X(BEGIN_ABSORB, "begins an absorbed write of block") \
  X(BEGIN_CUT, "begins a truncation to") X(STAT, "somebody asks for the size: it is") \
  X(LOOKS_SIZE, "looks at the known size") \
  X(PUBLISHES, "publishes its slot") X(LOOKS_AGAIN, "looks at the known size again") X(IS_CHEAP, "goes to the disk") \
  X(ASKS, "asks the agent") X(LANDS, "write lands on the disk") X(RETURNS, "returns") \
  X(GRANT, "is granted a direct write") \
  X(DONE, "tells of it, returns") X(BIT, "agent sets the bit of block") X(ANNOUNCES, "agent announces an extension") \
  X(REFUSED, "commit is refused") X(APPLIED, "commit is applied") X(ANSWERED, "commit is answered, returns") \
  X(CUT_BIT, "agent sets the size bit for its truncation") X(CUT_GRANT, "is granted the truncation") \
  X(CUTS, "cuts the file to") X(CUT_FAILS, "cannot cut the file") \
  X(CUT_DONE, "tells of it, returns") X(CUT_ENDED, "is dead: agent ends its truncation") \
  X(NOT_NEEDED, "extension is not needed") \
  X(WAITED, "the extension has waited long enough") X(EXTENDS_TO, "agent begins to extend the file to") \
  X(LOOKS, "agent finds the file's size to be") X(EXTENDED, "agent has extended the file to") \
  X(NOT_EXTENDED, "agent did not extend it") \
  X(BACK, "agent begins to write back block") X(BACK_LANDS, "write-back lands, block") \
  X(BACK_DONE, "write-back is done, block") \
  X(CLEARS, "agent clears the bit of block") X(KILL, "is KILLED") X(DEAD_LANDS, "dead: write lands") \
  X(FREEZE, "is FROZEN") X(LIFT, "nothing of it can land: quarantine lifted")
DEFINE_STEPS(STEPS)

static void returns(State &s, int i, bool happened = true) {
  Files files;
  for (File f : possible(s)) if ((f.ranks >> i & 1) == happened) { f.ranks &= ~(1 << i); files.push_back(f); }
  if (files.empty()) violated = "S1 no order of the operations explains what was seen";
  s.posix = numberOf(files);
  Rank &k = s.r[i]; k.pc = IDLE; k.at = k.value = k.cheap = k.extends = k.lease = k.vain = 0;
}
static void writeSlow(State &s, int b, int value) { s.slow[b] = value; s.size = std::max<int>(s.size, b + 1); }
static void cutSlow(State &s, int size) { for (int b = size; b < C.blocks; b++) s.slow[b] = 0; s.size = size; }

// ---- what the agent sees

static bool directAt(const State &s, int b) {   // a direct write, or a truncation, over the block
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.lease > QUARANTINED && (k.lease == TRUNCATES ? b >= k.at : b == k.at)) return true; }
  return false;
}
static bool cutUnderWay(const State &s, int except = -1) {
  for (int i = 0; i < C.ranks; i++) if (i != except && s.r[i].lease == TRUNCATES) return true;
  return false;
}
// May anybody be at a call that makes the file longer than is known?
static bool mayBeExtending(const State &s) {
  if (dev(NO_WAIT)) return false;
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.cheap && (k.cheap == 2 || (k.at + 1 > s.known && !dev(KIND_ALONE)))) return true;
    if (k.lease >= EXTENDS || (k.lease == WRITES && k.at + 1 > s.known)) return true; }
  return s.copy > s.known && !dev(NO_WAIT_COPY);
}
// May a dead rank still make it so?
static bool deadMayExtend(const State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.lease == QUARANTINED && (truncates(k) || k.at + 1 > s.known)) return !dev(DEAD_SIZED); }
  return false;
}
// Does the agent go on waiting for a rank, at a truncation? Not for one that is stopped, nor in rows where T may come.
static bool awaits(const Rank &k) { return C.rankKills && !k.frozen; }
// Whom a truncation waits for: who may make the file longer than what it cuts to.
static bool cutWaitsFor(const State &s, int i) {
  for (int j = 0; j < C.ranks; j++) { const Rank &k = s.r[j]; int cut = s.r[i].at;
    bool extends = k.cheap == 2 || k.lease == EXTENDS, beyond = (k.cheap || k.lease == WRITES) && k.at + 1 > cut;
    bool cuts = k.lease == TRUNCATES && k.at != cut;
    if ((extends || beyond) && !dev(CUT_NO_WAIT) && (awaits(k) || dev(CUT_WAITS_WRITE))) return true;
    if (cuts && !dev(CUT_BESIDE_CUT) && (awaits(k) || dev(CUT_WAITS))) return true; }
  return false;
}
static bool directWaitsForCut(const State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.lease == TRUNCATES && !dev(DIRECT_BESIDE_CUT) && (awaits(k) || dev(DIRECT_WAITS))) return true; }
  return false;
}
static void clearSizeBit(State &s) {            // unless an extension or a truncation is under way
  if (s.extension == NONE && !cutUnderWay(s)) s.sizeBit = 0;
}
static void announce(State &s, int to) {
  if (s.extension == NONE) { s.extension = ANNOUNCED; s.to = to; s.sizeBit = 1; s.waited = 0; }
  else s.to = std::max<int>(s.to, to);
}
static void completeMapped(State &s) {          // makes the file long enough for what is mapped
  int end = 0;
  for (int b = 0; b < C.blocks; b++) if (s.map[b]) end = b + 1;
  if (end > s.known && !cutUnderWay(s)) announce(s, end);
}
static void endExtension(State &s) {
  if (s.to > s.known && !dev(BIT_BETWEEN)) { s.extension = ANNOUNCED; s.waited = 0; }
  else { s.extension = NONE; s.to = 0; s.waited = 0; clearSizeBit(s); }
  s.run = s.growth = s.found = 0;
}
static void endCut(State &s, int i) {
  s.r[i].lease = NO_LEASE;
  if (!cutUnderWay(s)) s.overlapped = 0;
  completeMapped(s); clearSizeBit(s);
}
static void dropBeyond(State &s, int cut, int size) {
  for (int b = cut; b < C.blocks; b++) s.map[b] = 0;
  s.known = s.overlapped && !dev(CUT_IS_LAST) ? std::min<int>(size, s.known) : size;
}

// ---- ranks

static void beginOperation(const State &s, int i) {
  if (!s.pool) return;
  State n; Rank &m = n.r[i];
  for (int b = 0; b < C.blocks; b++) {
    n = s; n.pool--; m.at = b; m.value = n.next++;
    if (C.direct) { m.pc = SIZE; emit(n, BEGIN_WRITE, i, b); }
    if (C.absorb) { m.pc = C_ASK; emit(n, BEGIN_ABSORB, i, b); }
  }
  if (C.cut) for (int size = 0; size <= C.blocks; size++) {
    n = s; n.pool--; m.at = size; m.pc = T_ASK; emit(n, BEGIN_CUT, i, size); }
}
static void somebodyAsks(const State &s) {      // for the size
  State n = s; Files files;
  for (File f : possible(s)) if (f.size == s.size) files.push_back(f);
  n.posix = numberOf(files);
  if (n.posix != s.posix) emit(n, STAT, AGENT, s.size);
}
static void rankSteps(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i];
  if (!k.alive) {
    if (k.pc == CHEAP_IO || k.pc == W_IO) { writeSlow(n, k.at, k.value); m.pc = GONE; emit(n, DEAD_LANDS, i); }
    else if (k.lease == QUARANTINED) { m.lease = NO_LEASE; emit(n, LIFT, i); }
    return;
  }
  if (!k.frozen) switch (k.pc) {
  case IDLE: beginOperation(s, i); break;
  case SIZE: m.extends = k.at + 1 > s.known; m.pc = PUBLISH; emit(n, LOOKS_SIZE, i, s.known); break;
  case PUBLISH: m.cheap = k.extends ? 2 : 1; m.pc = k.extends || dev(ONE_LOOK) ? LOOK : AGAIN;
    emit(n, PUBLISHES, i); break;
  case AGAIN: if (k.at + 1 > s.known) { m.extends = 1; m.cheap = 2; }
    m.pc = LOOK; emit(n, LOOKS_AGAIN, i, s.known); break;
  case LOOK:
    if (!(s.bits >> k.at & 1) && !(k.extends && s.sizeBit && !dev(NO_BIT))) { m.pc = CHEAP_IO; emit(n, IS_CHEAP, i); }
    else { m.cheap = 0; m.pc = W_ASK; emit(n, ASKS, i); }
    break;
  case CHEAP_IO: writeSlow(n, k.at, k.value); m.pc = FREE; emit(n, LANDS, i); break;
  case FREE: returns(n, i); emit(n, RETURNS, i); break;
  case W_IO: writeSlow(n, k.at, k.value); m.pc = W_TELL; emit(n, LANDS, i); break;
  case T_IO: cutSlow(n, k.at); m.pc = T_TELL; emit(n, CUTS, i, k.at);
    if (C.fails) { n = s; m.vain = 1; m.pc = T_TELL; emit(n, CUT_FAILS, i); }
    break;
  default: break;
  }
  n = s;
  if (s.freezes < C.freezes && k.pc != IDLE && !k.frozen) { n.freezes++; m.frozen = 1; emit(n, FREEZE, i); n = s; }
  if (s.kills < C.rankKills) {                  // a truncation has happened by then, or never will
    n.kills++; m.alive = m.frozen = m.cheap = 0;
    if (k.lease != TRUNCATES) m.lease = k.cheap || k.lease ? QUARANTINED : NO_LEASE;
    if (k.pc != CHEAP_IO && k.pc != W_IO) m.pc = k.pc == IDLE || (truncates(k) && k.pc != T_TELL) ? IDLE : GONE;
    if (m.pc == IDLE) m.pc = GONE, m.at = k.lease == TRUNCATES ? k.at : 0;
    clearSizeBit(n); emit(n, KILL, i);
  }
}

// ---- the agent

static void serveCommit(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; int b = k.at;
  if (!(s.bits >> b & 1)) { n.bits |= 1 << b; emit(n, BIT, AGENT, b); return; }
  bool held = directAt(s, b) && !dev(COMMIT_IN_CUT);
  for (int j = 0; j < C.ranks; j++) held |= s.r[j].cheap && s.r[j].at == b;
  if (!held && b + 1 > s.known && s.extension < RUNS) {
    if (s.extension == NONE) { announce(n, 0); emit(n, ANNOUNCES, AGENT); return; }
    held = mayBeExtending(s);
  }
  if (held) { if (!dev(COMMIT_WAITS)) { n.r[i].pc = SIZE; emit(n, REFUSED, i); } return; }
  n.map[b] = k.value; n.r[i].pc = C_APPLIED;
  if (s.extension != NONE) n.to = std::max<int>(n.to, b + 1);
  emit(n, APPLIED, i);
}
static void serve(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i];
  if (!k.alive) {
    if (k.lease != TRUNCATES || dev(DEAD_CUT)) return;
    if (s.size <= k.at) dropBeyond(n, k.at, s.size); else if (!s.overlapped) n.known = s.size;
    endCut(n, i); m.lease = QUARANTINED; emit(n, CUT_ENDED, i); return;
  }
  switch (k.pc) {
  case C_ASK: serveCommit(s, i); break;
  case C_APPLIED:
    if (cutUnderWay(s) || s.known > k.at || dev(EARLY_ANSWER)) { returns(n, i); emit(n, ANSWERED, i); }
    else if (s.extension == NONE) { announce(n, k.at + 1); emit(n, ANNOUNCES, AGENT); }
    break;
  case W_ASK: {
    bool extends = k.extends || k.at + 1 > s.known;
    if (s.copy == k.at + 1 || (extends && s.extension != NONE && !dev(DIRECT_IN))) break;
    if (extends && directWaitsForCut(s)) break;
    m.lease = extends ? EXTENDS : WRITES; m.pc = W_IO; emit(n, GRANT, i); break; }
  case W_TELL: n.map[k.at] = 0; returns(n, i); emit(n, DONE, i); break;
  case T_ASK:
    if (!s.sizeBit && !dev(CUT_NO_BIT)) { n.sizeBit = 1; emit(n, CUT_BIT, i); break; }
    if (s.copy > k.at || (s.extension != NONE && !dev(CUT_IN)) || cutWaitsFor(s, i)) break;
    for (int j = 0; j < C.ranks; j++) // answered first
      if (s.r[j].alive && s.r[j].pc == C_APPLIED && !dev(CUT_IN_COMMIT)) return;
    n.overlapped |= cutUnderWay(s); m.lease = TRUNCATES; m.pc = T_IO;
    if (!dev(KNOWN_KEPT)) n.known = std::min(s.known, k.at);
    emit(n, CUT_GRANT, i); break;
  case T_TELL:
    if (!k.vain) dropBeyond(n, k.at, k.at);
    endCut(n, i); returns(n, i, !k.vain); emit(n, CUT_DONE, i); break;
  default: break;
  }
}
static void extensionSteps(const State &s) {
  State n = s;
  switch (s.extension) {
  case ANNOUNCED: {
    if (s.to <= s.known) {
      for (int i = 0; i < C.ranks; i++) if (s.r[i].alive && s.r[i].pc == C_ASK && s.r[i].at + 1 > s.known) return;
      endExtension(n); emit(n, NOT_NEEDED, AGENT); return;
    }
    bool awaited = mayBeExtending(s), held = awaited || deadMayExtend(s);
    if (awaited && !s.waited) { if (!dev(EXTENSION_WAITS)) { n.waited = 1; emit(n, WAITED, AGENT); } return; }
    if (held && s.copy == s.to) return;
    bool hidden = s.map[s.to - 1] && !directAt(s, s.to - 1);
    n.growth = !held || dev(LATE_SIZED) ? SIZED : hidden || dev(LAST_BYTE_SEEN) ? LAST_BYTE : FOUND;
    if (awaited && cutUnderWay(s)) violated = "S4 an extension waits for a truncation, which waits for it";
    n.extension = RUNS; n.run = s.to; n.to = 0; emit(n, EXTENDS_TO, AGENT, s.to); return; }
  case RUNS: n.extension = LOOKED; n.found = s.size; emit(n, LOOKS, AGENT, s.size); return;
  case LOOKED:
    if (s.found >= s.run) n.known = std::max(s.known, s.found);
    else if (s.growth == FOUND) { endExtension(n); emit(n, NOT_EXTENDED, AGENT); return; }
    else { if (s.growth == SIZED) cutSlow(n, s.run); else writeSlow(n, s.run - 1, 0);
      n.known = std::max(s.known, s.run); }
    endExtension(n); emit(n, EXTENDED, AGENT, n.known); return;
  default: return;
  }
}
static void copySteps(const State &s) {
  State n = s; int b = s.copy - 1;
  if (s.copy && !s.landed) { writeSlow(n, b, s.copyValue); n.landed = 1; emit(n, BACK_LANDS, AGENT, b); return; }
  if (s.copy) { if (s.map[b] == s.copyValue) n.map[b] = 0;
    n.copy = n.copyValue = n.landed = 0; emit(n, BACK_DONE, AGENT, b); return; }
  bool beyond = s.extension != NONE;
  for (int i = 0; i < C.ranks; i++) beyond |= s.r[i].pc == C_APPLIED && s.r[i].at + 1 > s.known;
  for (b = 0; b < C.blocks; b++) {
    if (!s.map[b] || directAt(s, b) || (b + 1 > s.known && beyond)) continue;
    bool wanted = false;                        // somebody waits to write there
    for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
      wanted |= k.alive && ((k.pc == W_ASK && k.at == b) || (k.pc == T_ASK && k.at <= b)); }
    if (wanted) continue;
    n = s; n.copy = b + 1; n.copyValue = s.map[b]; emit(n, BACK, AGENT, b);
  }
}
static void agentSteps(const State &s) {
  for (int i = 0; i < C.ranks; i++) serve(s, i);
  extensionSteps(s); copySteps(s);
  for (int b = 0; b < C.blocks; b++) if ((s.bits >> b & 1) && !s.map[b] && s.copy != b + 1) {
    bool held = false;
    for (int i = 0; i < C.ranks; i++) held |= s.r[i].alive && s.r[i].pc == C_ASK && s.r[i].at == b;
    if (held) continue;
    State n = s; n.bits &= ~(1 << b); emit(n, CLEARS, AGENT, b); }
}

// ---- invariants

static bool atRest(const State &s) {
  if (s.extension != NONE || s.copy) return false;
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.lease == TRUNCATES || (k.alive && !k.frozen && k.pc != IDLE)) return false; }
  return true;
}
static const char *wrong(const State &s) {
  Files files = possible(s);
  auto some = [&](auto &&holds) { return std::any_of(files.begin(), files.end(), holds); };
  if (!some([&](const File &f) { return f.size == s.size; })) return "S1 the file has a size that it cannot have";
  if (s.known > s.size && !cutUnderWay(s)) return "S2 the file is shorter than is known";
  if (atRest(s) && !some([&](const File &f) {
        if (f.size != s.size) return false;
        for (int b = 0; b < s.size; b++) if (f.block[b] != (s.map[b] ? s.map[b] : s.slow[b])) return false;
        return true; })) return "S3 bytes are lost, or come back";
  return nullptr;
}
static bool finished(const State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.alive ? !k.frozen && k.pc != IDLE : k.lease > QUARANTINED) return false; }
  for (int b = 0; b < C.blocks; b++) if (s.map[b] && !directAt(s, b)) return false;
  return s.extension == NONE && !s.copy;
}

// ---- search

static State initial() {
  sets.clear(); numbers.clear();
  State s; memset(&s, 0, sizeof s); s.pool = C.ops; s.next = 1;
  for (int i = 0; i < C.ranks; i++) s.r[i].alive = 1;
  File f; memset(&f, 0, sizeof f);
  if (C.shortAtFirst) {                         // of a rank that is dead; the agent could not make the file that long
    int last = C.ranks - 1, b = C.shortAtFirst - 1;
    s.r[last].alive = 0; s.r[last].pc = GONE; s.r[last].at = b; s.r[last].value = s.map[b] = s.next++; s.bits = 1 << b;
  }
  f.size = s.size = s.known = C.sizeAtFirst;
  s.posix = numberOf({f});
  return s;
}

static std::vector<Row> rows() {
  std::vector<Row> all;
  auto row = [&](const char *name, const char *what) -> Row & {
    all.emplace_back(); all.back().name = name; all.back().what = what; return all.back(); };
  row("two", "2 ranks, 3 operations, 2 blocks, the file empty at first");
  { Row &c = row("long", "the same, the file has both blocks at first"); c.sizeAtFirst = 2; }
  { Row &c = row("three", "3 ranks, 3 operations, 2 blocks"); c.ranks = 3; }
  { Row &c = row("four", "2 ranks, 4 operations, 2 blocks"); c.ops = 4; }
  { Row &c = row("blocks", "2 ranks, 3 operations, 3 blocks"); c.blocks = 3; }
  { Row &c = row("fails", "2 ranks, 3 operations, 2 blocks, truncations may fail"); c.fails = true; }
  auto shorter = [&](const char *name, const char *what, int block) -> Row & { Row &c = row(name, what);
    c.ranks = 3; c.ops = 2; c.fails = true; c.shortAtFirst = block + 1; return c; };
  shorter("short0",
    "2 ranks, 2 operations, truncations may fail, a third rank is dead, its block 0 on flash beyond the end", 0);
  shorter("short1", "the same with block 1", 1);
  { Row &c = row("freeze", "2 ranks, 3 operations, 2 blocks, truncations may fail, a rank frozen");
    c.fails = true; c.freezes = 1; }
  shorter("freezeshort0", "as short0, a rank frozen", 0).freezes = 1;
  shorter("freezeshort1", "as short1, a rank frozen", 1).freezes = 1;
  for (int asked = 0; asked < 2; asked++) {
    Row &c = row(asked ? "killasked" : "kill", asked ? "as kill, somebody asks for the size" :
      "2 ranks, 3 operations, 2 blocks, a rank killed, nobody asks for the size");
    c.rankKills = 1; c.asked = asked;
    Row &d = row(asked ? "longasked" : "killlong", "the same, the file has both blocks at first");
    d.rankKills = 1; d.asked = asked; d.sizeAtFirst = 2; }
  { Row &c = row("stopkilled", "as longasked, a rank frozen too"); c.rankKills = c.freezes = 1; c.sizeAtFirst = 2; }
  return all;
}
static const std::vector<Variant> VARIANTS = {
  {"spec", "the rules", "*", {}},
  {"size-no-bit", "writes past the end do not look at the size bit", "two", {NO_BIT}},
  {"size-no-wait", "agent extends while cheap or direct writes may", "two", {NO_WAIT}},
  {"size-one-look", "a write does not look at the size again once it is published", "long", {ONE_LOOK}},
  {"size-kind-alone", "agent waits only for writes that say that they extend", "long", {KIND_ALONE}},
  {"size-direct-in", "an extending direct write is granted beside an extension", "two", {DIRECT_IN}},
  {"size-cut-in", "a truncation is granted beside an extension", "two", {CUT_IN}},
  {"size-cut-in-commit", "a truncation is granted before a commit that is applied is answered", "two", {CUT_IN_COMMIT}},
  {"size-no-wait-copy", "agent extends beside a write-back past the known size", "short1", {NO_WAIT_COPY}},
  {"size-late-sized", "an extension that has waited sets the size", "short0", {LATE_SIZED}},
  {"size-last-byte-seen", "an extension that has waited writes a byte that is not hidden", "short1", {LAST_BYTE_SEEN}},
  {"size-extension-waits", "an extension waits for ever", "freezeshort0", {EXTENSION_WAITS}},
  {"size-bit-between", "size bit cleared between two extensions", "freeze", {BIT_BETWEEN}},
  {"size-cut-is-last", "the known size becomes what the truncation that ended last cut to", "two", {CUT_IS_LAST}},
  {"size-known-kept", "the known size stays when a truncation is granted", "longasked", {KNOWN_KEPT}},
  {"size-commit-in-cut", "commit beyond the cut of a truncation under way", "long", {COMMIT_IN_CUT}},
  {"size-cut-waits", "a truncation waits for ever for another one", "freezeshort0", {CUT_WAITS}},
  {"size-cut-waits-write", "a truncation waits for ever for a write that may extend the file", "freezeshort0",
    {CUT_WAITS_WRITE}},
  {"size-direct-waits", "an extending direct write waits for ever for a truncation", "freezeshort0", {DIRECT_WAITS}},
  {"size-cut-no-bit", "the size bit is not set for a truncation", "longasked", {CUT_NO_BIT}},
  {"size-cut-no-wait", "a truncation is granted beside writes that may extend the file", "longasked", {CUT_NO_WAIT}},
  {"size-cut-beside-cut", "a truncation is granted beside another one", "longasked", {CUT_BESIDE_CUT}},
  {"size-direct-beside-cut", "an extending direct write is granted beside a truncation", "longasked",
    {DIRECT_BESIDE_CUT}},
  {"size-commit-waits", "a commit waits for ever for one who may extend the file", "freezeshort0", {COMMIT_WAITS}},
  {"size-early-answer", "commit answered before the file is long enough", "two", {EARLY_ANSWER}},
  {"size-dead-sized", "an extension sets the size where a dead rank's write may land beyond", "killasked",
    {DEAD_SIZED}},
  {"size-dead-cut", "the truncation of a dead rank is not ended", "kill", {DEAD_CUT}},
};

struct Model {
  typedef ::State State; typedef ::Row Row;
  static inline Row &C = ::C;
  static size_t stateBytes() { return sizeof(State); }
  static State initial() { return ::initial(); }
  static void canonical(State &) {}
  static const char *wrong(const State &s) { return ::wrong(s); }
  static void steps(const State &s) {
    for (int i = 0; i < C.ranks && !violated; i++) rankSteps(s, i);
    if (!violated && C.asked) somebodyAsks(s);
    if (!violated) agentSteps(s);
  }
  static bool finished(const State &s) { return ::finished(s); }
  static const char *stuck(const State &) { return "S4 somebody waits for ever"; }
  static const char *stepText(u8 step) { return STEP_TEXT[step]; }
  static inline const std::vector<Row> ROWS = rows();
  static inline const std::vector<Variant> &VARIANTS = ::VARIANTS;
  static inline const Names LARGE = {"three", "four", "blocks", "freeze", "stopkilled"}, HOLD = {};
  static inline const Names GAPS = {"stopkilled"}; // client.md, "Not covered"
  static constexpr const char *NAME = "sizes", *LINE = "%-20s %-12s %9llu states %6.1f s  %s\n";
  static const u64 STATES_MAX = 20000000;
};

int main(int argc, char **argv) { return commands<Model>(argc, argv); }
