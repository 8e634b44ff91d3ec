// Exhaustive check of the client protocol (client.md). Run:  make check-protocols, or g++ -O2 -std=c++17 -o client client.cpp && ./client check
//
// Explicit-state breadth-first search; a counterexample is a shortest one. `client list` names configurations and variants;
// `client trace CONFIG VARIANT` prints the counterexample; `client table [VARIANT [CONFIG]]` runs the rows (LIMIT=N bounds the
// states of a row; the largest needs about 9 GiB; all rows 15 minutes on one core). `client check` judges: the specification holds in every
// row that is searched in seconds, and each variant is refuted, but for those that are known to hold; `client check all` in every row.
//
// One file, blocks 0..NB-1 in one granule (one bit), ranks with one thread each, an agent with one copy machine (fetch or
// write-back), NSLOT flash slots per agent epoch. Values are block*4+n: n=0 is what the disk held at first, n=1..3 the writes
// in the order in which they began. GARBAGE is a flash slot nobody has written.
// Power failure needs no transition: every reachable state is checked for every outcome it allows (any subset of unsynced
// writes; the journal as of its last durable barrier).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <algorithm>
#include <chrono>
#include <functional>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;

const int MAXR = 3, MAXB = 2, MAXS = 4, GARBAGE = 8;

enum Pc : u8 { IDLE,
  D_SLOT, D_CHECK, D_IO, D_CLEAR,      // direct write, cheap path: publish slot; fence, look at bit; kernel I/O; clear slot
  D_ASK, D_LIO, D_DROP,                // direct write under a lease: ask; kernel I/O; drop what it covers
  A_SLAB, A_IO, A_COMMIT,              // absorbed write: get space; write flash; commit
  R_SLOT, R_CHECK, R_SLOW, R_ASK, R_FLASH, // read
  F_CHECK, F_KERNEL, F_ASK, F_WAIT,    // fsync
  I_ASK, I_IO, I_RELEASE,              // overwrite in place (only variants use it)
  GONE };                              // dead, and nothing of it can land any more

struct Rank {
  u8 alive, pc, mask, val[MAXB];  // mask: blocks of the operation; val: index n being written
  u8 slot, sbn, sb[2];                 // slot as memory shows it; store buffer of the rank (TSO)
  u8 slab, rl, rs, ip, ws, known;      // leases in shared memory: slab (slot+1), flash read, slow read, in-place write, direct-write mask; agent knows them
  u8 jdone;                            // the journal holds this rank's unanswered commit
  u8 frozen;                           // stopped for ever (Ctrl-Z, a debugger), and alive
  u8 rdead, rdone, sdead[MAXB];        // monitors: snapshots at the start of a read / fsync
};
struct State {
  Rank r[MAXR];
  u8 slow[MAXB], fl[MAXS];             // what a read sees now (page cache)
  u16 slowp[MAXB], flp[MAXS];          // set of values stable storage may hold
  u8 map[MAXB], jmap[MAXB], snap[MAXB];// extent map (= journal replayed to its end), durable map, map of the barrier under way
  u8 pool;                             // operations not yet begun, shared by all ranks
  u8 bph;                              // barrier: 0 none, 1 snapshot taken, 2 flash synced, 3 slow synced
  u8 asked;                            // some rank asked the agent that bytes survive power loss
  u8 bit, abn, ab[2];                  // granule bit as memory shows it; store buffer of the agent
  u8 alive, epoch, akills, rkills, freezes;
  u8 ck, cb, cs, cph, cval, cc;        // copy: 0 none 1 fetch 2 write-back; block, slot, phase, value, cancelled
  u8 gk, gt, gv;                       // write of a killed agent that may still land: 1 slow, 2 flash; target; value
  u8 next[MAXB], done[MAXB], dead[MAXB], pdead[MAXB]; u8 prev[MAXB][4]; // monitors
};
const u8 DIRTY = 0x10;
static int slotOf(u8 m) { return (m & 0xf) - 1; }

struct Variant {                       // each true is one deviation from the specification
  const char *name, *what, *in;        // in: the configurations it is run in
  std::function<void(Variant&)> set;
  bool noFenceRank=0, noFenceAgent=0, slotKept=0, waitDead=0, noLift=0, noBarrier=0, recInMemory=0, reuseSuperseded=0, reuseClean=0, reuseEarly=0,
    clearOnClean=0, clearEarly=0, dropUnsynced=0, directIgnoresWb=0, wbIgnoresDirect=0, commitIgnoresDirect=0, commitTwice=0, ghostIgnored=0,
    fetchIgnoresDead=0, quarantineEnds=0, keepCleanPower=0, noCancel=0, cleanDespite=0, noAdopt=0, oldFiles=0, deadAgentSlow=0,
    dropFirst=0, noReadLease=0, inplace=0, ipDeadIgnored=0, ipDuringCopy=0, ipClean=0, ipDeadNever=0, slabReclaimed=0, fetchIgnoresDirect=0, readNoSlot=0, readNoLease=0, commitBeforeSlots=0, bitAfterCommit=0,
    slowOfDirty=0, slowInDirect=0, slowFromDead=0, slowInCopy=0, keptUnderSlow=0, liftKeepsClean=0, liftCounts=0, askedUnsynced=0, waitSlot=0, waitLease=0, waitReader=0;
};
struct Config { const char *name, *what; int nr, nb, nslot, ops, maxw; bool wd, wa, rd, fs, wide, fetch, wb, evict, clear, tso; int rk, ak; bool keepClean = false, sooner = false, ask = false; int freezes = 0; };

static Config C; static Variant V;
static const char *viol;               // set by a step that breaks an invariant
static int violAt;                     // the step that did

struct Label { u8 act, arg; };
static const char *ACT[] = {"start", "begin direct write", "begin absorbed write", "begin read", "begin fsync", "publish slot", "store buffer of rank drains",
  "bit clear: go to disk", "bit set: ask agent", "write lands on slow file", "return, clear slot", "agent grants direct write", "direct write lands on slow file", "agent appends drop", "agent ends direct write, returns",
  "agent grants slab", "no space: go to disk", "write lands on flash", "agent sets bit (commit)", "agent appends commit", "agent answers commit, returns",
  "read: bit clear", "read: bit set", "read slow file, returns", "agent answers read: disk", "agent leases flash to read", "read flash, returns",
  "fsync: bit clear", "fsync: bit set", "kernel fsync, returns", "KILL rank", "write of dead rank lands (slow)", "write of dead rank lands (flash)", "KILL agent", "agent restarts and adopts",
  "write of dead agent lands (slow)", "write of dead agent lands (flash)", "store buffer of agent drains", "agent sets bit (fetch)", "fetch: starts", "fetch: has read slow file", "fetch: flash written", "fetch: published", "fetch: discarded",
  "write-back: starts, has read flash", "write-back: lands on slow file", "write-back: marked clean", "write-back: not counted", "evict: drop appended", "agent clears bit", "barrier: snapshot", "barrier: flash synced", "barrier: slow synced",
  "barrier: durable", "kernel flushes journal early", "agent grants overwrite in place", "overwrite in place lands", "overwrite in place returns", "agent gone: reads slow file", "nothing of dead rank can land: quarantine lifted", "agent answers read of clean bytes: disk", "FREEZE rank", "agent refuses commit: go to disk"};
enum { LSTART, LBD, LBA, LBR, LBF, LPUB, LRDRAIN, LCLR, LSETB, LSLOW, LRET, LGRANT, LDLAND, LDROP, LDEND, LSLAB, LNOSP, LFLASH, LCBIT, LCAPP, LCANS,
  LRCLR, LRSET, LRSLOW, LRDISK, LRFL, LRFLR, LFCLR, LFSET, LFK, LKR, LGRS, LGRF, LKA, LREST, LGAS, LGAF, LADRAIN, LFBIT, LFST, LFRD, LFWR, LFPUB, LFDIS,
  LWST, LWLAND, LWCLEAN, LWNOT, LEVICT, LCLRBIT, LB1, LB2, LB3, LB4, LJF, LIG, LIL, LIR, LDAS, LLIFT, LRSOON, LFRZ, LREF };

static std::vector<std::pair<State, Label>> out;
static void emit(const State &s, int act, int arg) { if (viol && violAt < 0) violAt = out.size(); out.push_back({s, {(u8)act, (u8)arg}}); }

// ---- stores through buffers
static void storeSlot(Rank &k, u8 v) { if (C.tso) k.sb[k.sbn++] = v; else k.slot = v; }
static void storeBit(State &s, u8 v) { if (C.tso) s.ab[s.abn++] = v; else s.bit = v; }
static u8 agentBit(const State &s) { return s.abn ? s.ab[s.abn - 1] : s.bit; }

// ---- monitors
static void completeWrite(State &s, Rank &k) {
  for (int b = 0; b < C.nb; b++) if (k.mask >> b & 1) { s.done[b] |= 1 << k.val[b]; s.dead[b] |= s.prev[b][k.val[b]]; k.val[b] = 0; }
  k.mask = 0; k.pc = IDLE;
}
static void returnRead(State &s, Rank &k, u8 v) {
  int b = k.mask == 1 ? 0 : 1;
  if (v == GARBAGE || v / 4 != b) viol = "I1 read returns bytes never written to this block";
  else if (k.rdead >> (v & 3) & 1) viol = s.akills ? "I2 read older than an acknowledged write (agent was killed)" : "I1 read older than a completed write";
  else { s.dead[b] |= s.prev[b][v & 3] | (k.rdone & ~(1 << (v & 3))); s.done[b] |= 1 << (v & 3); } // seen: it has taken effect
  k.rdead = k.rdone = 0; k.mask = 0; k.pc = IDLE;
}
static bool powerOk(const State &s, int b, u16 set) { for (int v = 0; v <= GARBAGE; v++) if (set >> v & 1) if (v == GARBAGE || v / 4 != b || (s.pdead[b] >> (v & 3) & 1)) return false; return true; }
static const char *powerFail(const State &s) {
  for (int b = 0; b < C.nb; b++) {
    u8 m = s.jmap[b];
    if (!m) { if (!powerOk(s, b, s.slowp[b])) return "I3 after power failure the slow file holds less than fsync acknowledged"; }
    else if (m & DIRTY) { if (!powerOk(s, b, s.flp[slotOf(m)])) return "I3 after power failure flash holds less than fsync acknowledged, or other bytes"; }
    else if (!V.keepCleanPower && !C.keepClean) { if (!powerOk(s, b, s.slowp[b])) return "I3 after power failure the slow file behind a clean extent is older than fsync acknowledged"; }
    else if (s.flp[slotOf(m)] != s.slowp[b] || (s.slowp[b] & (s.slowp[b] - 1)) || !powerOk(s, b, s.slowp[b])) return "I3 after power failure a clean extent differs from the slow file";
  }
  return nullptr;
}

// ---- flash space
static bool blocks(const State &s, u8 jm, int b, int sl) {        // does a durable record still name this slot?
  if (!jm || slotOf(jm) != sl || V.reuseEarly) return false;
  if (V.reuseSuperseded && s.map[b] && slotOf(s.map[b]) != sl) return false;
  if (V.reuseClean && !(jm & DIRTY)) return false;
  return true;
}
static bool canAlloc(const State &s, int sl) {
  if (!V.oldFiles && sl / C.nslot != s.epoch) return false;
  if (V.oldFiles && sl >= C.nslot) return false;
  for (int b = 0; b < C.nb; b++) {
    if (s.map[b] && slotOf(s.map[b]) == sl) return false;
    if (blocks(s, s.jmap[b], b, sl) || (s.bph && blocks(s, s.snap[b], b, sl))) return false;
  }
  if (s.ck && s.cs == sl) return false;
  for (int i = 0; i < C.nr; i++) { const Rank &k = s.r[i];
    if (!k.known) continue;
    if (k.slab == sl + 1 && !(V.slabReclaimed && !k.alive)) return false;
    if (k.ip == sl + 1) return false;
    if (k.rl == sl + 1 && k.alive && !V.noReadLease) return false; }
  return true;
}
static void checkAlloc(const State &s, int sl) {
  for (int i = 0; i < C.nr; i++) { const Rank &k = s.r[i];
    if (k.pc == A_IO && k.slab == sl + 1) viol = "I4 flash space given away while a write of its old holder may land";
    if (k.pc == A_COMMIT && k.slab == sl + 1 && k.alive && !k.jdone) viol = "I4 flash space given away while its holder awaits commit";
    if (k.pc == I_IO && k.ip == sl + 1) viol = "I4 flash space given away while an overwrite in place may land";
    if (k.pc == R_FLASH && k.rl == sl + 1 && k.alive) viol = "I4 flash space given away while a reader holds it"; }
  if (s.gk == 2 && s.gt == sl) viol = "I4 flash space given away while a write of the dead agent may land";
}

// ---- agent's view of leases
static bool deadMayWrite(const State &s, int b) { for (int i = 0; i < C.nr; i++) { const Rank &k = s.r[i]; if (!k.alive && (k.slot || (k.known && (k.ws >> b & 1)))) return true; } return false; }
static bool liveDirect(const State &s, int b, int except) { for (int i = 0; i < C.nr; i++) if (i != except && s.r[i].alive && s.r[i].known && (s.r[i].ws >> b & 1)) return true; return false; }
static bool slowReader(const State &s, int b) { for (int i = 0; i < C.nr; i++) { const Rank &k = s.r[i]; if (k.alive && k.known && k.rs && k.mask == 1 << b) return true; } return false; }
static bool anyDirect(const State &s, int b) { for (int i = 0; i < C.nr; i++) if (s.r[i].known && (s.r[i].ws >> b & 1)) return true; return false; }
static bool slotsClear(const State &s, int except, bool dead) { for (int i = 0; i < C.nr; i++) if (i != except && s.r[i].slot && (s.r[i].alive || dead)) return false; return true; }

static void slowWrite(State &s, int b, u8 v) { s.slow[b] = v; if (C.fs || C.keepClean) s.slowp[b] |= 1 << v; }
static void flashWrite(State &s, int sl, u8 v) { s.fl[sl] = v; if (C.fs || C.keepClean) s.flp[sl] |= 1 << v; }

static bool startWrite(State &s, Rank &k, int mask) {
  for (int b = 0; b < C.nb; b++) if ((mask >> b & 1) && s.next[b] > C.maxw) return false;
  for (int b = 0; b < C.nb; b++) if (mask >> b & 1) { k.val[b] = s.next[b]; s.prev[b][k.val[b]] = s.done[b]; s.next[b]++; }
  k.mask = mask; return true;
}

static void rankSteps(const State &s, int i) {
  const Rank &k = s.r[i]; State n; Rank &m = n.r[i];
  int b = k.mask == 2 ? 1 : 0;
  if (k.sbn) { n = s; m.slot = m.sb[0]; m.sb[0] = m.sb[1]; m.sb[1] = 0; m.sbn--; emit(n, LRDRAIN, i); }
  if (!k.alive) {                                       // what a dead rank has in flight
    if (k.pc == D_IO || k.pc == D_LIO) { n = s; for (int c = 0; c < C.nb; c++) if (k.mask >> c & 1) slowWrite(n, c, c * 4 + k.val[c]); m.pc = GONE; emit(n, LGRS, i); }
    if (k.pc == A_IO) { n = s; flashWrite(n, k.slab - 1, b * 4 + k.val[b]); m.pc = GONE; emit(n, LGRF, i); }
    if (k.pc == I_IO) { n = s; flashWrite(n, k.ip - 1, b * 4 + k.val[b]); m.pc = GONE; emit(n, LGRF, i); }
  } else {
    if (!k.frozen) switch (k.pc) {
    case IDLE:
      if (!s.pool || k.sbn > 1) break;
      for (int mask = 1; mask < (1 << C.nb); mask++) {
        if (mask == 3 && !C.wide) continue;
        if (C.wd) { n = s; n.pool--; if (startWrite(n, m, mask)) { m.pc = D_SLOT; emit(n, LBD, i * 4 + mask); } }
        if (mask == 3) continue;
        if (C.wa) { n = s; n.pool--; if (startWrite(n, m, mask)) { m.pc = V.inplace ? I_ASK : A_SLAB; if (V.slotKept) storeSlot(m, 1); emit(n, LBA, i * 4 + mask); } }
        if (C.rd) { n = s; n.pool--; m.mask = mask; m.rdead = s.dead[mask - 1]; m.rdone = s.done[mask - 1]; m.pc = V.readNoSlot ? R_CHECK : R_SLOT; emit(n, LBR, i * 4 + mask); }
      }
      if (C.fs) { n = s; n.pool--; for (int c = 0; c < C.nb; c++) m.sdead[c] = s.dead[c]; m.pc = F_CHECK; emit(n, LBF, i); }
      break;
    case D_SLOT: if (k.sbn > 1) break; n = s; if (!(V.slotKept && k.slot)) storeSlot(m, 1); m.pc = D_CHECK; emit(n, LPUB, i); break;
    case D_CHECK:
      if (!V.noFenceRank && k.sbn) break;               // the fence
      if (k.sbn > 1) break;
      n = s;
      if (!s.bit) { m.pc = D_IO; emit(n, LCLR, i); }
      else { if (!V.slotKept) storeSlot(m, 0); m.pc = D_ASK; emit(n, LSETB, i); }
      break;
    case D_IO: n = s; for (int c = 0; c < C.nb; c++) if (k.mask >> c & 1) slowWrite(n, c, c * 4 + k.val[c]); m.pc = D_CLEAR; emit(n, LSLOW, i); break;
    case D_CLEAR: if (k.sbn > 1) break; n = s; completeWrite(n, m); storeSlot(m, 0); emit(n, LRET, i); break;
    case D_LIO: n = s; for (int c = 0; c < C.nb; c++) if (k.mask >> c & 1) slowWrite(n, c, c * 4 + k.val[c]); m.pc = D_DROP; emit(n, LDLAND, i); break;
    case A_SLAB: if (!s.alive) { n = s; m.pc = D_SLOT; emit(n, LNOSP, i); } break;
    case A_IO: n = s; flashWrite(n, k.slab - 1, b * 4 + k.val[b]); m.pc = A_COMMIT; emit(n, LFLASH, i); break;
    case R_SLOT: if (k.sbn > 1) break; n = s; if (!(V.slotKept && k.slot)) storeSlot(m, 1); m.pc = R_CHECK; emit(n, LPUB, i); break;
    case R_CHECK:
      if (!V.noFenceRank && !V.readNoSlot && k.sbn) break;
      if (k.sbn > 1) break;
      n = s;
      if (!s.bit) { m.pc = R_SLOW; emit(n, LRCLR, i); }
      else { if (!V.slotKept && !V.readNoSlot) storeSlot(m, 0); m.pc = R_ASK; emit(n, LRSET, i); }
      break;
    case R_SLOW: if (k.sbn > 1) break; n = s; if (k.rs) m.rs = 0; else if (!V.readNoSlot && !V.slotKept) storeSlot(m, 0);
      if (V.slotKept) storeSlot(m, 0);
      returnRead(n, m, s.slow[b]); emit(n, LRSLOW, i * 16 + s.slow[b]); break;
    case R_ASK: if (!s.alive && V.deadAgentSlow) { n = s; m.pc = R_SLOW; emit(n, LDAS, i); } break;
    case R_FLASH: if (V.slotKept && k.sbn > 1) break; n = s; m.rl = 0; if (V.slotKept) storeSlot(m, 0); returnRead(n, m, s.fl[k.rl - 1]); emit(n, LRFLR, i * 16 + s.fl[k.rl - 1]); break;
    case F_CHECK: n = s; m.pc = s.bit ? F_ASK : F_KERNEL; emit(n, s.bit ? LFSET : LFCLR, i); break;
    case F_KERNEL: n = s; for (int c = 0; c < C.nb; c++) { n.slowp[c] = 1 << n.slow[c]; n.pdead[c] |= k.sdead[c]; m.sdead[c] = 0; } m.pc = IDLE; emit(n, LFK, i); break;
    case I_IO: n = s; flashWrite(n, k.ip - 1, b * 4 + k.val[b]); m.pc = I_RELEASE; emit(n, LIL, i); break;
    case I_RELEASE: n = s; m.ip = 0; completeWrite(n, m); emit(n, LIR, i); break;
    default: break;
    }
    if (!k.frozen && s.freezes < C.freezes && k.pc != IDLE) { n = s; n.freezes++; m.frozen = 1; emit(n, LFRZ, i); }
    if (s.rkills < C.rk) {                              // kill -9
      n = s; n.rkills++; m.alive = 0; m.frozen = 0; while (m.sbn) { m.slot = m.sb[0]; m.sb[0] = m.sb[1]; m.sb[1] = 0; m.sbn--; }
      m.rdead = m.rdone = 0; for (int c = 0; c < MAXB; c++) m.sdead[c] = 0;
      if (k.pc == F_WAIT || k.pc == F_ASK || !(k.pc == D_IO || k.pc == D_LIO || k.pc == A_IO || k.pc == I_IO || k.pc == A_COMMIT)) m.pc = GONE;
      emit(n, LKR, i);
    }
  }
  if (!s.alive) return;
  // ---- the agent serves the rank's request
  switch (k.pc) {
  case A_SLAB: {
    bool any = false;
    for (int sl = 0; sl < 2 * C.nslot; sl++) if (canAlloc(s, sl)) { any = true; n = s; checkAlloc(s, sl); m.slab = sl + 1; m.known = 1; m.pc = A_IO; emit(n, LSLAB, i * 16 + sl); }
    if (!any) { n = s; m.pc = D_SLOT; emit(n, LNOSP, i); }
    break; }
  case A_COMMIT: {
    if (k.jdone) { n = s; m.jdone = 0; m.slab = 0; if (V.bitAfterCommit && !agentBit(s)) { if (s.abn < 2) storeBit(n, 1); }
      if (k.alive) { if (V.slotKept) { if (k.sbn > 1) break; storeSlot(m, 0); } completeWrite(n, m); } else m.pc = GONE; emit(n, LCANS, i); break; }
    if (!V.bitAfterCommit && !agentBit(s) && s.abn < 2) { n = s; storeBit(n, 1); emit(n, LCBIT, i); break; }
    if (!V.bitAfterCommit && !agentBit(s)) break;
    if (!V.noFenceAgent && s.abn) break;                // the agent's fence
    bool cheap = !V.commitBeforeSlots && !slotsClear(s, i, V.waitDead), lease = (!V.commitIgnoresDirect && liveDirect(s, b, i)) || slowReader(s, b);
    if (cheap || lease) {                               // waits, and is refused when that takes long: nothing was appended
      if (!(cheap && V.waitSlot) && !(lease && V.waitLease)) { n = s; m.slab = 0; m.pc = k.alive ? D_SLOT : GONE; emit(n, LREF, i); }
      break; }
    n = s; n.map[b] = k.slab | DIRTY; m.jdone = 1; if (s.ck == 1 && s.cb == b) n.cc = 1; emit(n, LCAPP, i);
    break; }
  case D_ASK: {
    if (!k.alive) break;
    bool ok = true;
    for (int c = 0; c < C.nb; c++) if (k.mask >> c & 1) {
      if (!V.directIgnoresWb && s.ck == 2 && s.cb == c) ok = false;
      if (!V.ghostIgnored && s.gk == 1 && s.gt == c) ok = false; }
    if (!ok) break;
    if (C.sooner && !V.keptUnderSlow) {                  // a read of clean bytes from the disks may see what is written
      bool dropped = false; n = s;
      for (int c = 0; c < C.nb; c++) if ((k.mask >> c & 1) && s.map[c] && !(s.map[c] & DIRTY) && slowReader(s, c)) { n.map[c] = 0; dropped = true; }
      if (dropped) { emit(n, LDROP, i); break; } }
    n = s; m.ws = k.mask; m.known = 1; m.pc = D_LIO; if (s.ck == 1 && (k.mask >> s.cb & 1)) n.cc = 1;
    if (V.dropFirst) for (int c = 0; c < C.nb; c++) if (k.mask >> c & 1) n.map[c] = 0;
    emit(n, LGRANT, i);
    break; }
  case D_DROP: {
    if (!k.alive) break;
    bool any = false; n = s;
    if (!V.dropFirst) for (int c = 0; c < C.nb; c++) if ((k.mask >> c & 1) && s.map[c]) { any = true; n.map[c] = 0; }
    if (any) { emit(n, LDROP, i); if (!V.commitIgnoresDirect) break; }
    if (V.slotKept && k.sbn > 1) break;
    if (any) break;
    m.ws = 0; completeWrite(n, m); if (V.slotKept) storeSlot(m, 0); emit(n, LDEND, i);
    break; }
  case R_ASK: if (!k.alive) break;
    if (C.sooner && s.map[b] && (V.slowOfDirty || !(s.map[b] & DIRTY)) && (V.slowInDirect || !liveDirect(s, b, -1)) && (V.slowFromDead || !deadMayWrite(s, b)) && (V.slowInCopy || !(s.ck && s.cb == b))) { n = s; m.rs = 1; m.known = 1; m.pc = R_SLOW; emit(n, LRSOON, i); }
    n = s; if (s.map[b]) { m.rl = (s.map[b] & 0xf); m.known = 1; m.pc = R_FLASH; emit(n, LRFL, i); } else { m.rs = !V.readNoLease; m.known = 1; m.pc = R_SLOW; emit(n, LRDISK, i); } break;
  case I_ASK: if (!k.alive) break; n = s;
    if (s.map[b] && !(s.ck && s.cb == b && !V.ipDuringCopy)) { if (!V.ipClean) n.map[b] |= DIRTY; m.ip = s.map[b] & 0xf; m.known = 1; m.pc = I_IO; emit(n, LIG, i); } else { m.pc = A_SLAB; emit(n, LIG, i); } break;
  default: break;
  }
}

static void agentSteps(const State &s) {
  State n;
  if (s.abn) { n = s; n.bit = n.ab[0]; n.ab[0] = n.ab[1]; n.ab[1] = 0; n.abn--; emit(n, LADRAIN, 0); }
  if (s.gk) { n = s; if (s.gk == 1) slowWrite(n, s.gt, s.gv); else flashWrite(n, s.gt, s.gv); n.gk = n.gt = n.gv = 0; emit(n, s.gk == 1 ? LGAS : LGAF, 0); }
  if (V.noBarrier && memcmp(s.map, s.jmap, MAXB)) { n = s; memcpy(n.jmap, s.map, MAXB); emit(n, LJF, 0); }
  if (!s.alive) {
    n = s; n.alive = 1; n.epoch++;
    for (int i = 0; i < C.nr; i++) { Rank &k = n.r[i]; if (V.noAdopt) k.known = 0; if (V.quarantineEnds && !k.alive) { k.slot = 0; k.ws = 0; } }
    emit(n, LREST, 0); return;
  }
  if (s.akills < C.ak) {
    n = s; n.akills++; n.alive = 0; while (n.abn) { n.bit = n.ab[0]; n.ab[0] = n.ab[1]; n.ab[1] = 0; n.abn--; }
    if (s.ck && s.cph == 2) { n.gk = s.ck == 1 ? 2 : 1; n.gt = s.ck == 1 ? s.cs : s.cb; n.gv = s.cval; }
    n.ck = n.cb = n.cs = n.cph = n.cval = n.cc = 0; n.bph = 0; memset(n.snap, 0, MAXB);
    for (int i = 0; i < C.nr; i++) { if (n.r[i].pc == F_WAIT) n.r[i].pc = F_ASK; if (V.commitTwice) n.r[i].jdone = 0; }
    if (V.recInMemory) memcpy(n.map, n.jmap, MAXB);
    emit(n, LKA, 0);
  }
  if (!V.noLift) for (int i = 0; i < C.nr; i++) if (s.r[i].pc == GONE && (s.r[i].slot || s.r[i].ws)) {
    n = s;
    if (C.sooner) for (int c = 0; c < C.nb; c++) if (s.r[i].mask >> c & 1) {
      if (!V.liftKeepsClean && s.map[c] && !(s.map[c] & DIRTY)) n.map[c] = 0;
      if (!V.liftCounts && s.ck == 2 && s.cb == c) n.cc = 1; }
    n.r[i].slot = 0; n.r[i].ws = 0; emit(n, LLIFT, i); }
  // fetch
  if (C.fetch && !s.ck) for (int b = 0; b < C.nb; b++) if (!s.map[b]) {
    if (!agentBit(s)) { if (s.abn < 2 && b == 0) { n = s; storeBit(n, 1); emit(n, LFBIT, 0); } continue; }
    if (!V.noFenceAgent && s.abn) continue;
    if (!slotsClear(s, -1, !V.fetchIgnoresDead)) continue;
    if (!V.fetchIgnoresDirect && (V.fetchIgnoresDead ? liveDirect(s, b, -1) : anyDirect(s, b))) continue;
    if (!V.ghostIgnored && s.gk == 1 && s.gt == b) continue;
    for (int sl = 0; sl < 2 * C.nslot; sl++) if (canAlloc(s, sl)) { n = s; checkAlloc(s, sl); n.ck = 1; n.cb = b; n.cs = sl; n.cph = 1; n.cc = 0; emit(n, LFST, b * 16 + sl); }
  }
  if (s.ck == 1) {
    n = s;
    if (s.cph == 1) { n.cval = s.slow[s.cb]; n.cph = 2; emit(n, LFRD, s.cb); }
    else if (s.cph == 2) { flashWrite(n, s.cs, s.cval); n.cph = 3; emit(n, LFWR, s.cs); }
    else if (s.cc || V.noCancel || !V.waitReader || !slowReader(s, s.cb)) { bool pub = V.noCancel || (!s.cc && !s.map[s.cb] && !slowReader(s, s.cb)); if (pub) n.map[s.cb] = s.cs + 1; n.ck = n.cb = n.cs = n.cph = n.cval = n.cc = 0; emit(n, pub ? LFPUB : LFDIS, 0); }
  }
  // write-back
  if (C.wb && !s.ck) for (int b = 0; b < C.nb; b++) if (s.map[b] & DIRTY) {
    if (!V.wbIgnoresDirect && liveDirect(s, b, -1)) continue;
    if (!V.ghostIgnored && s.gk == 1 && s.gt == b) continue;
    bool ok = true;
    for (int i = 0; i < C.nr; i++) { const Rank &k = s.r[i]; if (k.known && k.ip && k.ip == (s.map[b] & 0xf) && (k.alive || V.ipDeadNever || (k.pc == I_IO && !V.ipDeadIgnored))) ok = false; }
    if (!ok) continue;
    n = s; n.ck = 2; n.cb = b; n.cs = slotOf(s.map[b]); n.cval = s.fl[n.cs]; n.cph = 2; emit(n, LWST, b);
  }
  if (s.ck == 2) {
    n = s;
    if (s.cph == 2) { slowWrite(n, s.cb, s.cval); n.cph = 3; emit(n, LWLAND, s.cb); }
    else { bool same = s.map[s.cb] == (u8)((s.cs + 1) | DIRTY) && !s.cc; bool c = same || (V.cleanDespite && s.map[s.cb]); if (c) n.map[s.cb] &= ~DIRTY; n.ck = n.cb = n.cs = n.cph = n.cval = n.cc = 0; emit(n, c ? LWCLEAN : LWNOT, 0); }
  }
  // evict
  if (C.evict) for (int b = 0; b < C.nb; b++) if (s.map[b] && !(s.map[b] & DIRTY)) { n = s; n.map[b] = 0; emit(n, LEVICT, b); }
  // clear the bit
  if (C.clear && agentBit(s) && s.abn < 2 && !s.ck && !(s.gk == 1 && !V.ghostIgnored)) {
    bool ok = true;
    for (int b = 0; b < C.nb; b++) { u8 j = s.jmap[b], p = s.bph ? s.snap[b] : 0;
      if (s.map[b]) ok = false;
      if (V.clearEarly) continue;
      if (V.clearOnClean) { if ((j & DIRTY) || (p & DIRTY)) ok = false; } else if (j || p) ok = false; }
    if (ok) { n = s; storeBit(n, 0); emit(n, LCLRBIT, 0); }
  }
  // barrier
  bool waiting = false, covered = false; for (int i = 0; i < C.nr; i++) { if (s.r[i].pc == F_ASK && s.r[i].alive) waiting = true; if (s.r[i].pc == F_WAIT) covered = true; }
  if (!s.bph) { if (memcmp(s.map, s.jmap, MAXB) || waiting) { n = s; n.bph = 1; memcpy(n.snap, s.map, MAXB); for (int i = 0; i < C.nr; i++) if (n.r[i].pc == F_ASK && n.r[i].alive) { n.r[i].pc = F_WAIT; n.asked = C.ask; } emit(n, LB1, 0); } }
  else if (s.bph == 1) { n = s; n.bph = 2; if (C.fs || C.keepClean) for (int sl = 0; sl < MAXS; sl++) n.flp[sl] = 1 << n.fl[sl]; emit(n, LB2, 0); }
  else if (s.bph == 2) { n = s; n.bph = 3;
    bool cleaned = false; for (int b = 0; b < C.nb; b++) if ((s.jmap[b] & DIRTY) && s.snap[b] == (s.jmap[b] & 0xf)) cleaned = true;
    bool sync = C.ask ? covered || (s.asked && !V.askedUnsynced) : !V.dropUnsynced || cleaned || covered;
    if (C.fs && sync) for (int b = 0; b < C.nb; b++) n.slowp[b] = 1 << n.slow[b];
    emit(n, LB3, 0); }
  else { n = s; n.bph = 0; memcpy(n.jmap, s.snap, MAXB); memset(n.snap, 0, MAXB);
    for (int i = 0; i < C.nr; i++) if (n.r[i].pc == F_WAIT) { Rank &k = n.r[i]; for (int c = 0; c < C.nb; c++) { n.pdead[c] |= k.sdead[c]; k.sdead[c] = 0; } k.pc = IDLE; }
    emit(n, LB4, 0); }
}

static void canon(State &s, bool sym) {
  for (int i = 0; i < C.nr; i++) { Rank &k = s.r[i]; if (k.pc == GONE) { if (!C.sooner || (!k.slot && !k.ws)) k.mask = 0; memset(k.val, 0, sizeof k.val); k.jdone = 0; } if (!k.slab && !k.rl && !k.rs && !k.ip && !k.ws) k.known = 0; }
  if (sym) std::sort(s.r, s.r + C.nr, [](const Rank &a, const Rank &b) { return memcmp(&a, &b, sizeof(Rank)) < 0; });
}
static u64 hashOf(const State &s) { const u8 *p = (const u8 *)&s; u64 h = 0x9e3779b97f4a7c15ull; size_t n = sizeof(State), i = 0;
  for (; i + 8 <= n; i += 8) { u64 w; memcpy(&w, p + i, 8); h = (h ^ w) * 0xff51afd7ed558ccdull; h ^= h >> 32; }
  for (; i < n; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  h ^= h >> 29; return h * 0xc4ceb9fe1a85ec53ull; }

struct Result { u64 states = 0; std::string why; std::vector<Label> trace; double secs = 0; bool full = true; };

static Result explore(bool sym, bool progress, u64 limit) {
  auto t0 = std::chrono::steady_clock::now();
  Result res; std::vector<State> st; std::vector<u32> par; std::vector<Label> lab; std::vector<u32> table(1 << 16, 0); u64 maskv = table.size() - 1;
  std::vector<u32> edges; std::vector<u64> off;
  auto find = [&](const State &s, bool &fresh) -> u32 {
    if (st.size() * 2 > table.size()) { std::vector<u32> t2(table.size() * 4, 0); u64 m2 = t2.size() - 1; for (u32 i = 0; i < st.size(); i++) { u64 h = hashOf(st[i]) & m2; while (t2[h]) h = (h + 1) & m2; t2[h] = i + 1; } table.swap(t2); maskv = m2; }
    u64 h = hashOf(s) & maskv;
    while (table[h]) { if (!memcmp(&st[table[h] - 1], &s, sizeof s)) { fresh = false; return table[h] - 1; } h = (h + 1) & maskv; }
    st.push_back(s); table[h] = st.size(); fresh = true; return st.size() - 1; };
  auto path = [&](u32 i) { std::vector<Label> t; while (i) { t.push_back(lab[i]); i = par[i]; } std::reverse(t.begin(), t.end()); return t; };
  State s0; memset(&s0, 0, sizeof s0); s0.alive = 1;
  for (int i = 0; i < C.nr; i++) { s0.r[i].alive = 1; }
  s0.pool = C.ops;
  for (int b = 0; b < C.nb; b++) { s0.slow[b] = b * 4; s0.slowp[b] = 1 << (b * 4); s0.done[b] = 1; s0.next[b] = 1; }
  for (int i = 0; i < MAXS; i++) { s0.fl[i] = GARBAGE; s0.flp[i] = 1 << GARBAGE; }
  canon(s0, sym); bool fr; find(s0, fr); par.push_back(0); lab.push_back({0, 0});
  std::vector<u8> goal;
  for (u32 i = 0; i < st.size(); i++) {
    State s = st[i];
    if (const char *p = C.fs || C.keepClean ? powerFail(s) : nullptr) { res.why = p; res.trace = path(i); break; }
    out.clear(); viol = nullptr; violAt = -1; bool stop = false;
    if (progress) off.push_back(edges.size());
    auto run = [&](auto f) { f(); if (viol && !stop) { res.why = viol; res.trace = path(i); res.trace.push_back(out[violAt].second); stop = true; } };
    for (int r = 0; r < C.nr && !stop; r++) run([&] { rankSteps(s, r); });
    if (!stop) run([&] { agentSteps(s); });
    if (stop) break;
    if (progress) { bool g = true; for (int r = 0; r < C.nr; r++) if (s.r[r].alive && !s.r[r].frozen && s.r[r].pc != IDLE) g = false;
      for (int b = 0; b < C.nb; b++) { bool held = false; for (int r = 0; r < C.nr; r++) if (s.r[r].frozen && (s.r[r].ws >> b & 1)) held = true; if ((s.map[b] & DIRTY) && !held) g = g && !C.wb; }
      goal.push_back(g); }
    for (auto &o : out) { canon(o.first, sym); bool fresh; u32 j = find(o.first, fresh); if (fresh) { par.push_back(i); lab.push_back(o.second); } if (progress) edges.push_back(j); }
    if (st.size() > limit) { res.full = false; break; }
  }
  res.states = st.size();
  if (res.why.empty() && progress && res.full) {        // I5: from every state, all live ranks can finish and all dirty bytes can drain
    off.push_back(edges.size()); u32 N = st.size(); std::vector<u32> cnt(N + 1, 0), rev(edges.size());
    for (u32 e : edges) cnt[e + 1]++;
    std::vector<u64> ro(N + 1, 0); for (u32 i = 0; i < N; i++) ro[i + 1] = ro[i] + cnt[i + 1];
    std::vector<u64> pos(ro.begin(), ro.end() - 1);
    for (u32 i = 0; i < N; i++) for (u64 e = off[i]; e < off[i + 1]; e++) rev[pos[edges[e]]++] = i;
    std::vector<u8> ok(goal); std::vector<u32> q; for (u32 i = 0; i < N; i++) if (ok[i]) q.push_back(i);
    while (!q.empty()) { u32 i = q.back(); q.pop_back(); for (u64 e = ro[i]; e < ro[i + 1]; e++) if (!ok[rev[e]]) { ok[rev[e]] = 1; q.push_back(rev[e]); } }
    for (u32 i = 0; i < N; i++) if (!ok[i]) { res.why = st[i].freezes ? "I6 a rank is blocked for ever by a frozen one, or dirty bytes can never drain" : "I5 a rank is blocked for ever, or dirty bytes can never drain"; res.trace = path(i); break; }
  }
  res.secs = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
  return res;
}

static void printTrace(const Result &r) { int k = 0; for (auto &l : r.trace) {
  int a = l.arg; std::string who;
  switch (l.act) { case LBD: case LBA: case LBR: who = "rank " + std::to_string(a >> 2) + " block(s) mask " + std::to_string(a & 3); break;
    case LRSLOW: case LRFLR: who = "rank " + std::to_string(a >> 4) + " value " + std::to_string(a & 15); break;
    case LSLAB: who = "rank " + std::to_string(a >> 4) + " slot " + std::to_string(a & 15); break;
    case LFST: who = "block " + std::to_string(a >> 4) + " slot " + std::to_string(a & 15); break;
    case LADRAIN: case LKA: case LREST: case LB1: case LB2: case LB3: case LB4: case LJF: case LCLRBIT: case LFBIT: case LGAS: case LGAF: case LFPUB: case LFDIS: case LWCLEAN: case LWNOT: break;
    case LFRD: case LWST: case LWLAND: case LEVICT: who = "block " + std::to_string(a); break; case LFWR: who = "slot " + std::to_string(a); break;
    default: who = "rank " + std::to_string(a); }
  printf("  %2d. %s %s\n", ++k, ACT[l.act], who.c_str()); }
  printf("  => %s\n", r.why.c_str()); }

//   name         what                                                    nr nb ns op mw  wd wa rd fs wide fetch wb ev clr tso rk ak
static Config configs[] = {
  {"handshake",  "2 ranks, 4 operations, 1 block, 1 slot, store buffers",       2, 1, 1, 4, 2,  1, 1, 1, 0, 0,  1, 1, 1, 1, 1, 0, 0},
  {"plain1",     "2 ranks, 5 operations, 1 block, 2 slots",                     2, 1, 2, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0},
  {"plain2",     "2 ranks, 4 operations, 2 blocks, 1 slot, wide writes",        2, 2, 1, 4, 2,  1, 1, 1, 0, 1,  1, 1, 1, 1, 0, 0, 0},
  {"three",      "3 ranks, 5 operations, 1 block, 1 slot",                      3, 1, 1, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0},
  {"power1",     "2 ranks, 4 operations, fsync, 1 block, 2 slots",              2, 1, 2, 4, 2,  1, 1, 1, 1, 0,  1, 1, 1, 1, 0, 0, 0},
  {"power2",     "2 ranks, 4 operations, fsync, 2 blocks, 1 slot",              2, 2, 1, 4, 2,  1, 1, 0, 1, 0,  0, 1, 1, 1, 0, 0, 0},
  {"power3",     "2 ranks, 5 operations, fsync, 2 blocks, 2 slots, absorbed writes only", 2, 2, 2, 5, 3,  0, 1, 0, 1, 0,  0, 0, 0, 0, 0, 0, 0},
  {"power4",     "2 ranks, 4 operations, fsync, 1 block, 1 slot, no write-back", 2, 1, 1, 4, 3,  1, 1, 1, 1, 0,  0, 0, 0, 1, 0, 0, 0},
  {"readonly",   "2 ranks, 4 reads, 2 blocks, 1 slot, file not open for writing", 2, 2, 1, 4, 1,  0, 0, 1, 0, 0,  1, 0, 1, 1, 0, 0, 0, true},
  {"rankkill",   "2 ranks, 5 operations, 1 block, 1 slot, a rank killed",       2, 1, 1, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 1, 0},
  {"rankkill3",  "3 ranks, 5 operations, 1 block, 1 slot, a rank killed",       3, 1, 1, 5, 2,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 1, 0},
  {"agentkill",  "2 ranks, 5 operations, 1 block, 1 slot, agent killed",        2, 1, 1, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 1},
  {"agentkill2", "2 ranks, 4 operations, 2 blocks, 1 slot, agent killed",       2, 2, 1, 4, 2,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 1},
  {"both",       "2 ranks, 4 operations, 1 block, 1 slot, rank and agent killed", 2, 1, 1, 4, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 1, 1},
  {"all",        "2 ranks, 4 operations, fsync, 1 block, 1 slot, rank and agent killed", 2, 1, 1, 4, 2,  1, 1, 1, 1, 0,  1, 1, 1, 1, 0, 1, 1},
  {"sooner",     "3 ranks, 4 operations, 1 block, 1 slot, clean bytes read from the disks", 3, 1, 1, 4, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0, false, true},
  {"soonerkill", "the same with 2 ranks, 5 operations, a rank killed",          2, 1, 1, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 1, 0, false, true},
  {"soonerboth", "the same with 2 ranks, 4 operations, rank and agent killed",  2, 1, 1, 4, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 1, 1, false, true},
  {"asked1",     "2 ranks, 4 operations, fsync, 1 block, 1 slot, files synced once asked for", 2, 1, 1, 4, 3,  1, 1, 1, 1, 0,  1, 1, 1, 1, 0, 0, 0, false, false, true},
  {"freeze",     "2 ranks, 5 operations, 1 block, 1 slot, a rank frozen in any state",       2, 1, 1, 5, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0, false, false, false, 1},
  {"freeze3",    "3 ranks, 4 operations, 1 block, 1 slot, a rank frozen",       3, 1, 1, 4, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0, false, false, false, 1},
  {"freezew",    "2 ranks, 4 operations, 2 blocks, 1 slot, wide, a rank frozen", 2, 2, 1, 4, 2,  1, 1, 1, 0, 1,  1, 1, 1, 1, 0, 0, 0, false, false, false, 1},
  {"freezes",    "2 ranks, 4 operations, 1 block, 1 slot, store buffers, a rank frozen", 2, 1, 1, 4, 2,  1, 1, 1, 0, 0,  1, 1, 1, 1, 1, 0, 0, false, false, false, 1},
  {"freezesoon", "2 ranks, 4 operations, 1 block, 1 slot, clean bytes read from the disks, a rank frozen", 2, 1, 1, 4, 3,  1, 1, 1, 0, 0,  1, 1, 1, 1, 0, 0, 0, false, true, false, 1},
  {"asked2",     "the same with 2 blocks, no reads or fetches",                 2, 2, 1, 4, 2,  1, 1, 0, 1, 0,  0, 1, 1, 1, 0, 0, 0, false, false, true},
};
static Variant variants[] = {
  {"spec", "the specification", "*", [](Variant &) {}},
  {"no-fence-rank", "library reads the bit before its slot is visible", "handshake", [](Variant &v) { v.noFenceRank = 1; }},
  {"no-fence-agent", "agent scans the slots before its bit is visible", "handshake", [](Variant &v) { v.noFenceAgent = 1; }},
  {"no-wait", "agent commits without waiting for slots", "handshake", [](Variant &v) { v.commitBeforeSlots = 1; }},
  {"bit-after-commit", "agent sets the bit after the commit", "three", [](Variant &v) { v.bitAfterCommit = 1; }},
  {"slot-kept", "library keeps its slot while it asks the agent", "plain1", [](Variant &v) { v.slotKept = 1; }},
  {"read-no-slot", "cheap reads publish no slot", "three", [](Variant &v) { v.readNoSlot = 1; }},
  {"read-no-lease", "a read sent to disk by the agent holds no lease", "three", [](Variant &v) { v.readNoLease = 1; }},
  {"wait-dead", "agent waits for the slot of a dead rank until its own restart", "rankkill", [](Variant &v) { v.waitDead = v.noLift = v.waitSlot = 1; }},
  {"never-lifted", "quarantine is never lifted", "rankkill both", [](Variant &v) { v.noLift = 1; }},
  {"append-only", "commit appended at once, no barrier: the kernel may write it first", "power2", [](Variant &v) { v.noBarrier = 1; }},
  {"record-in-memory", "commit kept in the agent's memory until its data is synced", "agentkill", [](Variant &v) { v.recInMemory = 1; }},
  {"reuse-superseded", "space of an overwritten extent reused at once", "power3", [](Variant &v) { v.reuseSuperseded = 1; }},
  {"reuse-clean", "space reused once the clean (not the removal) record is durable", "readonly", [](Variant &v) { v.reuseClean = 1; }},
  {"reuse-early", "space reused before any record is durable", "power2", [](Variant &v) { v.reuseEarly = 1; }},
  {"clear-on-clean", "bit cleared once the clean (not the removal) record is durable", "readonly power2", [](Variant &v) { v.clearOnClean = 1; }},
  {"clear-early", "bit cleared before any record is durable", "power2", [](Variant &v) { v.clearEarly = 1; }},
  {"drop-unsynced", "drop of a direct write durable before the slow file is synced", "power4", [](Variant &v) { v.dropUnsynced = 1; }},
  {"drop-first", "drop committed before the direct write lands", "three", [](Variant &v) { v.dropFirst = 1; }},
  {"direct-in-writeback", "direct write does not wait for a write-back under way", "three", [](Variant &v) { v.directIgnoresWb = 1; }},
  {"writeback-in-direct", "write-back does not wait for a direct write under way", "three", [](Variant &v) { v.wbIgnoresDirect = 1; }},
  {"commit-in-direct", "commit does not wait for a direct write under way", "three", [](Variant &v) { v.commitIgnoresDirect = 1; }},
  {"fetch-in-direct", "fetch starts under a direct write", "three", [](Variant &v) { v.fetchIgnoresDirect = 1; }},
  {"fetch-not-cancelled", "fetch published although a write began", "three", [](Variant &v) { v.noCancel = 1; }},
  {"clean-despite", "marked clean although the extent changed", "plain1", [](Variant &v) { v.cleanDespite = 1; }},
  {"no-read-lease", "space reused under a reader", "plain2", [](Variant &v) { v.noReadLease = 1; }},
  {"commit-twice", "restarted agent applies a repeated commit again", "agentkill", [](Variant &v) { v.commitTwice = 1; }},
  {"late-writeback", "restarted agent ignores a write-back of the dead one", "agentkill", [](Variant &v) { v.ghostIgnored = 1; }},
  {"fetch-dead", "fetch although a dead rank's write may land", "rankkill", [](Variant &v) { v.fetchIgnoresDead = 1; }},
  {"quarantine-ends", "quarantine of a granule ends at agent restart", "both", [](Variant &v) { v.quarantineEnds = 1; }},
  {"slab-reclaimed", "slab of a dead rank reused", "rankkill", [](Variant &v) { v.slabReclaimed = 1; }},
  {"no-adoption", "restarted agent does not adopt leases", "agentkill", [](Variant &v) { v.noAdopt = 1; }},
  {"old-files", "restarted agent allocates in the old data files", "agentkill", [](Variant &v) { v.oldFiles = 1; }},
  {"slow-while-down", "bit set and agent down: read the slow file", "agentkill", [](Variant &v) { v.deadAgentSlow = 1; }},
  {"keep-clean", "clean extents kept after a power failure while the file was open", "power2", [](Variant &v) { v.keepCleanPower = 1; }},
  {"slow-of-dirty", "dirty bytes read from the disks", "sooner", [](Variant &v) { v.slowOfDirty = 1; }},
  {"slow-in-direct", "clean bytes read from the disks under a direct write", "sooner", [](Variant &v) { v.slowInDirect = 1; }},
  {"slow-from-dead", "clean bytes read from the disks where a dead rank's write may land", "soonerkill", [](Variant &v) { v.slowFromDead = 1; }},
  {"slow-in-copy", "clean bytes read from the disks while a copy is under way there", "sooner soonerkill soonerboth", [](Variant &v) { v.slowInCopy = 1; }},
  {"kept-under-slow", "direct write granted over clean bytes that are being read from the disks", "sooner", [](Variant &v) { v.keptUnderSlow = 1; }},
  {"lift-keeps-clean", "clean extents kept when a quarantine is lifted", "soonerkill", [](Variant &v) { v.liftKeepsClean = 1; }},
  {"lift-counts", "write-back under way counts although a quarantine there was lifted", "soonerkill", [](Variant &v) { v.liftCounts = 1; }},
  {"asked-unsynced", "barriers that free space sync no slow file, asked for or not", "asked1 asked2", [](Variant &v) { v.askedUnsynced = 1; }},
  {"wait-slot", "a commit waits for ever for a cheap request", "freeze", [](Variant &v) { v.waitSlot = 1; }},
  {"wait-lease", "a commit waits for ever for a direct write or a read under a lease", "freeze", [](Variant &v) { v.waitLease = 1; }},
  {"wait-reader", "a fetch waits for ever for a reader of the disks", "freeze", [](Variant &v) { v.waitReader = 1; }},
  {"in-place", "overwrite in place, not while copied; a dead holder's extent is copied only once its write has landed", "three rankkill power2 both", [](Variant &v) { v.inplace = 1; }},
  {"in-place-never", "the same, but a dead holder's extent is never copied", "rankkill", [](Variant &v) { v.inplace = 1; v.ipDeadNever = 1; }},
  {"in-place-dead", "the same, but a dead holder's extent is copied", "rankkill", [](Variant &v) { v.inplace = 1; v.ipDeadIgnored = 1; }},
  {"in-place-clean", "overwrite in place of a clean extent that the journal still calls clean", "three", [](Variant &v) { v.inplace = 1; v.ipClean = 1; }},
  {"in-place-copied", "overwrite in place while the extent is copied", "three", [](Variant &v) { v.inplace = 1; v.ipDuringCopy = 1; }},
};
static Config *cfg(const std::string &n) { for (auto &c : configs) if (n == c.name) return &c; fprintf(stderr, "no configuration %s\n", n.c_str()); exit(2); }
static Variant *var(const std::string &n) { for (auto &v : variants) if (n == v.name) return &v; fprintf(stderr, "no variant %s\n", n.c_str()); exit(2); }

// Configurations that take minutes or gigabytes, variants that hold as well, and variants of which only a whole search of a large row tells.
static const char *LARGE[] = {"plain1", "three", "power1", "power3", "rankkill3", "agentkill", "agentkill2", "both", "all", "soonerboth", "freeze3", "freezew"};
static const char *HOLD[] = {"clear-on-clean", "never-lifted", "in-place", "slow-in-copy", "wait-reader", "slot-kept"};
static const char *DEEP[] = {"in-place-never"};
template <size_t N> static bool among(const char *(&names)[N], const char *name) { for (auto *n : names) if (!strcmp(n, name)) return true; return false; }
static int check(bool all, u64 limit) {
  const u64 quick = 1500000;                            // every refutation but the deep ones comes sooner
  int right = 0, wrong = 0;
  for (auto &v0 : variants) {
    bool spec = !strcmp(v0.in, "*"), hold = among(HOLD, v0.name), refuted = false, whole = true;
    if (!all && (hold || among(DEEP, v0.name))) continue;
    for (auto &c0 : configs) {
      if (!spec && (std::string(" ") + v0.in + " ").find(std::string(" ") + c0.name + " ") == std::string::npos) continue;
      if (spec && !all && among(LARGE, c0.name)) continue;
      C = c0; V = v0; V.set(V); Result r = explore(true, true, all || spec ? limit : quick);
      refuted |= !r.why.empty(); whole &= r.full;
      printf("%-20s %-11s %10llu states %6.1f s  %s\n", V.name, C.name, (unsigned long long)r.states, r.secs, r.why.empty() ? (r.full ? "holds" : "no counterexample so far") : r.why.c_str()); fflush(stdout);
      if (spec) { bool ok = r.why.empty() && r.full; (ok ? right : wrong)++; if (!ok) printf("WRONG: the specification does not hold in %s, or was not searched to the end\n", C.name); }
      else if (refuted) break;
    }
    if (spec) continue;
    bool ok = hold ? !refuted && whole : refuted;
    (ok ? right : wrong)++;
    if (!ok) printf("WRONG: %s %s\n", v0.name, hold ? "is known to hold, and does not" : "leaves a rule out, and nothing fails: the rule is not there");
  }
  printf("protocol client: %d passed, %d failed\n", right, wrong);
  return wrong > 0;
}

int main(int argc, char **argv) {
  std::string cmd = argc > 1 ? argv[1] : "list"; u64 limit = getenv("LIMIT") ? strtoull(getenv("LIMIT"), 0, 10) : 60000000;
  if (cmd == "list") { for (auto &c : configs) printf("config  %-22s %s\n", c.name, c.what); for (auto &v : variants) printf("variant %-22s %s\n", v.name, v.what); return 0; }
  if (cmd == "trace" && argc == 4) {
    C = *cfg(argv[2]); V = *var(argv[3]); V.set(V); Result r = explore(false, true, limit);
    printf("%s / %s: %llu states, %s\n", C.name, V.name, (unsigned long long)r.states, r.why.empty() ? (r.full ? "holds" : "limit reached") : "counterexample"); if (!r.why.empty()) printTrace(r); return !r.why.empty();
  }
  if (cmd == "check") return check(argc > 2, limit);
  if (cmd == "table") {                                 // table [VARIANT [CONFIG]]
    std::string sub = argc > 2 ? argv[2] : "", csub = argc > 3 ? argv[3] : ""; int bad = 0;
    for (auto &v0 : variants) for (auto &c0 : configs) {
      std::string in = std::string(" ") + v0.in + " ";
      if (!sub.empty() && sub != v0.name) continue;
      if (csub.empty() ? in != " * " && in.find(std::string(" ") + c0.name + " ") == std::string::npos : csub != c0.name) continue;
      C = c0; V = v0; V.set(V); Result r = explore(true, true, limit);
      printf("%-20s %-11s %10llu states %6.1f s  %s%s\n", V.name, C.name, (unsigned long long)r.states, r.secs, r.why.empty() ? (r.full ? "holds" : "LIMIT reached, no counterexample") : r.why.c_str(), r.why.empty() ? "" : (" (" + std::to_string(r.trace.size()) + " steps)").c_str()); fflush(stdout);
      if (in == " * " && !r.why.empty()) bad = 1;
    }
    return bad;
  }
  return 2;
}
