// Exhaustive check of the client protocol (client.md). Run:  make check-protocols, or g++ -O2 -std=c++17 -o client client.cpp && ./client check
//
// Search and commands are explorer.hpp's; UNREDUCED=1 searches each state.
//
// One file, one or two blocks in one granule (one bit, one generation, one open word), ranks with one thread each, an agent with one
// copy machine (fetch or write-back), `places` pieces of flash per agent epoch. Values are block*4+n: n=0 is what the disk held at
// first, n=1..3 the writes in the order in which they began. GARBAGE is a piece of flash nobody has written.
//
// States that nobody can tell apart are searched once (see below under that name).
// Numbers that only grow are not kept. Of the generation, a rank keeps whether it changed since the rank loaded it; of the open word's
// number, whether the word changed since (the number never comes back), and each entry of a ring whether its number is still the open
// one; tickets are renumbered in their order.
// Power failure needs no step: every reachable state is checked for every outcome it allows (any subset of unsynced writes; the
// journal as of its last durable barrier).
#include "explorer.hpp"

const int RANKS_MAX = 3, BLOCKS_MAX = 2, PLACES_MAX = 4, RING_MAX = 2, STORES_MAX = 2, GARBAGE = 8;

// ---- states

// Where a rank stands: what it does next, or what it waits for.
enum Pc : u8 { IDLE,
  W_PUBLISH, W_LOOK, W_IO, W_FREE,             // cheap write: publish slot; fence, load bit; kernel call; free slot
  W_ASK, W_LEASED_IO, W_DONE,                  // direct write under a lease: ask; kernel call; tell
  A_SLAB, A_IO, A_LOOK,                        // absorbed write: get space; write flash; load the open word and take a ticket
  A_PUSH, A_MARK, A_VALIDATE, A_COMMIT,        // push to the ring; fence, mark the ring; load the open word again; or ask to commit
  R_LOOK, R_SLOW, R_VALIDATE,                  // read, its generation loaded: load bit; kernel call; load the generation again
  R_LOAD, R_ASK, R_LEASED, R_FLASH,            // load the generation; ask; kernel call under a lease; read flash
  L_TAG, L_PLACE, L_READ, L_LOOK,              // by a listing, its key loaded: whose; where; read flash; load the key
  F_LOOK, F_KERNEL, F_ASK, F_WAIT,             // fsync
  P_ASK, P_IO, P_RELEASE,                      // overwrite in place (only variants do)
  GONE };                                      // dead, and nothing of it can land any more

// One small number for each block.
struct PerBlock {
  u8 packed;
  int operator[](int b) const { return packed >> 4 * b & 15; }
  void set(int b, int v) { packed = (packed & ~(15 << 4 * b)) | v << 4 * b; }
  void add(int b, int bits) { packed |= bits << 4 * b; }
};
struct Entry {                                 // of a ring; one without a place is none
  u16 place : 3, block : 1, ticket : 4;
  u16 visible : 1;                             // in memory (not in the rank's store buffer)
  u16 pending : 1;                             // of the write that has not returned
  u16 stale : 1;                               // pushed under a number that is not open any more
  u16 collected : 1, applied : 1;              // the drain under way has read it; the journal holds it
  u16 spare : 3;
};
struct Rank {
  u8 pc;
  PerBlock value, asOfSync;                    // n of the write under way; monitor of fsync: what was superseded when it began
  u8 deadAtStart : 4, doneAtStart : 4;         // monitors of a read
  u32 alive : 1, frozen : 1, mask : 2;         // frozen: stopped for ever, and alive; mask: blocks of the operation
  u32 slot : 1, stores : 2, store0 : 2, store1 : 2;          // slot as memory shows it; the rank's store buffer (TSO)
  u32 slab : 3, flash : 3, slow : 1, inPlace : 3, direct : 2, known : 1; // grants in shared memory (places + 1); the agent knows of them
  u32 journaled : 1;                           // the journal holds this rank's unanswered commit
  u32 changed : 1, viaAgent : 1, leased : 1;   // generation changed since loaded; agent sent the read to the disk; READ asks for a lease
  u32 drained : 1;                             // a drain began after its question arrived
  u32 marked : 1, toRead : 1, left : 1;        // ring: mark in memory; the drain has yet to read it; agent remembers that it holds more
  u16 got : 4, ticket : 4;                     // bytes read; ticket not yet pushed
  u16 wordChanged : 1, ticketStale : 1;        // the open word changed since it was loaded; the agent has closed that number
  u16 entries : 2, bumping : 1, keyChanged : 1, spare : 2; // in the ring; agent changed the generation for its
                                               // question; the listing's key changed since it was loaded
  Entry ring[RING_MAX];
  u16 spare2;
};
struct State {
  u8 slow[BLOCKS_MAX], flash[PLACES_MAX];      // what a read sees now (page cache)
  u8 map[BLOCKS_MAX], durable[BLOCKS_MAX], snapshot[BLOCKS_MAX]; // extent map (= journal replayed to its end); durable; of the barrier under way
  u16 slowMay[BLOCKS_MAX], flashMay[PLACES_MAX];                 // set of values stable storage may hold
  PerBlock next, done, dead, powerDead;
      u16 before[BLOCKS_MAX];  // monitors: next n; completed or seen; superseded; the same after power loss; done when n began
  u32 pool : 3;                                // operations not yet begun, shared by all ranks
  u32 barrier : 2, asked
      : 1;                  // 0 none, 1 snapshot taken, 2 flash synced, 3 slow synced; some rank asked that bytes survive power loss
  u32 bit : 1, stores : 2, store0 : 3, store1 : 3; // granule bit as memory shows it; the agent's store buffer
  u32 alive : 1, epoch : 1, agentKills : 1, rankKills : 1, freezes : 1;
  u32 copy : 2, copyBlock : 1, copyPlace : 2, copyPhase : 2, copyValue : 4, cancelled : 1; // 0 none 1 fetch 2 write-back
  u32 late : 2, lateTarget : 2, lateValue : 4; // write of a killed agent that may still land: 1 slow 2 flash
  u32 open : 2, opened : 1;                    // open word in memory; the agent counts entries of its number
  u32 closing : 2, draining : 2;               // 1 closing 2 adopting; drain: 1 the last ticket is noted, 2 marks are cleared
  u32 bumping : 2;                             // the generation is changed, the map not yet, for: 1 a rank, 2 a fetch, 3 an entry
  u32 ticket : 4, bound : 4;                   // last ticket taken; tickets that the drain under way takes
  u32 listed : 1, listKnown : 1, endOwed : 1;  // the key in memory is not 0; the agent knows that; and is to end it
  u32 place0 : 3, place1 : 3;                  // places + 1 of the blocks; where it is of one block, `tag`: the first
  u32 tag : 1, filling : 3, fillBlock : 1;     // 1 sets the key to 0, 2 writes the tag, 3 the place, 4 the new key
  Rank r[RANKS_MAX];
};
static_assert(sizeof(Rank) == 20 || sizeof(Rank) == 16, "no padding");
const u8 DIRTY = 0x10;
enum OpenWord { CLOSED, OPEN, CLOSING };
enum AgentStore { BIT_CLEAR, BIT_SET, BUMP, WORD_CLOSED, WORD_OPEN, WORD_CLOSING, KEY_NONE, KEY_NEW };
enum RankStore { SLOT_FREE, SLOT_CHEAP, RING_HEAD };
enum Copy { NO_COPY, FETCH, WRITE_BACK };
enum Bumping { NO_BUMP, FOR_RANK, FOR_FETCH, FOR_ENTRY };
static int placeOf(u8 extent) { return (extent & 0xf) - 1; }
static int listedAt(const State &s, int b) { return b ? s.place1 : s.place0; }
static void list(State &s, int b, int place) { if (b) s.place1 = place; else s.place0 = place; }

// ---- rows and variants

struct Row {                                   // a configuration
  const char *name, *what;
  int ranks = 2, blocks = 1, places = 1, ops = 4, writes = 3;
  bool direct = true, absorb = true, read = true, sync = false, wide = false, leases = true; // operations; leases: reads may ask for one
  bool fetch = true, writeBack = true, evict = true, clear = true, storeBuffers = false;
  int rankKills = 0, agentKills = 0, freezes = 0;
  bool readOnly = false, sooner = false, syncAsked = false;  // clean extents survive power loss; clean bytes read from the disks; see asked1
  bool ring = false, openAtFirst = false;
  bool listing = false, listShared = false;    // block 0 is clean on flash at first, and listed; a listing is of one
                                               // block, the last one that was read
  bool slabsAhead = false;                     // ranks get slabs before they write
  int ringEntries = RING_MAX;
};
enum Deviation {
  NO_FENCE_RANK, NO_FENCE_AGENT, NO_WAIT, REDO, BIT_AFTER_COMMIT, SLOT_KEPT, NO_VALIDATE_READ, NO_GEN_READ,
  GENERATION_FIRST, GENERATION_LATE, BUMP_EARLY, DISK_NO_BUMP, DIRECT_NO_BUMP, READ_NO_LEASE, LEASED_SOONER,
  WAIT_DEAD, NEVER_LIFTED, APPEND_ONLY, RECORD_IN_MEMORY, REUSE_SUPERSEDED, REUSE_CLEAN, REUSE_EARLY,
  CLEAR_ON_CLEAN, CLEAR_EARLY, DROP_UNSYNCED, DROP_FIRST, DIRECT_IN_WRITEBACK, WRITEBACK_IN_DIRECT,
  COMMIT_IN_DIRECT, FETCH_IN_DIRECT, FETCH_CHEAP, FETCH_DEAD, FETCH_NOT_CANCELLED, CLEAN_DESPITE, NO_READ_LEASE,
  COMMIT_TWICE, LATE_WRITEBACK, QUARANTINE_ENDS, SLAB_RECLAIMED, NO_ADOPTION, OLD_FILES, SLOW_WHILE_DOWN,
  KEEP_CLEAN, SLOW_OF_DIRTY, SLOW_IN_DIRECT, SLOW_FROM_DEAD, SLOW_IN_COPY, LIFT_KEEPS_CLEAN, LIFT_COUNTS,
  ASKED_UNSYNCED, WAIT_SLOT, WAIT_LEASE, WAIT_READER, IN_PLACE, IN_PLACE_NEVER, IN_PLACE_DEAD, IN_PLACE_CLEAN,
  IN_PLACE_COPIED, NO_TICKET, NO_TICKET_BOUND, NO_DRAIN_READ, NO_DRAIN_COMMIT, NO_DRAIN_SYNC, NO_DRAIN_DEATH,
  OPEN_DIRECT, OPEN_CLEAR, OPEN_LEASE, OPEN_FETCH, OPEN_UNDER_LEASE, OPEN_UNDER_FETCH, RING_NO_VALIDATE, STALE_OK,
  RING_NO_FENCE, CLOSE_NO_FENCE, MARK_FIRST, FORGET_LEFT, BOUND_LATE, TAIL_FIRST, DRAIN_TWICE, ADOPT_FORGETS_RING,
  ADOPT_NO_CLOSE, CLOSED_AT_ONCE, LIST_NO_VALIDATE, LIST_VALIDATE_EARLY, LIST_NO_END_COMMIT, LIST_NO_END_PUSHED,
  LIST_NO_END_DROP, LIST_NO_END_EVICT, LIST_NO_END_LIFT, LIST_NO_END_OPEN, LIST_END_LATE, LIST_OPEN_WORD,
  LIST_BEFORE_APPEND, LIST_KEY_AGAIN, LIST_NUMBER_RESTART, LIST_ADOPT_KEEP, LIST_ANSWER_PASSES, LIST_END_BEHIND,
  LIST_FILL_NO_ZERO, DEVIATIONS };
static_assert(DEVIATIONS <= 128, "as many as a variant's set holds");

static Row C;
static bool reduced = true;                    // UNREDUCED=1: states that nobody can tell apart are searched each

// ---- steps

#define STEPS(X) \
  X(BEGIN_WRITE, "begins a direct write of blocks") X(BEGIN_ABSORB, "begins an absorbed write of block mask") \
  X(BEGIN_READ, "begins a read, loads the generation, block mask") X(BEGIN_SYNC, "begins fsync") \
  X(PUBLISH, "publishes its slot") X(RANK_STORE, "store leaves its buffer") \
  X(LOOK_CLEAR, "bit clear: goes to the disk") X(LOOK_SET, "bit set: asks") \
  X(WRITE_LANDS, "write lands on the slow file") X(WRITE_RETURNS, "frees its slot, returns") \
  X(WRITE_AGAIN, "generation changed: writes again") X(GRANT, "is granted a direct write") \
  X(LEASED_LANDS, "direct write lands on the slow file") X(DROP, "agent appends drop for it") \
  X(DONE, "direct write ends, returns") X(SLAB, "gets a slab") X(NO_SPACE, "gets no space: goes to the disk") \
  X(FLASH_LANDS, "write lands on flash") X(WORD_IS_OPEN, "word open: takes a ticket") \
  X(WORD_IS_CLOSED, "word closed or ring full: asks to commit") X(PUSH, "pushes to its ring") \
  X(MARKS, "marks its ring") X(STILL_OPEN, "word unchanged: returns") X(NOT_OPEN, "word changed: asks to commit") \
  X(SETS_BIT, "agent sets the bit (commit)") X(BUMPS, "agent changes the generation") \
  X(APPENDS, "agent appends its commit") X(ANSWERS, "commit answered, returns") \
  X(OPENS, "commit answered, granule opened, returns") X(REFUSES, "commit refused: goes to the disk") \
  X(READ_SLOW, "reads the slow file") X(READ_VALID, "generation unchanged: returns") \
  X(READ_CHANGED, "generation changed: asks") X(LOADS, "loads the generation, asks READ") \
  X(LOADS_LEASED, "asks READ with a lease") X(TO_DISK, "is told: disk") \
  X(TO_DISK_SOONER, "is told: disk (clean bytes)") X(SLOW_LEASE, "is given a lease to read the disk") \
  X(SLOW_RETURNS, "reads the slow file under the lease, returns") X(FLASH_LEASE, "is given a lease to read flash") \
  X(FLASH_RETURNS, "reads flash, returns") X(FLASH_LISTS, "is given a lease to read flash; agent lists the granule") \
  X(LISTED, "finds the listing") X(LISTED_READ, "reads flash by the listing") X(KEY_SAME, "key unchanged: returns") \
  X(KEY_CHANGED, "key changed: asks") X(END_LISTING, "agent ends the listing") \
  X(LISTS_EARLY, "agent lists before it appends") X(TAG, "finds whose the listing is") \
  X(OTHERS, "listing is not of its block: asks") X(FILLS, "agent fills the listing, store") \
  X(SYNC_CLEAR, "fsync: bit clear") X(SYNC_SET, "fsync: bit set, asks") \
  X(SYNC_KERNEL, "kernel fsync, returns") X(IN_PLACE_GRANT, "may overwrite in place, or not") \
  X(IN_PLACE_LANDS, "overwrite in place lands") X(IN_PLACE_RETURNS, "overwrite in place returns") \
  X(DOWN_SLOW, "agent gone: goes to the slow file") X(KILL_RANK, "is KILLED") \
  X(DEAD_SLOW, "dead: write lands on the slow file") X(DEAD_FLASH, "dead: write lands on flash") \
  X(FREEZE, "is FROZEN") X(LIFT, "nothing of it can land: quarantine lifted") X(CLOSE, "agent closes the granule") \
  X(DRAIN, "agent begins a drain: notes the last ticket") X(CLEAR_MARKS, "agent clears the marks of rings") \
  X(DRAIN_CLOSED, "agent begins the drain of a close") X(READ_RING, "agent reads its ring") \
  X(APPLY, "agent applies its entry") X(TAIL, "agent stores its ring's tail") X(KILL_AGENT, "agent is KILLED") \
  X(RESTART, "agent restarts and adopts") X(LATE_SLOW, "write of the dead agent lands on the slow file") \
  X(LATE_FLASH, "write of the dead agent lands on flash") X(AGENT_STORE, "store leaves the agent's buffer") \
  X(FETCH_BIT, "agent sets the bit (fetch)") X(FETCH_BEGINS, "fetch begins, block") \
  X(FETCH_READ, "fetch has read the slow file, block") X(FETCH_WRITTEN, "fetch has written flash") \
  X(FETCH_PUBLISHED, "fetch published") X(FETCH_DISCARDED, "fetch thrown away") \
  X(BACK_BEGINS, "write-back begins, has read flash, block") \
  X(BACK_LANDS, "write-back lands on the slow file, block") X(BACK_CLEAN, "write-back: marked clean") \
  X(BACK_NOT, "write-back does not count") X(EVICT, "agent evicts block") X(CLEARS_BIT, "agent clears the bit") \
  X(BARRIER1, "barrier: snapshot") X(BARRIER2, "barrier: flash synced") X(BARRIER3, "barrier: slow synced") \
  X(BARRIER4, "barrier: durable") X(EARLY, "kernel writes the journal early")
DEFINE_STEPS(STEPS)

// ---- stores, through buffers in rows with store buffers

static bool hasGeneration(u8 pc) { return pc == R_LOOK || pc == R_SLOW || pc == R_VALIDATE || pc == R_ASK || (dev(REDO)
    && (pc == W_IO || pc == W_FREE)); }
static bool hasNumber(u8 pc) { return pc == A_PUSH || pc == A_MARK || pc == A_VALIDATE; }
static bool hasKey(u8 pc) { return pc >= L_TAG && pc <= L_LOOK; }
static void keyChanges(State &s, int changed) {
  for (int i = 0; i < C.ranks; i++) if (hasKey(s.r[i].pc)) s.r[i].keyChanged = changed;
}
static void agentStoreLands(State &s, int store) {
  switch (store) {
  case BIT_CLEAR: case BIT_SET: s.bit = store == BIT_SET; break;
  case BUMP: for (int i = 0; i < C.ranks; i++) if (hasGeneration(s.r[i].pc)) s.r[i].changed = 1; break;
  case KEY_NONE: s.listed = 0; keyChanges(s, 1); break;
  case KEY_NEW: s.listed = 1; keyChanges(s, !dev(LIST_KEY_AGAIN) && !(dev(LIST_NUMBER_RESTART) && s.epoch)); break;
  default: s.open = store - WORD_CLOSED;
      if (s.open != OPEN) for (int i = 0; i < C.ranks; i++) if (hasNumber(s.r[i].pc)) s.r[i].wordChanged = 1;
  }
}
static bool agentHasRoom(const State &s) { return s.stores < STORES_MAX; }
static void agentStore(State &s, AgentStore store) {
  if (!C.storeBuffers) agentStoreLands(s, store);
  else { if (s.stores) s.store1 = store; else s.store0 = store; s.stores++; }
}
static void agentStoreLeaves(State &s) { int store = s.store0; s.store0 = s.store1; s.store1 = 0; s.stores--; agentStoreLands(s, store); }
static bool agentBit(const State &s) {         // as the agent itself sees it
  if (s.stores > 1 && s.store1 <= BIT_SET) return s.store1 == BIT_SET;
  if (s.stores > 0 && s.store0 <= BIT_SET) return s.store0 == BIT_SET;
  return s.bit;
}
static int agentWord(const State &s) {
  auto word = [](int store) { return store >= WORD_CLOSED && store <= WORD_CLOSING; };
  if (s.stores > 1 && word(s.store1)) return s.store1 - WORD_CLOSED;
  if (s.stores > 0 && word(s.store0)) return s.store0 - WORD_CLOSED;
  return s.open;
}
static void rankStoreLands(Rank &k, int store) {
  if (store != RING_HEAD) { k.slot = store; return; }
  for (int j = 0; j < k.entries; j++) if (!k.ring[j].visible) { k.ring[j].visible = 1; return; }
}
static bool rankHasRoom(const Rank &k) { return k.stores < STORES_MAX; }
static void rankStore(Rank &k, RankStore store) {
  if (!C.storeBuffers) rankStoreLands(k, store);
  else { if (k.stores) k.store1 = store; else k.store0 = store; k.stores++; }
}
static void rankStoreLeaves(Rank &k) { int store = k.store0; k.store0 = k.store1; k.store1 = 0; k.stores--; rankStoreLands(k, store); }

// ---- monitors

static int before(const State &s, int b, int n) { return s.before[b] >> 4 * n & 15; }
static void completeWrite(State &s, Rank &k) {
  for (int b = 0; b < C.blocks; b++) if (k.mask >> b & 1) { s.done.add(b, 1 << k.value[b]); s.dead.add(b, before(s, b, k.value[b]));
      k.value.set(b, 0); }
  k.mask = 0; k.pc = IDLE;
}
static void returnRead(State &s, Rank &k, u8 v) {
  int b = k.mask == 1 ? 0 : 1, n = v & 3;
  if (v == GARBAGE || v / 4 != b) violated = "I1 read returns bytes never written to this block";
  else if (k.deadAtStart >> n & 1) violated = s.agentKills
      ? "I2 read older than an acknowledged write (agent was killed)" : "I1 read older than a completed write";
  else { s.dead.add(b, before(s, b, n) | (k.doneAtStart & ~(1 << n))); s.done.add(b, 1 << n); } // seen: it has taken effect
  k.deadAtStart = k.doneAtStart = 0; k.mask = 0; k.pc = IDLE;
}
static bool survives(const State &s, int b, u16 values) {
  for (int v = 0; v <= GARBAGE; v++) if (values >> v & 1) if (v == GARBAGE || v / 4 != b || (s.powerDead[b] >> (v & 3) & 1)) return false;
  return true;
}
static bool powerFails() { return C.sync || C.readOnly; } // rows in which every state is checked for it
// Without power failures a record counts for the place that it names, and the steps of a barrier are one.
static void forgetRecords(State &s) {
  if (!reduced || powerFails() || dev(RECORD_IN_MEMORY) || dev(APPEND_ONLY)) return;
  for (int b = 0; b < C.blocks; b++) { s.durable[b] &= ~DIRTY; s.snapshot[b] &= ~DIRTY; }
  if (s.barrier) s.barrier = 3;
}
static const char *powerFailure(const State &s) {
  for (int b = 0; b < C.blocks; b++) {
    u8 extent = s.durable[b];
    if (!extent) { if (!survives(s, b, s.slowMay[b])) return "I3 after power failure the slow file holds less than fsync acknowledged"; }
    else if (extent & DIRTY) { if (!survives(s, b, s.flashMay[placeOf(extent)])) return "I3 after power failure flash holds less than fsync acknowledged, or other bytes"; }
    else if (!dev(KEEP_CLEAN) && !C.readOnly) {
        if (!survives(s, b, s.slowMay[b])) return "I3 after power failure the slow file behind a clean extent is older than fsync acknowledged"; }
    else if (s.flashMay[placeOf(extent)] != s.slowMay[b] || (s.slowMay[b] & (s.slowMay[b] - 1)) || !survives(s, b, s.slowMay[b]))
      return "I3 after power failure a clean extent differs from the slow file";
  }
  return nullptr;
}

// ---- flash space

static bool recordNames(const State &s, u8 extent, int b, int place) { // does a durable record still name this place?
  if (!extent || placeOf(extent) != place || dev(REUSE_EARLY)) return false;
  if (dev(REUSE_SUPERSEDED) && s.map[b] && placeOf(s.map[b]) != place) return false;
  if (dev(REUSE_CLEAN) && !(extent & DIRTY)) return false;
  return true;
}
static bool isFree(const State &s, int place) {
  if (dev(OLD_FILES) ? place >= C.places : place / C.places != s.epoch) return false;
  for (int b = 0; b < C.blocks; b++) {
    if (s.map[b] && placeOf(s.map[b]) == place) return false;
    if (recordNames(s, s.durable[b], b, place) || (s.barrier && recordNames(s, s.snapshot[b], b, place))) return false;
  }
  if (s.copy && s.copyPlace == place) return false;
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    for (int j = 0; j < k.entries; j++) if (k.ring[j].place == place + 1) return false;
    if (!k.known) continue;
    if (k.slab == place + 1 && !(dev(SLAB_RECLAIMED) && !k.alive)) return false;
    if (k.inPlace == place + 1) return false;
    if (k.flash == place + 1 && k.alive && !hasKey(k.pc) && !dev(NO_READ_LEASE)) return false; }
  return true;
}
static int placesOfEpochs() { return C.agentKills ? 2 * C.places : C.places; }
static void checkGivenAway(const State &s, int place) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    bool waits = k.pc == A_COMMIT || k.pc == A_LOOK || hasNumber(k.pc);
    if (k.pc == A_IO && k.slab == place + 1) violated = "I4 flash space given away while a write of its old holder may land";
    if (waits && k.slab == place + 1 && k.alive && !k.journaled) violated = "I4 flash space given away while its holder awaits commit";
    if (k.pc == P_IO && k.inPlace == place + 1) violated = "I4 flash space given away while an overwrite in place may land";
    if (k.pc == R_FLASH && k.flash == place + 1 && k.alive) violated = "I4 flash space given away while a reader holds it"; }
  if (s.late == 2 && s.lateTarget == place) violated = "I4 flash space given away while a write of the dead agent may land";
}

// ---- what the agent sees of ranks

static bool deadMayWrite(const State &s, int b) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i]; if (!k.alive && (k.slot || (k.known && (k.direct >> b & 1)))) return true; }
  return false;
}
static bool livingDirect(const State &s, int b, int except) {
  for (int i = 0; i < C.ranks; i++) if (i != except && s.r[i].alive && s.r[i].known && (s.r[i].direct >> b & 1)) return true;
  return false;
}
static bool anyDirect(const State &s, int b) {
  for (int i = 0; i < C.ranks; i++) if (s.r[i].known && (s.r[i].direct >> b & 1)) return true;
  return false;
}
static bool slowReader(const State &s, int b) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i]; if (k.alive && k.known && k.slow && k.mask == 1 << b) return true; }
  return false;
}
static bool noCheapWriter(const State &s, int except, bool living, bool dead) {
  for (int i = 0; i < C.ranks; i++) if (i != except && s.r[i].slot && (s.r[i].alive ? living : dead)) return false;
  return true;
}
static bool lateAt(const State &s, int b) { return !dev(LATE_WRITEBACK) && s.late == 1 && s.lateTarget == b; }
static bool wordClosed(const State &s) { return !s.opened; }
static bool drainedFor(const Rank &k, Deviation without) { return !C.ring || k.drained || dev(without); }

// The agent does one thing at a time: it serves nobody between the change of a generation and that of the map, within a close, and
// within a drain.
static bool agentIsFree(const State &s) {
  return s.alive && !s.bumping && !s.closing && !s.draining && !s.endOwed && !s.filling;
}
// The agent changes the generation, and then the map. True: it may change the map now; `next` is the state in which it does.
static bool afterBump(const State &s, State &next, Bumping why, int rank = 0) {
  if (dev(DISK_NO_BUMP)) return true;
  if (!C.storeBuffers) { agentStoreLands(next, BUMP); return true; }
  if (s.bumping) { next.bumping = NO_BUMP; next.r[rank].bumping = 0; return !s.stores || dev(NO_FENCE_AGENT); }
  if (!agentHasRoom(s)) return false;
  State n = s; n.bumping = why; if (why == FOR_RANK) n.r[rank].bumping = 1;
  agentStore(n, BUMP); emit(n, BUMPS, AGENT);
  return false;
}


// ---- listings

// What the agent answers is behind what it stored before. (Rows without listings let answers pass, which is worse.)
static bool mayAnswer(const State &s) { return !C.listing || !s.stores || dev(LIST_ANSWER_PASSES); }
static bool mayEnd(const State &s) { return !s.listKnown || agentHasRoom(s); }
static void endListing(State &n, Deviation without = DEVIATIONS) {
  if (!n.listKnown || (without != DEVIATIONS && dev(without))) return;
  if (dev(LIST_END_BEHIND) && without != DEVIATIONS && without != LIST_NO_END_OPEN) { n.endOwed = 1; return; }
  n.listKnown = 0; agentStore(n, KEY_NONE);
}
static void fillShared(State &n) {             // a store at a time
  switch (n.filling++) {
  case 1: if (n.listed && !dev(LIST_FILL_NO_ZERO)) agentStore(n, KEY_NONE); n.listKnown = 0; break;
  case 2: n.tag = n.fillBlock; break;
  case 3: n.place0 = n.map[n.fillBlock] & 0xf; break;
  default: n.filling = n.fillBlock = 0; n.listKnown = 1; agentStore(n, KEY_NEW);
  }
}
static bool fillListing(State &n, int b) {     // as the map is now
  if (C.listShared && !n.opened && !(n.listKnown && n.tag == b)) { n.filling = 1; n.fillBlock = b; return true; }
  if (C.listShared || !C.listing || n.listKnown || n.stores || (n.opened && !dev(LIST_OPEN_WORD))) return false;
  for (int b = 0; b < C.blocks; b++) list(n, b, n.map[b] & 0xf);
  n.listKnown = 1; agentStore(n, KEY_NEW);
  return true;
}

static void writeSlow(State &s, int b, u8 v) { s.slow[b] = v; if (powerFails()) s.slowMay[b] |= 1 << v; }
static void writeFlash(State &s, int place, u8 v) { s.flash[place] = v; if (powerFails()) s.flashMay[place] |= 1 << v; }
static void writesLand(State &s, const Rank &k) {
  for (int b = 0; b < C.blocks; b++) if (k.mask >> b & 1) writeSlow(s, b, b * 4 + k.value[b]);
}

// ---- rings

static bool asking(u8 pc) { return pc == R_ASK || pc == F_ASK || pc == A_COMMIT; }
static void removeEntry(Rank &k, int at) {
  for (int j = at; j + 1 < RING_MAX; j++) k.ring[j] = k.ring[j + 1];
  memset(&k.ring[RING_MAX - 1], 0, sizeof(Entry)); k.entries--;
}
static void allStale(State &s) {               // the number that was open counts no more
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i];
    for (int j = 0; j < k.entries; j++) k.ring[j].stale = 1;
    if (k.pc == A_PUSH) k.ticketStale = 1; }
}
// Ends the drain under way if all its rings are read, what counts is applied and the tails are stored.
static void endDrain(State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.toRead) return;
    for (int j = 0; j < k.entries; j++) if (k.ring[j].collected) return; }
  s.draining = 0; s.bound = 0;
  if (!s.closing) return;
  s.closing = 0; s.opened = 0; allStale(s);
  if (agentWord(s) != CLOSED) agentStore(s, WORD_CLOSED);
}
static void noteTicket(State &s) { s.bound = s.ticket; }
static void takeMarks(State &s) {              // a new agent reads every ring
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i]; k.toRead = s.closing == 2 || k.marked || k.left; k.marked = k.left = 0; }
}
static void beginDrain(State &s) {
  s.draining = 1; if (dev(BOUND_LATE)) takeMarks(s); else noteTicket(s);
  for (int i = 0; i < C.ranks; i++) if (asking(s.r[i].pc)) s.r[i].drained = 1;
}
static void scanBegins(State &s) { s.draining = 2; if (dev(BOUND_LATE)) noteTicket(s); else takeMarks(s); endDrain(s); }
static void readRing(State &s, Rank &k) {
  k.toRead = 0;
  for (int j = 0; j < k.entries && k.ring[j].visible; j++) {
    if (k.ring[j].ticket > s.bound && !dev(NO_TICKET_BOUND) && s.closing != 2) { k.left = !dev(FORGET_LEFT); break; } // a ring is in order
    k.ring[j].collected = 1;
  }
}
static bool toApply(const Entry &e) { return e.collected && !e.applied && (!e.stale || dev(STALE_OK)); }
static void apply(State &n, Rank &k, Entry &e) {
  if (n.map[e.block]) endListing(n, LIST_NO_END_PUSHED);
  n.map[e.block] = e.place | DIRTY; if (n.copy == FETCH && n.copyBlock == e.block) n.cancelled = 1;
  e.applied = 1; if (e.pending) k.journaled = 1;
}
static void drainSteps(const State &s) {
  State n;
  if (!s.draining) {
    if (s.closing) { if ((!s.stores || dev(CLOSE_NO_FENCE)) && agentHasRoom(s)) { n = s; beginDrain(n); emit(n, DRAIN_CLOSED, AGENT);
        } return; }
    if (!agentIsFree(s)) return;
    bool wanted = false;
    for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i]; wanted |= k.marked || k.left || (k.alive && asking(k.pc) && !k.drained); }
    if (wanted) { n = s; beginDrain(n); emit(n, DRAIN, AGENT); }
    if (agentWord(s) == OPEN && s.opened && agentHasRoom(s)) { n = s; n.closing = 1;
        agentStore(n, dev(CLOSED_AT_ONCE) ? WORD_CLOSED : WORD_CLOSING); emit(n, CLOSE, AGENT); }
    return;
  }
  if (s.draining == 1) {
    bool marked = false; for (int i = 0; i < C.ranks; i++) marked |= s.r[i].marked;
    if (marked && s.stores) return;             // to clear a mark is a fence
    n = s; scanBegins(n); emit(n, CLEAR_MARKS, AGENT); return;
  }
  bool read = false;
  for (int i = 0; i < C.ranks; i++) if (s.r[i].toRead) { read = true; n = s; readRing(n, n.r[i]); endDrain(n); emit(n, READ_RING, i); }
  if (read) return;
  int rank = -1, at = 0;                       // of the entry with the least ticket
  for (int i = 0; i < C.ranks; i++) for (int j = 0; j < s.r[i].entries; j++) { const Entry &e = s.r[i].ring[j];
    if (!toApply(e)) continue;
    if (dev(NO_TICKET)) { n = s;
        if (j == 0 || !toApply(s.r[i].ring[j - 1])) if (afterBump(s, n, FOR_ENTRY)) { apply(n, n.r[i], n.r[i].ring[j]); emit(n, APPLY, i);
        } rank = i; continue; }
    if (rank < 0 || e.ticket < s.r[rank].ring[at].ticket) { rank = i; at = j; } }
  if (rank >= 0) {
    if (dev(NO_TICKET)) return;
    n = s; if (afterBump(s, n, FOR_ENTRY)) { apply(n, n.r[rank], n.r[rank].ring[at]); emit(n, APPLY, rank); }
    return;
  }
  for (int i = 0; i < C.ranks; i++) { bool any = false; for (int j = 0; j < s.r[i].entries; j++) any |= s.r[i].ring[j].collected;
    if (!any) continue;
    n = s; Rank &k = n.r[i]; for (int j = k.entries; j--; ) if (k.ring[j].collected) removeEntry(k, j);
    endDrain(n); emit(n, TAIL, i); }
}

// ---- what ranks do

static int blockOf(const Rank &k) { return k.mask == 2 ? 1 : 0; }
static bool startWrite(State &s, Rank &k, int mask) {
  for (int b = 0; b < C.blocks; b++) if ((mask >> b & 1) && s.next[b] > C.writes) return false;
  for (int b = 0; b < C.blocks; b++) if (mask >> b & 1) { int n = s.next[b];
    k.value.set(b, n); s.before[b] |= s.done[b] << 4 * n; s.next.set(b, n + 1); }
  k.mask = mask; return true;
}
static void beginOperation(const State &s, int i) {
  State n; Rank &m = n.r[i];
  if (!s.pool || !rankHasRoom(s.r[i])) return;
  for (int mask = 1; mask < (1 << C.blocks); mask++) {
    if (mask == 3 && !C.wide) continue;
    n = s; n.pool--;
    if (C.direct && startWrite(n, m, mask)) { m.pc = W_PUBLISH; emit(n, BEGIN_WRITE, i, mask); }
    if (mask == 3) continue;
    n = s; n.pool--;
    if (C.absorb && startWrite(n, m, mask)) { m.pc = dev(IN_PLACE) ? P_ASK : m.slab ? A_IO : A_SLAB;
        if (dev(SLOT_KEPT)) rankStore(m, SLOT_CHEAP);
        emit(n, BEGIN_ABSORB, i, mask); }
    if (C.read) { n = s; n.pool--; m.mask = mask; m.deadAtStart = s.dead[mask - 1]; m.doneAtStart = s.done[mask - 1];
        m.changed = m.viaAgent = 0; m.pc = R_LOOK; emit(n, BEGIN_READ, i, mask); }
  }
  if (C.sync) { n = s; n.pool--; for (int b = 0; b < C.blocks; b++) m.asOfSync.set(b, s.dead[b]); m.pc = F_LOOK; emit(n, BEGIN_SYNC, i); }
}
static void writeSteps(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; int b = blockOf(k);
  switch (k.pc) {
  case W_PUBLISH: if (!rankHasRoom(k)) break; if (!(dev(SLOT_KEPT) && k.slot)) rankStore(m, SLOT_CHEAP); m.pc = W_LOOK; emit(n, PUBLISH, i);
      break;
  case W_LOOK:
    if (k.stores && !(dev(NO_FENCE_RANK) && rankHasRoom(k))) break; // the fence
    m.changed = 0;
    if (!s.bit) { m.pc = W_IO; emit(n, LOOK_CLEAR, i); }
    else { if (!dev(SLOT_KEPT)) rankStore(m, SLOT_FREE); m.pc = W_ASK; emit(n, LOOK_SET, i); }
    break;
  case W_IO: writesLand(n, k); m.pc = W_FREE; emit(n, WRITE_LANDS, i); break;
  case W_FREE: if (!rankHasRoom(k)) break; rankStore(m, SLOT_FREE);
    if (dev(REDO) && k.changed) { m.pc = W_ASK; emit(n, WRITE_AGAIN, i); break; }
    completeWrite(n, m); emit(n, WRITE_RETURNS, i); break;
  case W_LEASED_IO: writesLand(n, k); m.pc = W_DONE; emit(n, LEASED_LANDS, i); break;
  case A_SLAB: if (!s.alive) { m.pc = W_PUBLISH; emit(n, NO_SPACE, i); } break;
  case A_IO: writeFlash(n, k.slab - 1, b * 4 + k.value[b]); m.pc = C.ring ? A_LOOK : A_COMMIT; emit(n, FLASH_LANDS, i); break;
  case A_LOOK:                                 // to take a ticket is a fence
    if (k.stores) break;
    if (s.open == OPEN && k.entries < C.ringEntries) { m.ticket = ++n.ticket; m.wordChanged = m.ticketStale = 0; m.pc = A_PUSH;
        if (dev(MARK_FIRST)) m.marked = 1;
        emit(n, WORD_IS_OPEN, i); }
    else { m.pc = A_COMMIT; emit(n, WORD_IS_CLOSED, i); }
    break;
  case A_PUSH: { if (!rankHasRoom(k)) break;
    Entry &e = m.ring[m.entries++]; e.place = k.slab; e.block = b; e.ticket = k.ticket; e.pending = 1; e.stale = k.ticketStale;
    m.pc = dev(MARK_FIRST) ? A_VALIDATE : A_MARK; rankStore(m, RING_HEAD); emit(n, PUSH, i); break; }
  case A_MARK:                                 // the fence; to set the mark is one as well
    if (k.stores && !(dev(RING_NO_FENCE) && k.marked)) break;
    m.marked = 1; m.pc = A_VALIDATE; emit(n, MARKS, i); break;
  case A_VALIDATE: if (k.stores && !dev(RING_NO_FENCE)) break;
    if (k.wordChanged && !dev(RING_NO_VALIDATE)) { m.pc = A_COMMIT; emit(n, NOT_OPEN, i); break; }
    for (int j = 0; j < k.entries; j++) m.ring[j].pending = 0;
    m.slab = 0; m.journaled = 0; completeWrite(n, m); emit(n, STILL_OPEN, i); break;
  case P_IO: writeFlash(n, k.inPlace - 1, b * 4 + k.value[b]); m.pc = P_RELEASE; emit(n, IN_PLACE_LANDS, i); break;
  case P_RELEASE: m.inPlace = 0; completeWrite(n, m); emit(n, IN_PLACE_RETURNS, i); break;
  default: break;
  }
}
static void readSteps(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; int b = blockOf(k);
  switch (k.pc) {
  case R_LOOK: if (s.bit) { m.pc = R_LOAD; emit(n, LOOK_SET, i); } else { m.pc = R_SLOW; emit(n, LOOK_CLEAR, i); } break;
  case R_LOAD: m.changed = m.viaAgent = 0; m.pc = R_ASK; emit(n, LOADS, i);
    if (C.leases) { m.leased = 1; emit(n, LOADS_LEASED, i); }
    if (C.listShared && s.listed) { n = s; m.keyChanged = 0; m.pc = L_TAG; emit(n, LISTED, i); break; }
    if (s.listed && listedAt(s, b)) {
      n = s; m.flash = listedAt(s, b); m.keyChanged = 0; m.pc = L_READ; emit(n, LISTED, i, m.flash - 1); }
    break;
  case L_TAG: m.pc = s.tag == b ? L_PLACE : R_LOAD; emit(n, s.tag == b ? TAG : OTHERS, i); break;
  case L_PLACE: m.flash = s.place0; m.pc = s.place0 ? L_READ : R_LOAD; emit(n, LISTED, i, s.place0 - 1); break;
  case R_SLOW: if (dev(GENERATION_LATE) && k.viaAgent) m.changed = 0; m.got = s.slow[b]; m.pc = R_VALIDATE;
      emit(n, READ_SLOW, i, s.slow[b]); break;
  case R_VALIDATE: {
    bool changed = dev(NO_GEN_READ) && !k.viaAgent ? s.bit : k.changed;
    if (changed && !dev(NO_VALIDATE_READ)) { m.pc = R_LOAD; emit(n, READ_CHANGED, i); }
    else { returnRead(n, m, k.got); emit(n, READ_VALID, i, k.got); }
    break; }
  case R_ASK: if (!s.alive && dev(SLOW_WHILE_DOWN)) { m.slow = 0; m.pc = R_LEASED; emit(n, DOWN_SLOW, i); } break;
  case R_LEASED: m.slow = 0; returnRead(n, m, s.slow[b]); emit(n, SLOW_RETURNS, i, s.slow[b]); break;
  case R_FLASH: m.flash = 0; returnRead(n, m, s.flash[k.flash - 1]); emit(n, FLASH_RETURNS, i, s.flash[k.flash - 1]); break;
  case L_READ: m.pc = L_LOOK;
    if (dev(LIST_VALIDATE_EARLY)) {
      if (k.keyChanged) { m.flash = 0; m.pc = R_LOAD; emit(n, KEY_CHANGED, i); } else emit(n, LISTED_READ, i);
      break; }
    m.got = s.flash[k.flash - 1]; m.flash = 0; emit(n, LISTED_READ, i, m.got); break;
  case L_LOOK: {
    bool valid = !k.keyChanged || dev(LIST_NO_VALIDATE) || dev(LIST_VALIDATE_EARLY);
    int got = k.flash ? s.flash[k.flash - 1] : k.got;
    m.flash = 0;
    if (valid) { returnRead(n, m, got); emit(n, KEY_SAME, i, got); } else { m.pc = R_LOAD; emit(n, KEY_CHANGED, i); }
    break; }
  case F_LOOK: m.pc = s.bit ? F_ASK : F_KERNEL; emit(n, s.bit ? SYNC_SET : SYNC_CLEAR, i); break;
  case F_KERNEL:
    for (int c = 0; c < C.blocks; c++) { n.slowMay[c] = 1 << n.slow[c]; n.powerDead.add(c, k.asOfSync[c]); }
    m.asOfSync.packed = 0; m.pc = IDLE; emit(n, SYNC_KERNEL, i); break;
  default: break;
  }
}
static void deadRankSteps(const State &s, int i) { // what a dead rank has in flight
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; int b = blockOf(k);
  if (k.pc == W_IO || k.pc == W_LEASED_IO) { writesLand(n, k); m.pc = GONE; emit(n, DEAD_SLOW, i); }
  if (k.pc == A_IO) { writeFlash(n, k.slab - 1, b * 4 + k.value[b]); m.pc = GONE; emit(n, DEAD_FLASH, i); }
  if (k.pc == P_IO) { writeFlash(n, k.inPlace - 1, b * 4 + k.value[b]); m.pc = GONE; emit(n, DEAD_FLASH, i); }
}
static void rankSteps(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i];
  if (k.stores) { rankStoreLeaves(m); emit(n, RANK_STORE, i); n = s; }
  if (!k.alive) { deadRankSteps(s, i); return; }
  if (!k.frozen) {
    if (k.pc == IDLE) beginOperation(s, i);
    else { writeSteps(s, i); readSteps(s, i); }
    if (s.freezes < C.freezes && k.pc != IDLE) { n.freezes++; m.frozen = 1; emit(n, FREEZE, i); n = s; }
  }
  if (s.rankKills < C.rankKills) {             // kill -9
    n.rankKills++; m.alive = 0; m.frozen = 0; while (m.stores) rankStoreLeaves(m);
    m.deadAtStart = m.doneAtStart = 0; m.asOfSync.packed = 0;
    if (!(k.pc == W_IO || k.pc == W_LEASED_IO || k.pc == A_IO || k.pc == P_IO || k.pc == A_COMMIT)) m.pc = GONE;
    if (dev(NO_DRAIN_DEATH)) while (m.entries) removeEntry(m, 0);
    emit(n, KILL_RANK, i);
  }
}

// ---- how the agent serves a rank's question

static bool mayOpen(const State &s) {
  if (!C.ring || s.opened || agentWord(s) != CLOSED || !agentBit(s) || !agentHasRoom(s)) return false;
  if (s.copy == FETCH && !dev(OPEN_UNDER_FETCH)) return false;
  if (!dev(OPEN_UNDER_LEASE)) for (int b = 0; b < C.blocks; b++) if (anyDirect(s, b) || slowReader(s, b)) return false;
  return true;
}
static void answerCommit(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i];
  if ((dev(SLOT_KEPT) && k.alive && !rankHasRoom(k)) || !mayAnswer(s)) return;
  if (dev(LIST_END_LATE) && s.listKnown) n.endOwed = 1;
  m.journaled = 0; m.slab = 0;
  if (dev(BIT_AFTER_COMMIT) && !agentBit(s) && agentHasRoom(s)) agentStore(n, BIT_SET);
  if (k.alive) { if (dev(SLOT_KEPT)) rankStore(m, SLOT_FREE); completeWrite(n, m); } else m.pc = GONE;
  for (int j = 0; j < m.entries; j++) m.ring[j].pending = 0;
  emit(n, ANSWERS, i);
  if (!mayOpen(s) || n.endOwed) return;
  n.opened = 1; endListing(n, LIST_NO_END_OPEN); agentStore(n, WORD_OPEN); emit(n, OPENS, i);
}
static void serveCommit(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; int b = blockOf(k);
  if (!drainedFor(k, NO_DRAIN_COMMIT)) return;
  if (k.journaled) { answerCommit(s, i); return; }
  if (!dev(BIT_AFTER_COMMIT) && !agentBit(s)) {
    if (!agentHasRoom(s)) return;
    if (dev(GENERATION_FIRST) && !k.bumping) { agentStoreLands(n, BUMP); m.bumping = 1; emit(n, BUMPS, AGENT); return; }
    agentStore(n, BIT_SET); emit(n, SETS_BIT, i); return;
  }
  if (!dev(NO_FENCE_AGENT) && s.stores && !s.bumping) return; // the agent's fence
  if (dev(LIST_BEFORE_APPEND) && !s.bumping) { State early = s; early.map[b] = k.slab;
    if (fillListing(early, b)) { early.map[b] = s.map[b]; emit(early, LISTS_EARLY, AGENT); } }
  bool cheap = !dev(NO_WAIT) && !noCheapWriter(s, i, true, dev(WAIT_DEAD));
  bool lease = (!dev(COMMIT_IN_DIRECT) && livingDirect(s, b, i)) || slowReader(s, b);
  if ((cheap || lease) && !s.bumping) {        // waits, and is refused when that takes long: nothing was appended
    if (!mayAnswer(s) || (cheap && dev(WAIT_SLOT)) || (lease && dev(WAIT_LEASE))) return;
    m.slab = 0; m.pc = k.alive ? W_PUBLISH : GONE; for (int j = 0; j < m.entries; j++) m.ring[j].pending = 0;
    emit(n, REFUSES, i); return;
  }
  if (dev(BUMP_EARLY) && !k.bumping) { agentStoreLands(n, BUMP); m.bumping = 1; emit(n, BUMPS, AGENT); return; }
  if ((dev(GENERATION_FIRST) || dev(BUMP_EARLY)) && k.bumping) m.bumping = 0;
  else if (!afterBump(s, n, FOR_RANK, i)) return;
  if (!mayEnd(n)) return;
  if (s.map[b] && !dev(LIST_END_LATE)) endListing(n, LIST_NO_END_COMMIT);
  n.map[b] = k.slab | DIRTY; m.journaled = 1; if (s.copy == FETCH && s.copyBlock == b) n.cancelled = 1;
  for (int j = 0; j < m.entries; j++) m.ring[j].applied = 1; // their numbers are at or below the one that the journal now holds
  emit(n, APPENDS, i);
}
static void serveDirectWrite(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; bool cleanBelow = false;
  if ((!dev(OPEN_DIRECT) && !wordClosed(s)) || !mayAnswer(s)) return;
  for (int b = 0; b < C.blocks; b++) if (k.mask >> b & 1) {
    if ((!dev(DIRECT_IN_WRITEBACK) && s.copy == WRITE_BACK && s.copyBlock == b) || lateAt(s, b)) return;
    cleanBelow |= s.map[b] && !(s.map[b] & DIRTY); }
  if (C.sooner && cleanBelow && !dev(DIRECT_NO_BUMP) && !afterBump(s, n, FOR_RANK, i)) return;
  m.direct = k.mask; m.known = 1; m.pc = W_LEASED_IO; if (s.copy == FETCH && (k.mask >> s.copyBlock & 1)) n.cancelled = 1;
  if (dev(DROP_FIRST)) for (int b = 0; b < C.blocks; b++) if (k.mask >> b & 1) n.map[b] = 0;
  emit(n, GRANT, i);
}
static void serveWriteDone(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; bool any = false;
  if (!dev(DROP_FIRST)) for (int b = 0; b < C.blocks; b++) if ((k.mask >> b & 1) && s.map[b]) { any = true; n.map[b] = 0; }
  if (any) { if (mayEnd(s)) { endListing(n, LIST_NO_END_DROP); emit(n, DROP, i); } return; }
  if (!mayAnswer(s)) return;
  if (dev(SLOT_KEPT) && !rankHasRoom(k)) return;
  m.direct = 0; completeWrite(n, m); if (dev(SLOT_KEPT)) rankStore(m, SLOT_FREE); emit(n, DONE, i);
}
static void serveRead(const State &s, int i) {
  const Rank &k = s.r[i]; State n = s; Rank &m = n.r[i]; int b = blockOf(k);
  if (!drainedFor(k, NO_DRAIN_READ) || !mayAnswer(s)) return;
  bool sooner = C.sooner && s.map[b] && (dev(SLOW_OF_DIRTY) || !(s.map[b] & DIRTY)) && (dev(SLOW_IN_DIRECT) || !livingDirect(s, b, -1)) &&
    (dev(SLOW_FROM_DEAD) || !deadMayWrite(s, b)) && (dev(SLOW_IN_COPY) || !(s.copy && s.copyBlock == b));
  m.leased = 0;
  if (sooner && !k.leased) { m.viaAgent = 1; m.pc = R_SLOW; emit(n, TO_DISK_SOONER, i); n = s; m.leased = 0; }
  if (sooner && k.leased && dev(LEASED_SOONER)) { m.slow = 1; m.known = 1; m.pc = R_LEASED; emit(n, SLOW_LEASE, i); n = s; m.leased = 0; }
  if (s.map[b]) { m.flash = s.map[b] & 0xf; m.known = 1; m.pc = R_FLASH; emit(n, FLASH_LEASE, i);
    if (fillListing(n, b)) emit(n, FLASH_LISTS, i); }
  else if (!k.leased) { m.viaAgent = 1; m.pc = R_SLOW; emit(n, TO_DISK, i); }
  else if (wordClosed(s) || dev(OPEN_LEASE)) { m.slow = !dev(READ_NO_LEASE); m.known = 1; m.pc = R_LEASED; emit(n, SLOW_LEASE, i); }
}
static void serveSlab(const State &s, int i) {
  if (!mayAnswer(s)) return;
  State n; Rank &m = n.r[i]; bool any = false;
  for (int place = 0; place < placesOfEpochs(); place++) if (isFree(s, place)) {
    any = true; n = s; checkGivenAway(s, place); m.slab = place + 1; m.known = 1; m.pc = A_IO; emit(n, SLAB, i, place); }
  if (!any) { n = s; m.pc = W_PUBLISH; emit(n, NO_SPACE, i); }
}
static void giveSlabAhead(const State &s, int i) {
  for (int place = 0; place < placesOfEpochs(); place++) if (isFree(s, place)) {
    State n = s; checkGivenAway(s, place); n.r[i].slab = place + 1; n.r[i].known = 1; emit(n, SLAB, i, place); return; }
}
static void serveInPlace(const State &s, int i) {
  State n = s; Rank &m = n.r[i]; int b = blockOf(m);
  m.pc = A_SLAB;
  if (s.map[b] && !(s.copy && s.copyBlock == b && !dev(IN_PLACE_COPIED))) {
    if (!dev(IN_PLACE_CLEAN)) n.map[b] |= DIRTY;
    m.inPlace = s.map[b] & 0xf; m.known = 1; m.pc = P_IO; }
  emit(n, IN_PLACE_GRANT, i);
}
static void serve(const State &s, int i) {
  const Rank &k = s.r[i];
  if (!agentIsFree(s) && !(s.bumping == FOR_RANK && k.bumping)) return;
  if (k.pc == A_COMMIT) serveCommit(s, i);
  if (k.pc == A_SLAB) serveSlab(s, i);
  if (!k.alive) return;
  if (k.pc == IDLE && C.slabsAhead && !k.slab && s.pool) giveSlabAhead(s, i);
  if (k.pc == W_ASK) serveDirectWrite(s, i);
  if (k.pc == W_DONE) serveWriteDone(s, i);
  if (k.pc == R_ASK) serveRead(s, i);
  if (k.pc == P_ASK) serveInPlace(s, i);
}

// ---- what the agent does by itself

static void killAgent(const State &s) {
  State n = s; n.agentKills++; n.alive = 0; while (n.stores) agentStoreLeaves(n);
  if (s.copy && s.copyPhase == 2) {
    n.late = s.copy == FETCH ? 2 : 1; n.lateTarget = s.copy == FETCH ? s.copyPlace : s.copyBlock; n.lateValue = s.copyValue; }
  n.copy = n.copyBlock = n.copyPlace = n.copyPhase = n.copyValue = n.cancelled = 0; n.barrier = 0; memset(n.snapshot, 0, sizeof n.snapshot);
  n.opened = n.closing = n.draining = n.bound = n.bumping = 0; // the open words in memory tell the next one
  n.listKnown = n.endOwed = n.filling = n.fillBlock = 0;
  for (int i = 0; i < C.ranks; i++) { Rank &k = n.r[i];
    if (k.pc == F_WAIT) k.pc = F_ASK;
    if (dev(COMMIT_TWICE)) k.journaled = 0;
    for (int j = k.entries; j--; ) { Entry &e = k.ring[j];
      if (e.collected && dev(TAIL_FIRST)) { removeEntry(k, j); continue; }
      e.collected = 0; if (dev(DRAIN_TWICE)) e.applied = 0; }
    k.drained = k.toRead = k.left = k.bumping = 0; }
  if (dev(RECORD_IN_MEMORY)) memcpy(n.map, n.durable, sizeof n.map);
  emit(n, KILL_AGENT, AGENT);
}
static void restartAgent(const State &s) {
  State n = s; n.alive = 1; n.epoch++;
  if (s.listed && !dev(LIST_ADOPT_KEEP)) agentStore(n, KEY_NONE);
  for (int i = 0; i < C.ranks; i++) { Rank &k = n.r[i];
    if (dev(NO_ADOPTION)) k.known = 0;
    if (dev(QUARANTINE_ENDS) && !k.alive) { k.slot = 0; k.direct = 0; } }
  bool counts = s.open != CLOSED && !dev(ADOPT_FORGETS_RING);       // what rings hold under the number that memory shows
  if (counts && !(dev(ADOPT_NO_CLOSE) && s.open == OPEN)) { n.opened = 1; n.closing = 2; if (s.open == OPEN) agentStore(n, WORD_CLOSING); }
  else {
    if (counts) n.opened = 1; else { if (s.open != CLOSED) agentStore(n, WORD_CLOSED); allStale(n); }
    for (int i = 0; i < C.ranks; i++) n.r[i].left = n.r[i].entries > 0; }
  emit(n, RESTART, AGENT);
}
static void endCopy(State &n) { n.copy = n.copyBlock = n.copyPlace = n.copyPhase = n.copyValue = n.cancelled = 0; }
static void fetchSteps(const State &s) {
  State n;
  if (C.fetch && !s.copy && agentIsFree(s)) for (int b = 0; b < C.blocks; b++) if (!s.map[b]) {
    if (!agentBit(s)) { if (agentHasRoom(s) && b == 0) { n = s; agentStore(n, BIT_SET); emit(n, FETCH_BIT, AGENT); } continue; }
    if (!dev(NO_FENCE_AGENT) && s.stores) continue;
    if (!noCheapWriter(s, -1, !dev(FETCH_CHEAP), !dev(FETCH_DEAD))) continue;
    if (!dev(FETCH_IN_DIRECT) && (dev(FETCH_DEAD) ? livingDirect(s, b, -1) : anyDirect(s, b))) continue;
    if (lateAt(s, b) || !(wordClosed(s) || dev(OPEN_FETCH))) continue;
    for (int place = 0; place < placesOfEpochs(); place++) if (isFree(s, place)) {
      n = s; checkGivenAway(s, place); n.copy = FETCH; n.copyBlock = b; n.copyPlace = place; n.copyPhase = 1; n.cancelled = 0;
      emit(n, FETCH_BEGINS, AGENT, b); }
  }
  if (s.copy != FETCH) return;
  n = s;
  if (s.copyPhase == 1) { n.copyValue = s.slow[s.copyBlock]; n.copyPhase = 2; emit(n, FETCH_READ, AGENT, s.copyBlock); return; }
  if (s.copyPhase == 2) { writeFlash(n, s.copyPlace, s.copyValue); n.copyPhase = 3; emit(n, FETCH_WRITTEN, AGENT); return; }
  if (!agentIsFree(s) && s.bumping != FOR_FETCH) return;
  bool reader = slowReader(s, s.copyBlock), publish = dev(FETCH_NOT_CANCELLED) || (!s.cancelled && !s.map[s.copyBlock] && !reader);
  if (dev(WAIT_READER) && reader && !s.cancelled && !dev(FETCH_NOT_CANCELLED)) return;
  if (!publish) { endCopy(n); emit(n, FETCH_DISCARDED, AGENT); return; }
  if (!afterBump(s, n, FOR_FETCH)) return;
  n.map[s.copyBlock] = s.copyPlace + 1; endCopy(n); emit(n, FETCH_PUBLISHED, AGENT);
}
static bool overwrittenInPlace(const State &s, int b) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.known && k.inPlace && k.inPlace == (s.map[b] & 0xf)
        && (k.alive || dev(IN_PLACE_NEVER) || (k.pc == P_IO && !dev(IN_PLACE_DEAD)))) return true; }
  return false;
}
static void writeBackSteps(const State &s) {
  State n;
  if (C.writeBack && !s.copy && agentIsFree(s)) for (int b = 0; b < C.blocks; b++) if (s.map[b] & DIRTY) {
    if ((!dev(WRITEBACK_IN_DIRECT) && livingDirect(s, b, -1)) || lateAt(s, b) || overwrittenInPlace(s, b)) continue;
    n = s; n.copy = WRITE_BACK; n.copyBlock = b; n.copyPlace = placeOf(s.map[b]); n.copyValue = s.flash[n.copyPlace]; n.copyPhase = 2;
    emit(n, BACK_BEGINS, AGENT, b);
  }
  if (s.copy != WRITE_BACK) return;
  n = s; int b = s.copyBlock;
  if (s.copyPhase == 2) { writeSlow(n, b, s.copyValue); n.copyPhase = 3; emit(n, BACK_LANDS, AGENT, b); return; }
  if (!agentIsFree(s)) return;
  bool same = s.map[b] == ((s.copyPlace + 1) | DIRTY) && !s.cancelled, counts = same || (dev(CLEAN_DESPITE) && s.map[b]);
  if (counts) n.map[b] &= ~DIRTY;
  endCopy(n); emit(n, counts ? BACK_CLEAN : BACK_NOT, AGENT);
}
static void clearBit(const State &s) {
  if (!C.clear || !agentBit(s) || !agentHasRoom(s) || s.copy || (s.late == 1 && !dev(LATE_WRITEBACK))
      || !(wordClosed(s) || dev(OPEN_CLEAR))) return;
  for (int b = 0; b < C.blocks; b++) { u8 durable = s.durable[b], under = s.barrier ? s.snapshot[b] : 0;
    if (s.map[b]) return;
    if (dev(CLEAR_EARLY)) continue;
    if (dev(CLEAR_ON_CLEAN) ? (durable | under) & DIRTY : durable || under) return; }
  State n = s; agentStore(n, BIT_CLEAR); emit(n, CLEARS_BIT, AGENT);
}
static bool newsFor(const State &s) {          // would a barrier make anything durable that is not so yet?
  State n = s; memcpy(n.snapshot, s.map, sizeof s.map); forgetRecords(n);
  return memcmp(n.snapshot, n.durable, sizeof n.durable);
}
static void barrierSteps(const State &s) {
  State n = s; bool waiting = false, covered = false, cleaned = false;
  auto asks = [&](const Rank &k) { return k.pc == F_ASK && k.alive && drainedFor(k, NO_DRAIN_SYNC); };
  for (int i = 0; i < C.ranks; i++) { waiting |= asks(s.r[i]); covered |= s.r[i].pc == F_WAIT; }
  switch (s.barrier) {
  case 0: if (!agentIsFree(s) || !(newsFor(s) || waiting)) return;
    n.barrier = 1; memcpy(n.snapshot, s.map, sizeof s.map); for (int i = 0; i < C.ranks; i++) if (asks(n.r[i])) { n.r[i].pc = F_WAIT;
        n.asked = C.syncAsked; }
    emit(n, BARRIER1, AGENT); return;
  case 1: n.barrier = 2; if (powerFails()) for (int p = 0; p < PLACES_MAX; p++) n.flashMay[p] = 1 << n.flash[p];
      emit(n, BARRIER2, AGENT); return;
  case 2: { n.barrier = 3;
    for (int b = 0; b < C.blocks; b++) cleaned |= (s.durable[b] & DIRTY) && s.snapshot[b] == (s.durable[b] & 0xf);
    bool sync = C.syncAsked ? covered || (s.asked && !dev(ASKED_UNSYNCED)) : !dev(DROP_UNSYNCED) || cleaned || covered;
    if (C.sync && sync) for (int b = 0; b < C.blocks; b++) n.slowMay[b] = 1 << n.slow[b];
    emit(n, BARRIER3, AGENT); return; }
  default: if (!agentIsFree(s)) return;
    n.barrier = 0; memcpy(n.durable, s.snapshot, sizeof s.durable); memset(n.snapshot, 0, sizeof n.snapshot);
    for (int i = 0; i < C.ranks; i++) { Rank &k = n.r[i]; if (k.pc != F_WAIT) continue;
        for (int b = 0; b < C.blocks; b++) n.powerDead.add(b, k.asOfSync[b]);
        k.asOfSync.packed = 0; k.pc = IDLE; }
    emit(n, BARRIER4, AGENT);
  }
}
static void liftQuarantines(const State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i]; if (k.pc != GONE || !(k.slot || k.direct)) continue;
    State n = s;
    if (C.sooner) for (int b = 0; b < C.blocks; b++) if (k.mask >> b & 1) {
      if (!dev(LIFT_KEEPS_CLEAN) && s.map[b] && !(s.map[b] & DIRTY)) {
        endListing(n, LIST_NO_END_LIFT); n.map[b] = 0; }
      if (!dev(LIFT_COUNTS) && s.copy == WRITE_BACK && s.copyBlock == b) n.cancelled = 1; }
    n.r[i].slot = 0; n.r[i].direct = 0; emit(n, LIFT, i); }
}
static void agentSteps(const State &s) {
  State n;
  if (s.stores) { n = s; agentStoreLeaves(n); emit(n, AGENT_STORE, AGENT); }
  if (s.late) { n = s; if (s.late == 1) writeSlow(n, s.lateTarget, s.lateValue); else writeFlash(n, s.lateTarget, s.lateValue);
      n.late = n.lateTarget = n.lateValue = 0; emit(n, s.late == 1 ? LATE_SLOW : LATE_FLASH, AGENT); }
  if (dev(APPEND_ONLY) && memcmp(s.map, s.durable, sizeof s.map)) { n = s; memcpy(n.durable, s.map, sizeof s.map); emit(n, EARLY, AGENT); }
  if (!s.alive) { restartAgent(s); return; }
  if (s.agentKills < C.agentKills) killAgent(s);
  for (int i = 0; i < C.ranks; i++) serve(s, i);
  if (C.ring) drainSteps(s);
  fetchSteps(s); writeBackSteps(s); barrierSteps(s);
  if (s.filling) { n = s; fillShared(n); emit(n, FILLS, AGENT, s.filling); return; }
  if (s.listKnown && agentHasRoom(s) && (s.endOwed || agentIsFree(s))) {
    n = s; n.endOwed = 0; endListing(n); emit(n, END_LISTING, AGENT); }
  if (!agentIsFree(s)) return;
  if (!dev(NEVER_LIFTED)) liftQuarantines(s);
  if (C.evict && mayEnd(s)) for (int b = 0; b < C.blocks; b++) if (s.map[b] && !(s.map[b] & DIRTY)) {
    n = s; endListing(n, LIST_NO_END_EVICT); n.map[b] = 0; emit(n, EVICT, AGENT, b); }
  clearBit(s);
}

// ---- states that nobody can tell apart
//
// Every function here makes states equal from which the same steps lead to the same verdicts. UNREDUCED=1 leaves out
// all but the numbering of tickets, the cleared fields and the order of ranks: verdicts are the same, states are more.

static void renumberTickets(State &s) {        // only their order matters
  u8 to[16] = {}, last = 0; bool used[16] = {};
  used[s.bound] = true;
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i]; used[k.ticket] = true;
      for (int j = 0; j < k.entries; j++) used[k.ring[j].ticket] = true; }
  for (int t = 1; t < 16; t++) if (used[t]) to[t] = ++last;
  s.bound = to[s.bound]; s.ticket = last;
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i]; k.ticket = to[k.ticket];
      for (int j = 0; j < k.entries; j++) k.ring[j].ticket = to[k.ring[j].ticket]; }
}

// Bytes of a place that nobody can read before they are written anew are garbage.
static bool mayBeRead(const State &s, int place) {
  bool journal = powerFails() || dev(RECORD_IN_MEMORY);
  auto is = [&](u8 extent) { return extent && placeOf(extent) == place; };
  for (int b = 0; b < C.blocks; b++) {
    if (is(s.map[b]) || listedAt(s, b) == place + 1) return true;
    if (journal && (is(s.durable[b]) || is(s.snapshot[b]))) return true; }
  if (s.copy == FETCH && s.copyPhase == 3 && s.copyPlace == place) return true;
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    bool written = k.pc == A_LOOK || hasNumber(k.pc) || k.pc == A_COMMIT;
    if ((written && k.slab == place + 1) || k.inPlace == place + 1) return true;
    if ((k.pc == R_FLASH || hasKey(k.pc)) && k.flash == place + 1) return true;
    for (int j = 0; j < k.entries; j++) if (k.ring[j].place == place + 1) return true; }
  return false;
}
static void forgetBytes(State &s) {
  if (s.copyPhase == 3) s.copyValue = 0;       // it is written
  if (s.late == 2 && !dev(OLD_FILES)) s.late = s.lateTarget = s.lateValue = 0; // no new agent gives that away
  for (int place = 0; place < PLACES_MAX; place++)
    if (!mayBeRead(s, place)) { s.flash[place] = GARBAGE; s.flashMay[place] = 1 << GARBAGE; }
}

// Values of a block: n goes to to[n]; of a set of them, those in `kept` only.
struct Renaming { u8 to[4], kept; };
static int renamed(const Renaming &r, int set) {
  int after = 0;
  for (int n = 0; n < 4; n++) if ((set & r.kept) >> n & 1) after |= 1 << r.to[n];
  return after;
}
static bool readsBlock(const Rank &k, int b) { return (k.deadAtStart || k.doneAtStart) && k.mask == 1 << b; }
static void rename(State &s, int b, const Renaming &r) {
  auto value = [&](int v) { return v < GARBAGE && v / 4 == b ? b * 4 + r.to[v & 3] : v; };
  Renaming all = r; all.kept = 15;
  auto may = [&](u16 set) { return (set & ~(15 << 4 * b)) | renamed(all, set >> 4 * b & 15) << 4 * b; };
  for (int c = 0; c < C.blocks; c++) s.slow[c] = value(s.slow[c]);
  for (int p = 0; p < PLACES_MAX; p++) s.flash[p] = value(s.flash[p]);
  if (powerFails()) {
    for (int c = 0; c < C.blocks; c++) s.slowMay[c] = may(s.slowMay[c]);
    for (int p = 0; p < PLACES_MAX; p++) s.flashMay[p] = may(s.flashMay[p]);
  }
  if (s.copy && s.copyPhase == 2) s.copyValue = value(s.copyValue);
  if (s.late) s.lateValue = value(s.lateValue);
  u16 before = 0;
  for (int n = 1; n < 4; n++) if (r.kept >> n & 1) before |= renamed(r, s.before[b] >> 4 * n & 15) << 4 * r.to[n];
  s.before[b] = before;
  for (PerBlock *set : {&s.done, &s.dead, &s.powerDead}) set->set(b, renamed(r, (*set)[b]));
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i];
    if (k.value[b]) k.value.set(b, r.to[k.value[b]]);
    if (k.pc == R_VALIDATE || k.pc == L_LOOK) k.got = value(k.got);
    k.asOfSync.set(b, renamed(r, k.asOfSync[b]));
    if (readsBlock(k, b)) { k.deadAtStart = renamed(r, k.deadAtStart); k.doneAtStart = renamed(r, k.doneAtStart); } }
}
// The monitors ask for the sets that a value is in. Values that are in the same ones are one value; those that lie
// nowhere any more are in none (but dead), and have the highest numbers. Where no operation begins any more, only those
// under way ask.
static void forgetValues(State &s, int b) {
  int dead = s.dead[b], born = (1 << s.next[b]) - 1, lies = 0, underWay = 0;
  if (!s.pool) { dead = 0; s.dead.set(b, 0); s.done.set(b, 0); s.before[b] = 0; }
  s.done.set(b, s.done[b] & ~dead); s.before[b] &= ~(dead * 0x1111); // they would be added to `dead`, which holds them
  for (int i = 0; i < C.ranks; i++) if (readsBlock(s.r[i], b)) s.r[i].doneAtStart &= s.pool ? ~dead : 0;
  auto see = [&](int v) { if (v < GARBAGE && v / 4 == b) lies |= 1 << (v & 3); };
  for (int c = 0; c < C.blocks; c++) { see(s.slow[c]); if (powerFails()) lies |= s.slowMay[c] >> 4 * b & 15; }
  for (int p = 0; p < PLACES_MAX; p++) { see(s.flash[p]); if (powerFails()) lies |= s.flashMay[p] >> 4 * b & 15; }
  if (s.copy && s.copyPhase == 2) see(s.copyValue);
  if (s.late) see(s.lateValue);
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.value[b]) underWay |= 1 << k.value[b];
    if (k.pc == R_VALIDATE || k.pc == L_LOOK) see(k.got); }
  auto alike = [&](int n, int m) {
    auto differ = [&](int set) { return (set >> n ^ set >> m) & 1; };
    if (differ(s.powerDead[b])) return false;
    for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
        if (differ(k.asOfSync[b]) || (readsBlock(k, b) && differ(k.deadAtStart))) return false; }
    return true;
  };
  int asked = lies & ~underWay & (s.pool ? dead : 15), live = lies | underWay, top = 1;
  Renaming r = {{0, 1, 2, 3}, 15};
  int same[4] = {0, 1, 2, 3};
  for (int m = 1; m < 4; m++) for (int n = 0; n < m; n++)
    if ((asked >> n & 1) && (asked >> m & 1) && alike(n, m)) { same[m] = n; live &= ~(1 << m); break; }
  for (int n = 1; n < 4; n++) if (live >> n & 1) r.to[n] = top++;
  for (int n = 1; n < 4; n++) if (!(live >> n & 1) && same[n] != n) r.to[n] = r.to[same[n]];
  r.kept = live;
  rename(s, b, r);
  if (!s.pool) return;
  int high = 0; for (int n = top; n < s.next[b]; n++) high |= 1 << n;
  if (!(live & 1) && (born & 1)) high |= 1;    // what the disk held at first lies nowhere
  s.dead.set(b, s.dead[b] | high);
}

// Places of one agent differ in what they hold and who holds them, not in their numbers.
static void placesBecome(State &s, const u8 *to) {
  State was = s;
  auto extent = [&](u8 e) { return e ? (e & DIRTY) | (to[placeOf(e)] + 1) : 0; };
  auto grant = [&](int place) { return place ? to[place - 1] + 1 : 0; };
  for (int p = 0; p < placesOfEpochs(); p++) { s.flash[to[p]] = was.flash[p]; s.flashMay[to[p]] = was.flashMay[p]; }
  for (int b = 0; b < C.blocks; b++) {
    for (u8 *e : {&s.map[b], &s.durable[b], &s.snapshot[b]}) *e = extent(*e);
    list(s, b, grant(listedAt(s, b))); }
  if (s.copy) s.copyPlace = to[s.copyPlace];
  if (s.late == 2) s.lateTarget = to[s.lateTarget];
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i];
    k.slab = grant(k.slab); k.flash = grant(k.flash); k.inPlace = grant(k.inPlace);
    for (int j = 0; j < k.entries; j++) k.ring[j].place = grant(k.ring[j].place); }
}
static u64 mixed(u64 h) { h *= 0xff51afd7ed558ccdull; h ^= h >> 32; return h * 0xc4ceb9fe1a85ec53ull; }
static u64 useOf(const State &s, int place) {  // does not depend on the order of ranks
  u64 use = s.flash[place] | s.flashMay[place] << 4 | (s.copy && s.copyPlace == place) << 13;
  use |= (s.late == 2 && s.lateTarget == place) << 14;
  auto is = [&](u8 extent) { return extent && placeOf(extent) == place; };
  for (int b = 0; b < C.blocks; b++)
    use |= (u64)(is(s.map[b]) | is(s.durable[b]) << 1 | is(s.snapshot[b]) << 2 | (listedAt(s, b) == place + 1) << 3)
      << (15 + 4 * b);
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    u64 who = k.pc | k.alive << 8 | k.frozen << 9 | k.mask << 10 | k.value.packed << 12;
    if (k.slab == place + 1) use += mixed(who + (1 << 24));
    if (k.flash == place + 1) use += mixed(who + (2 << 24));
    if (k.inPlace == place + 1) use += mixed(who + (3 << 24));
    for (int j = 0; j < k.entries; j++)
      if (k.ring[j].place == place + 1) use += mixed(who + (4 << 24) + ((u64)k.ring[j].ticket << 28) + j); }
  return use;
}
static void orderPlaces(State &s) {
  if (C.places == 1) return;
  u8 to[PLACES_MAX]; bool moved = false;
  for (int low = 0; low < placesOfEpochs(); low += C.places) {
    u64 use[PLACES_MAX];
    for (int p = low; p < low + C.places; p++) use[p] = useOf(s, p);
    for (int p = low; p < low + C.places; p++) { to[p] = low;
      for (int q = low; q < low + C.places; q++) to[p] += use[q] < use[p] || (use[q] == use[p] && q < p);
      moved |= to[p] != p; }
  }
  if (moved) placesBecome(s, to);
}

static void canonical(State &s) {
  for (int i = 0; i < C.ranks; i++) { Rank &k = s.r[i];
    if (k.pc == GONE) { if (!C.sooner || (!k.slot && !k.direct)) k.mask = 0; k.value.packed = 0; k.journaled = 0;
        for (int j = 0; j < k.entries; j++) k.ring[j].pending = 0; }
    if (!k.alive && reduced) k.flash = k.slow = 0;
    if (!k.slab && !k.flash && !k.slow && !k.inPlace && !k.direct) k.known = 0;
    if (!hasGeneration(k.pc)) k.changed = 0;
    if (!hasNumber(k.pc)) k.wordChanged = 0;
    if (k.pc != A_PUSH) k.ticket = k.ticketStale = 0;
    if (k.pc != R_SLOW && k.pc != R_VALIDATE) k.viaAgent = 0;
    if (k.pc != R_VALIDATE && k.pc != L_LOOK) k.got = 0;
    if (!hasKey(k.pc)) k.keyChanged = 0;
    if (k.pc != R_ASK) k.leased = 0;
    if (!asking(k.pc)) k.drained = 0;
    if (k.pc != A_COMMIT && k.pc != W_ASK) k.bumping = 0; }
  if (!s.listed && !s.listKnown && !s.filling) s.place0 = s.place1 = s.tag = 0;
  if (C.ring) renumberTickets(s);
  forgetRecords(s);
  if (reduced) forgetBytes(s);
  if (traced) return;                          // a trace names values, places and ranks as they are
  if (reduced) { for (int b = 0; b < C.blocks; b++) forgetValues(s, b); orderPlaces(s); }
  std::sort(s.r, s.r + C.ranks, [](const Rank &a, const Rank &b) { return memcmp(&a, &b, sizeof(Rank)) < 0; });
}

static State initial() {
  State s; memset(&s, 0, sizeof s); s.alive = 1; s.pool = C.ops;
  for (int i = 0; i < C.ranks; i++) s.r[i].alive = 1;
  for (int b = 0; b < C.blocks; b++) { s.slow[b] = b * 4; s.slowMay[b] = 1 << (b * 4); s.done.set(b, 1); s.next.set(b, 1); }
  for (int i = 0; i < PLACES_MAX; i++) { s.flash[i] = GARBAGE; s.flashMay[i] = 1 << GARBAGE; }
  if (C.listing) { s.bit = s.listed = s.listKnown = 1; s.place0 = s.map[0] = s.durable[0] = 1;
    s.flash[0] = s.slow[0]; s.flashMay[0] = s.slowMay[0]; }
  if (C.openAtFirst) { s.bit = 1; s.open = OPEN; s.opened = 1; }
  return s;
}
// What every state must be able to reach: all living ranks have finished and all dirty bytes are on the disk, but for what a frozen rank holds.
static bool finished(const State &s) {
  for (int i = 0; i < C.ranks; i++) { const Rank &k = s.r[i];
    if (k.alive && !k.frozen && k.pc != IDLE) return false;
    for (int j = 0; j < k.entries; j++) if (!k.ring[j].pending && !k.ring[j].stale) return false; }
  for (int b = 0; b < C.blocks; b++) { bool held = false;
    for (int i = 0; i < C.ranks; i++) held |= s.r[i].frozen && (s.r[i].direct >> b & 1);
    if ((s.map[b] & DIRTY) && !held && C.writeBack) return false; }
  return true;
}
static std::vector<Row> rows() {
  std::vector<Row> all; auto row = [&](const char *name, const char *what) -> Row & { all.emplace_back(); all.back().name = name;
      all.back().what = what; return all.back(); };
  { Row &c = row("handshake", "2 ranks, 4 operations, 1 block, 1 place, store buffers");
    c.writes = 2; c.storeBuffers = true; }
  { Row &c = row("plain1", "2 ranks, 5 operations, 1 block, 2 places, reads without leases"); c.leases = false; c.places = 2; c.ops = 5; }
  { Row &c = row("plain2", "2 ranks, 4 operations, 2 blocks, 1 place, wide writes");
    c.blocks = 2; c.writes = 2; c.wide = true; }
  { Row &c = row("three", "3 ranks, 5 operations, 1 block, 1 place"); c.ranks = 3; c.ops = 5; }
  { Row &c = row("power1", "2 ranks, 4 operations, fsync, 1 block, 2 places, reads without leases");
    c.leases = false; c.places = 2; c.writes = 2; c.sync = true; }
  { Row &c = row("power1s", "2 ranks, 4 operations, fsync, 1 block, 1 place"); c.writes = 2; c.sync = true; }
  { Row &c = row("power2", "2 ranks, 4 operations, fsync, 2 blocks, 1 place");
    c.blocks = 2; c.writes = 2; c.read = false; c.sync = true; c.fetch = false; }
  { Row &c = row("power3", "2 ranks, 5 operations, fsync, 2 blocks, 2 places, absorbed writes only");
    c.blocks = 2; c.places = 2; c.ops = 5; c.direct = c.read = false; c.sync = true; c.fetch = c.writeBack = c.evict = c.clear = false; }
  { Row &c = row("power4", "2 ranks, 4 operations, fsync, 1 block, 1 place, no write-back");
    c.sync = true; c.fetch = c.writeBack = c.evict = false; }
  { Row &c = row("readonly", "2 ranks, 4 reads, 2 blocks, 1 place, file not open for writing");
    c.blocks = 2; c.writes = 1; c.direct = c.absorb = false; c.writeBack = false; c.readOnly = true; }
  { Row &c = row("rankkill", "2 ranks, 5 operations, 1 block, 1 place, a rank killed"); c.ops = 5; c.rankKills = 1; }
  { Row &c = row("rankkill3", "3 ranks, 5 operations, 1 block, 1 place, a rank killed");
    c.ranks = 3; c.ops = 5; c.writes = 2; c.rankKills = 1; }
  { Row &c = row("agentkill", "2 ranks, 5 operations, 1 block, 1 place, agent killed"); c.ops = 5; c.agentKills = 1; }
  { Row &c = row("agentkill2", "2 ranks, 4 operations, 2 blocks, 1 place, reads without leases, agent killed");
    c.leases = false; c.blocks = 2; c.writes = 2; c.agentKills = 1; }
  { Row &c = row("agentkill3", "2 ranks, 3 operations, 2 blocks, 1 place, wide writes, agent killed");
    c.blocks = 2; c.ops = 3; c.writes = 2; c.wide = true; c.agentKills = 1; }
  { Row &c = row("agentkill4", "2 ranks, 4 operations, 1 block, 1 place, agent killed"); c.agentKills = 1; }
  { Row &c = row("agentkill5", "2 ranks, 3 operations, 2 blocks, 1 place, no fetch, agent killed");
    c.blocks = 2; c.ops = 3; c.writes = 2; c.fetch = false; c.agentKills = 1; }
  { Row &c = row("both", "2 ranks, 4 operations, 1 block, 1 place, rank and agent killed");
    c.rankKills = c.agentKills = 1; }
  { Row &c = row("both3", "2 ranks, 3 operations, 1 block, 1 place, rank and agent killed"); c.ops = 3; c.rankKills = c.agentKills = 1; }
  { Row &c = row("all", "2 ranks, 4 operations, fsync, 1 block, 1 place, reads without leases, rank and agent killed");
    c.leases = false; c.writes = 2; c.sync = true; c.rankKills = c.agentKills = 1; }
  { Row &c = row("alls", "2 ranks, 3 operations, fsync, 1 block, 1 place, rank and agent killed");
    c.ops = 3; c.writes = 2; c.sync = true; c.rankKills = c.agentKills = 1; }
  { Row &c = row("sooner", "3 ranks, 4 operations, 1 block, 1 place, clean bytes read from the disks");
    c.ranks = 3; c.sooner = true; }
  { Row &c = row("soonerkill", "the same with 2 ranks, 5 operations, a rank killed");
    c.ops = 5; c.rankKills = 1; c.sooner = true; }
  { Row &c = row("soonerboth", "the same with 2 ranks, 4 operations, rank and agent killed");
    c.rankKills = c.agentKills = 1; c.sooner = true; }
  { Row &c = row("asked1", "2 ranks, 4 operations, fsync, 1 block, 1 place, files synced once asked for");
    c.sync = c.syncAsked = true; }
  { Row &c = row("asked2", "the same with 2 blocks, no reads or fetches");
    c.blocks = 2; c.writes = 2; c.read = c.fetch = false; c.sync = c.syncAsked = true; }
  { Row &c = row("freeze", "2 ranks, 5 operations, 1 block, 1 place, a rank frozen in any state");
    c.ops = 5; c.freezes = 1; }
  { Row &c = row("freeze3", "3 ranks, 4 operations, 1 block, 1 place, a rank frozen"); c.ranks = 3; c.freezes = 1; }
  { Row &c = row("freezew", "2 ranks, 4 operations, 2 blocks, 1 place, wide, a rank frozen");
    c.blocks = 2; c.writes = 2; c.wide = true; c.freezes = 1; }
  { Row &c = row("freezes", "2 ranks, 4 operations, 1 block, 1 place, store buffers, a rank frozen");
    c.writes = 2; c.storeBuffers = true; c.freezes = 1; }
  { Row &c = row("freezesoon", "2 ranks, 4 operations, 1 block, 1 place, clean bytes read from the disks, a rank frozen");
    c.sooner = true; c.freezes = 1; }
  { Row &c = row("freezeak", "2 ranks, 4 operations, 1 block, 1 place, a rank frozen, agent killed");
    c.agentKills = 1; c.freezes = 1; }
  auto ring = [&](const char *name, const char *what) -> Row & { Row &c = row(name, what); c.ring = true; c.places = 2; c.ops = 3;
      c.leases = false; return c; };
  auto open = [&](const char *name, const char *what) -> Row & { Row &c = ring(name, what); c.openAtFirst = true; return c; };
  { ring("ringf", "2 ranks, 3 operations, 1 block, 2 places, rings"); }
  { Row &c = ring("ring2", "2 ranks, 3 operations, 2 blocks, 2 places, no fetch, rings");
    c.blocks = 2; c.writes = 2; c.fetch = false; }
  { Row &c = ring("ringtso", "2 ranks, 3 operations, 1 block, 2 places, no fetch, rings, store buffers");
    c.writes = 2; c.fetch = false; c.storeBuffers = true; }
  { Row &c = ring("ringtsob", "2 ranks, 4 operations, absorbed writes and reads, 1 block, 2 places, no copies, rings, store buffers");
    c.ops = 4; c.direct = c.fetch = c.writeBack = c.evict = c.clear = false; c.storeBuffers = true; }
  { Row &c = ring("ringkill", "2 ranks, 3 operations, 1 block, 2 places, rings, a rank killed"); c.rankKills = 1; }
  { Row &c = ring("ringagent", "2 ranks, 3 operations, 1 block, 1 place, no fetch, rings, agent killed");
    c.places = 1; c.fetch = false; c.agentKills = 1; }
  { Row &c = ring("ringpower", "2 ranks, 4 operations, fsync, no reads or direct writes, 1 block, 2 places, rings");
    c.ops = 4; c.writes = 2; c.direct = c.read = c.fetch = false; c.sync = true; }
  { Row &c = ring("ringfreeze", "2 ranks, 3 operations, 1 block, 2 places, rings, a rank frozen"); c.freezes = 1; }
  { open("openf", "2 ranks, 3 operations, 1 block, 2 places, granule open at first"); }
  { Row &c = open("opent", "2 ranks, 3 operations, 1 block, 2 places, store buffers, no fetch, granule open at first");
    c.fetch = false; c.storeBuffers = true; }
  { Row &c = open("openw", "3 ranks, 4 operations, absorbed writes and reads, 1 block, 2 places, no copies, open at first");
    c.ranks = 3; c.ops = 4; c.direct = c.fetch = c.writeBack = c.evict = c.clear = false; }
  { Row &c = open("open3", "3 ranks, 3 operations, 1 block, 2 places, no fetch, open at first");
    c.ranks = 3; c.fetch = false; }
  { Row &c = open("open4", "2 ranks, 4 operations, 1 block, 2 places, no fetch, open at first");
    c.ops = 4; c.fetch = false; }
  { Row &c = open("openlease", "2 ranks, 4 operations, 1 block, 1 place, no fetch, open at first, reads with leases");
    c.ops = 4; c.places = 1; c.fetch = false; c.leases = true; }
  auto absorbs = [&](Row &c) { c.direct = c.fetch = c.writeBack = c.evict = c.clear = false; };
  { Row &c = open("openbound", "2 ranks, 4 operations, absorbed writes and reads, 1 block, 3 places, slabs ahead, no copies, open at first");
    absorbs(c); c.ops = 4; c.places = 3; c.slabsAhead = true; }
  { Row &c = open("openfull", "2 ranks, 3 operations, absorbed writes and reads, 2 blocks, 2 places, no copies, open at first, a ring of one entry");
    absorbs(c); c.blocks = 2; c.writes = 2; c.ringEntries = 1; }
  { Row &c = open("opena", "2 ranks, 3 operations, absorbed writes and reads, 1 block, 2 places, no copies, open at first, agent killed");
    absorbs(c); c.agentKills = 1; }
  { Row &c = open("openkill", "2 ranks, 3 operations, 1 block, 2 places, no fetch, open at first, a rank killed");
    c.fetch = false; c.rankKills = 1; }
  { Row &c = open("openagent", "2 ranks, 3 operations, 1 block, 2 places, no fetch, open at first, agent killed");
    c.fetch = false; c.agentKills = 1; }
  { Row &c = open("openfreeze", "2 ranks, 3 operations, 1 block, 2 places, no fetch, open at first, a rank frozen");
    c.fetch = false; c.freezes = 1; }
  auto lists = [&](const char *name, const char *what) -> Row & { Row &c = row(name, what); c.listing = true;
      c.places = 2; c.leases = false; return c; };
  { Row &c = lists("list", "2 ranks, 5 operations, 1 block, 2 places, listings"); c.ops = 5; }
  { Row &c = lists("list3", "3 ranks, 4 operations, 1 block, 2 places, listings"); c.ranks = 3; }
  { Row &c = lists("listblocks", "2 ranks, 3 operations, 2 blocks, 2 places, listings");
    c.blocks = 2; c.ops = 3; c.writes = 2; }
  { Row &c = lists("listshared", "2 ranks, 3 operations, 2 blocks, 2 places, one listing for both blocks in turn");
    c.blocks = 2; c.ops = 3; c.writes = 2; c.listShared = true; }
  { Row &c = lists("listleases", "2 ranks, 4 operations, 1 block, 1 place, listings, reads with leases");
    c.places = 1; c.leases = true; }
  { Row &c = lists("listkill", "2 ranks, 4 operations, 1 block, 2 places, listings, a rank killed"); c.rankKills = 1; }
  { Row &c = lists("listagent", "2 ranks, 4 operations, 1 block, 2 places, listings, agent killed"); c.agentKills = 1; }
  { Row &c = lists("listagent3",
      "3 ranks, 4 operations, absorbed writes and reads, 1 block, 1 place, no write-back, listings, agent killed");
    c.ranks = 3; c.places = 1; c.direct = c.writeBack = false; c.agentKills = 1; }
  { Row &c = lists("listboth", "2 ranks, 4 operations, 1 block, 1 place, listings, rank and agent killed");
    c.places = 1; c.rankKills = c.agentKills = 1; }
  { Row &c = lists("listfreeze", "2 ranks, 4 operations, 1 block, 2 places, listings, a rank frozen"); c.freezes = 1; }
  { Row &c = lists("listsooner", "3 ranks, 4 operations, 1 block, 1 place, listings, clean bytes read from the disks");
    c.ranks = 3; c.places = 1; c.sooner = true; }
  { Row &c = lists("listsoonkill", "the same with 2 ranks, 5 operations, a rank killed");
    c.ops = 5; c.places = 1; c.sooner = true; c.rankKills = 1; }
  { Row &c = lists("listring", "2 ranks, 4 operations, 1 block, 2 places, rings, listings"); c.ring = true; }
  { Row &c = lists("listringkill", "2 ranks, 3 operations, 1 block, 2 places, rings, listings, a rank killed");
    c.ring = true; c.ops = 3; c.rankKills = 1; }
  { Row &c = lists("listringagent",
      "2 ranks, 3 operations, 1 block, 2 places, no fetch, rings, listings, agent killed");
    c.ring = true; c.ops = 3; c.fetch = false; c.agentKills = 1; }
  { Row &c = lists("listtso", "2 ranks, 4 operations, 1 block, 2 places, no fetch, rings, listings, store buffers");
    c.ring = true; c.fetch = false; c.storeBuffers = true; }
  return all;
}
// Each leaves one rule out. Rows: those it is searched in until one refutes it.
static const std::vector<Variant> VARIANTS = {
  {"spec", "the specification", "*", {}},
  {"no-fence-rank", "library loads the bit before a cheap write's slot is visible", "handshake", {NO_FENCE_RANK}},
  {"no-fence-agent", "agent scans the slots before its bit is visible", "handshake", {NO_FENCE_AGENT}},
  {"no-wait", "agent commits under a cheap writer's slot", "handshake", {NO_WAIT}},
  {"redo", "the same, and a cheap write that finds the generation changed is done again through the agent", "handshake", {NO_WAIT, REDO}},
  {"bit-after-commit", "agent sets the bit after the commit", "handshake", {BIT_AFTER_COMMIT}},
  {"slot-kept", "library keeps its slot while it asks the agent", "plain2", {SLOT_KEPT}},
  {"no-validate-read", "a read of the disk is not validated", "handshake", {NO_VALIDATE_READ}},
  {"no-gen-read", "a cheap read loads the bit again, not the generation", "rankkill", {NO_GEN_READ}},
  {"generation-first", "agent changes the generation, then sets the bit", "handshake", {GENERATION_FIRST}},
  {"generation-late", "a read sent to the disk loads the generation after the answer", "three", {GENERATION_LATE}},
  {"bump-early", "agent answers reads between the change of the generation and that of the map", "rankkill", {BUMP_EARLY}},
  {"disk-no-bump", "a commit or publication does not change the generation", "handshake", {DISK_NO_BUMP}},
  {"direct-no-bump", "a direct write over clean bytes does not change the generation", "sooner", {DIRECT_NO_BUMP}},
  {"read-no-lease", "a read that asked for a lease gets none, and is not validated", "three", {READ_NO_LEASE}},
  {"leased-sooner", "a read with a lease is sent to the disk for clean bytes", "sooner", {LEASED_SOONER}},
  {"wait-dead", "agent waits for the slot of a dead rank until its own restart", "rankkill", {WAIT_DEAD, NEVER_LIFTED, WAIT_SLOT}},
  {"never-lifted", "quarantine is never lifted", "rankkill both3", {NEVER_LIFTED}},
  {"append-only", "commit appended at once, no barrier: the kernel may write it first", "power2", {APPEND_ONLY}},
  {"record-in-memory", "commit kept in the agent's memory until its data is synced", "agentkill4", {RECORD_IN_MEMORY}},
  {"reuse-superseded", "space of an overwritten extent reused at once", "power3", {REUSE_SUPERSEDED}},
  {"reuse-clean", "space reused once the clean (not the removal) record is durable", "readonly", {REUSE_CLEAN}},
  {"reuse-early", "space reused before any record is durable", "power2", {REUSE_EARLY}},
  {"clear-on-clean", "bit cleared once the clean (not the removal) record is durable", "readonly power2", {CLEAR_ON_CLEAN}},
  {"clear-early", "bit cleared before any record is durable", "power2", {CLEAR_EARLY}},
  {"drop-unsynced", "drop of a direct write durable before the slow file is synced", "power4", {DROP_UNSYNCED}},
  {"drop-first", "drop committed before the direct write lands", "rankkill", {DROP_FIRST}},
  {"direct-in-writeback", "direct write does not wait for a write-back under way", "rankkill", {DIRECT_IN_WRITEBACK}},
  {"writeback-in-direct", "write-back does not wait for a direct write under way", "rankkill", {WRITEBACK_IN_DIRECT}},
  {"commit-in-direct", "commit under a direct write", "rankkill", {COMMIT_IN_DIRECT}},
  {"fetch-in-direct", "fetch begins under a direct write", "rankkill", {FETCH_IN_DIRECT}},
  {"fetch-cheap", "fetch begins under a living cheap writer's slot", "handshake", {FETCH_CHEAP}},
  {"fetch-dead", "fetch begins although a dead rank's write may land", "rankkill", {FETCH_DEAD}},
  {"fetch-not-cancelled", "fetch published although a write began", "rankkill", {FETCH_NOT_CANCELLED}},
  {"clean-despite", "marked clean although the extent changed", "plain1", {CLEAN_DESPITE}},
  {"no-read-lease", "space reused under a reader", "plain2", {NO_READ_LEASE}},
  {"commit-twice", "restarted agent applies a repeated commit again", "agentkill4 agentkill", {COMMIT_TWICE}},
  {"late-writeback", "restarted agent ignores a write-back of the dead one", "agentkill4", {LATE_WRITEBACK}},
  {"quarantine-ends", "quarantine of a granule ends at agent restart", "both3", {QUARANTINE_ENDS}},
  {"slab-reclaimed", "slab of a dead rank reused", "rankkill", {SLAB_RECLAIMED}},
  {"no-adoption", "restarted agent does not adopt leases", "agentkill4", {NO_ADOPTION}},
  {"old-files", "restarted agent allocates in the old data files", "agentkill4", {OLD_FILES}},
  {"slow-while-down", "bit set and agent down: read the slow file", "agentkill4", {SLOW_WHILE_DOWN}},
  {"keep-clean", "clean extents kept after a power failure while the file was open", "power2", {KEEP_CLEAN}},
  {"slow-of-dirty", "dirty bytes read from the disks", "sooner", {SLOW_OF_DIRTY}},
  {"slow-in-direct", "clean bytes read from the disks under a direct write", "sooner", {SLOW_IN_DIRECT}},
  {"slow-from-dead", "clean bytes read from the disks where a dead rank's write may land", "soonerkill", {SLOW_FROM_DEAD}},
  {"slow-in-copy", "clean bytes read from the disks while a copy is under way there", "sooner soonerkill", {SLOW_IN_COPY}},
  {"lift-keeps-clean", "clean extents kept when a quarantine is lifted", "soonerkill", {LIFT_KEEPS_CLEAN}},
  {"lift-counts", "write-back under way counts although a quarantine there was lifted", "soonerkill", {LIFT_COUNTS}},
  {"asked-unsynced", "barriers that free space sync no slow file, asked for or not", "asked1", {ASKED_UNSYNCED}},
  {"wait-slot", "a commit waits for ever for a cheap write", "freezesoon", {WAIT_SLOT}},
  {"wait-lease", "a commit waits for ever for a direct write or a read under a lease", "freezesoon", {WAIT_LEASE}},
  {"wait-reader", "a fetch waits for ever for a reader of the disks", "freezesoon", {WAIT_READER}},
  {"in-place", "overwrite in place, not while copied; a dead holder's extent is copied only once its write has landed", "rankkill power2", {IN_PLACE}},
  {"in-place-never", "the same, but a dead holder's extent is never copied", "rankkill", {IN_PLACE, IN_PLACE_NEVER}},
  {"in-place-dead", "the same, but a dead holder's extent is copied", "rankkill", {IN_PLACE, IN_PLACE_DEAD}},
  {"in-place-clean", "overwrite in place of a clean extent that the journal still calls clean", "rankkill", {IN_PLACE, IN_PLACE_CLEAN}},
  {"in-place-copied", "overwrite in place while the extent is copied", "rankkill", {IN_PLACE, IN_PLACE_COPIED}},
  {"no-ticket", "entries applied in the order of the rings", "openw", {NO_TICKET}},
  {"no-ticket-bound", "a drain applies entries of tickets that were taken after it began", "openbound", {NO_TICKET_BOUND}},
  {"bound-late", "a drain notes the last ticket after it has cleared the marks", "openbound", {BOUND_LATE}},
  {"no-drain-read", "READ answered without a drain", "openw", {NO_DRAIN_READ}},
  {"no-drain-commit", "COMMIT applied without a drain", "openfull", {NO_DRAIN_COMMIT}},
  {"no-drain-sync", "barrier for an fsync without a drain", "ringpower", {NO_DRAIN_SYNC}},
  {"no-drain-death", "ring of a dead rank given away without a drain", "openkill", {NO_DRAIN_DEATH}},
  {"open-direct", "direct write granted while open", "openf", {OPEN_DIRECT}},
  {"open-clear", "bit cleared while open", "openf", {OPEN_CLEAR}},
  {"open-lease", "lease to read the disk given while open", "openlease", {OPEN_LEASE}},
  {"open-fetch", "fetch begins while open", "openf", {OPEN_FETCH}},
  {"open-under-lease", "opened under a lease", "openf openlease", {OPEN_UNDER_LEASE}},
  {"open-under-fetch", "opened under a fetch", "ringf", {OPEN_UNDER_FETCH}},
  {"ring-no-validate", "library does not load the open word again", "openf", {RING_NO_VALIDATE}},
  {"stale-ok", "entries of a number that is not open are applied", "openf", {STALE_OK}},
  {"ring-no-fence", "no fence between push and validation", "opent", {RING_NO_FENCE}},
  {"close-no-fence", "no fence between closing and draining", "opent", {CLOSE_NO_FENCE}},
  {"mark-first", "library marks its ring before it pushes", "openw", {MARK_FIRST}},
  {"forget-left", "agent forgets that a ring holds entries it did not take", "openbound", {FORGET_LEFT}},
  {"tail-first", "tails stored before the records are appended", "openagent", {TAIL_FIRST}},
  {"drain-twice", "restarted agent applies entries again that the journal holds", "opena", {DRAIN_TWICE}},
  {"adopt-forgets-ring", "restarted agent throws away what rings hold", "openagent", {ADOPT_FORGETS_RING}},
  {"adopt-no-close", "restarted agent leaves open what was open", "opena", {ADOPT_NO_CLOSE}},
  {"closed-at-once", "closing shows as closed before what counts is applied", "openagent", {CLOSED_AT_ONCE}},
  {"list-no-validate", "library does not load the key again", "list", {LIST_NO_VALIDATE}},
  {"list-validate-early", "library loads the key again before it reads flash", "list", {LIST_VALIDATE_EARLY}},
  {"list-no-end-commit", "a commit over listed bytes does not end the listing", "list", {LIST_NO_END_COMMIT}},
  {"list-no-end-pushed", "an entry of a ring over listed bytes does not end the listing", "listring listringagent",
    {LIST_NO_END_PUSHED}},
  {"list-no-end-drop", "the drop of a direct write does not end the listing", "list", {LIST_NO_END_DROP}},
  {"list-no-end-evict", "an eviction does not end the listing", "list", {LIST_NO_END_EVICT}},
  {"list-no-end-lift", "the drop of a quarantine that is lifted does not end the listing", "listsoonkill",
    {LIST_NO_END_LIFT}},
  {"list-no-end-open", "a granule is opened and stays listed", "listring", {LIST_NO_END_OPEN}},
  {"list-end-late", "agent ends the listing after it has answered the commit", "list", {LIST_END_LATE}},
  {"list-end-behind", "agent ends the listing behind the record that changes the map, before it answers",
    "list listagent listtso", {LIST_END_BEHIND}},
  {"list-fill-no-zero", "a listing is filled while its key is the one before", "listshared", {LIST_FILL_NO_ZERO}},
  {"list-open-word", "agent lists an open granule", "listring", {LIST_OPEN_WORD}},
  {"list-before-append", "agent lists what a commit has not appended yet", "list", {LIST_BEFORE_APPEND}},
  {"list-key-again", "a listing has the key of the one before", "list", {LIST_KEY_AGAIN}},
  {"list-number-restart", "keys begin anew with a new agent", "listagent3", {LIST_NUMBER_RESTART}},
  {"list-answer-passes", "an answer is seen before the end of the listing", "listtso", {LIST_ANSWER_PASSES}},
  {"list-adopt-keep", "a new agent does not end the listings that it finds", "listagent", {LIST_ADOPT_KEEP}},
};
// Rows of more than 800,000 states, and variants that hold as well.
static const std::vector<std::string> LARGE = {
  "plain2", "three", "power1", "rankkill3", "agentkill2", "agentkill3", "all", "alls", "freeze3", "freezew", "freezeak",
  "ring2", "ringpower", "openw", "open3", "open4", "openkill", "openagent", "openfreeze", "list3", "listblocks",
  "listshared", "listagent", "listagent3", "listfreeze", "listboth", "listring", "listringagent", "listtso"};
static const std::vector<std::string> HOLD = {
  "clear-on-clean", "never-lifted", "in-place", "slow-in-copy", "wait-reader", "slot-kept", "open-fetch", "open-under-lease",
  "open-under-fetch", "adopt-no-close", "list-no-end-pushed",
  "list-end-behind"};

struct Model {
  typedef ::State State; typedef ::Row Row;
  static inline Row &C = ::C;
  static size_t stateBytes() { return offsetof(State, r) + C.ranks * sizeof(Rank); } // the ranks of the row
  static State initial() { return ::initial(); }
  static void canonical(State &s) { ::canonical(s); }
  static const char *wrong(const State &s) { return powerFails() ? powerFailure(s) : nullptr; }
  static void steps(const State &s) {
    for (int i = 0; i < C.ranks && !violated; i++) rankSteps(s, i);
    if (!violated) agentSteps(s);
  }
  static bool finished(const State &s) { return ::finished(s); }
  static const char *stuck(const State &s) {
    return s.freezes ? "I6 a rank is blocked for ever by a frozen one, or dirty bytes can never drain"
      : "I5 a rank is blocked for ever, or dirty bytes can never drain";
  }
  static const char *stepText(u8 step) { return STEP_TEXT[step]; }
  static inline const std::vector<Row> ROWS = rows();
  static inline const std::vector<Variant> &VARIANTS = ::VARIANTS;
  static inline const Names &LARGE = ::LARGE, &HOLD = ::HOLD, GAPS = {};
  static constexpr const char *NAME = "protocol client", *LINE = "%-20s %-11s %10llu states %6.1f s  %s\n";
  static const u64 STATES_MAX = 100000000;
};

int main(int argc, char **argv) {
  reduced = !getenv("UNREDUCED");
  return commands<Model>(argc, argv);
}
