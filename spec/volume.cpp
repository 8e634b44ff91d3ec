// Exhaustive check of the volume protocol (volume.md). Run:  make check-protocols, or g++ -O2 -std=c++17 -o volume volume.cpp && ./volume check
//
// Explicit-state breadth-first search, so a counterexample is a shortest one. `volume table [SUBSTRING]` runs all rows (SECONDS_EACH=N bounds
// each), `volume trace CONFIG VARIANT` prints the counterexample of one. `volume check` judges: the protocol holds in every row that is
// searched to its end in seconds, and each variant is refuted; `volume check all` in every row, to a limit of time where they are large.
//
// Blocks 0..NB-1 of a disk, a ring of NL log slots on flash, two checkpoint areas, one head slot, DRAM. A value is the number of the
// user write that made it (0: what the disk held at first), so values of one block are ordered and belong to that block alone.
// One user write per block at a time; at most one FLUSH, write-back, lift, load, read and checkpoint at a time; all interleave.
// A crash keeps any subset of the unflushed writes of both devices; a flash write may also be torn (its CRC then fails).
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cstdlib>
#include <string>
#include <set>
#include <vector>
#include <chrono>
#include <algorithm>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
const int MB = 3, ML = 5;
enum { DATA = 1, CLEAN, HEAD, NOHEAD };
enum { W_NONE, W_ABSORB, W_BYPASS, W_PUSH };

struct Cfg { const char* name; int NB, NL, writes, absorb, bypass, dram, flushes, lifts, delifts, loads, reads, crashes, ckpts; bool rot = false; };
struct Var { const char *name, *what;
  bool noTomb=0, tombEarly=0, tombAll=0, reclaimNoDisk=0, noSeq=0, noEpoch=0, headMem=0, headLate=0, cleanSoft=0, ckMemMap=0, ckNoFlush=0, flushHole=0,
    supersededSoft=0, noCkptTail=0, wbUnordered=0, wbUndurable=0, liftNoFlush=0, liftNoCancel=0, loadNoCancel=0, cleanNoSeq=0, dramPushDrops=0,
    flushNoDram=0, readNoPin=0, oneCk=0, deadlock=0, dataKeepsHead=0, skipHole=0, headSlotSoft=0, headNoCrc=0, flushFlashOnly=0, ckInflight=0, liftWrite=0, owedReset=0, headSoft=0, sbOnce=0, startOnce=0; };

struct Ck { u8 num, S, ep, m[MB], hb, hv; };            // num 0: invalid. m: newest dirty record of a block, 0 none. hb: head's block + 1
struct State {
  u32 ldur[ML], lpen[ML]; u8 lst[ML];                   // log slot: durable record, pending record, 0 none 1 in flight 2 completed
  Ck ck[2], cpen; u8 cst, act;                          // checkpoint areas; pending one goes to area 1-act; cst: 0 none 1 snapshot 2 in flight 3 completed
  u8 sb[2];                                             // rows with rot: which checkpoint the superblock in each place names; cst: 4, 5 the new one in flight to place 0, 1; 6, 7 the one in force
  u8 cur[MB]; u16 pers[MB];                             // disk: what a read returns; set of values the medium may hold
  u8 hdb, hdv, hpb, hpv, hst;                           // head slot: durable block+1 and value, pending, state
  u8 mm[MB], dr[MB], drs[MB], mh, mhv, pcu[MB], pcs[MB], nseq, ep; // memory: map; DRAM value and 0 none 1 clean 2 dirty; head; disk newer than records <= pcu: 1 unflushed 2 flushed
  struct { u8 k, ph, v; } w[MB];
  u8 fph, ft[MB], fd[MB];                               // FLUSH: phase, what it must cover, DRAM blocks it must cover
  u8 wph, wb, wv, ws; u8 lph, lb, lv; u8 oph, ob, ov;   // write-back, lift, load
  u8 rph, rb, rs, rv;                                   // read: block, slot, least value it may return
  u8 mode;                                              // 0 running, 1 recovered map in memory, its checkpoint pending
  u8 acked[MB], flo[MB], vb[12], nw, nfl, nli, nde, nlo, nrd, ncr, nck; // monitors and budgets
};
static Cfg C; static Var V;
static u32 mk(int k, int b, int v, int q, int e, int u) { return k | b << 3 | v << 5 | q << 9 | e << 15 | u << 18; }
static int rk(u32 r) { return r & 7; } static int rb_(u32 r) { return r >> 3 & 3; } static int rv_(u32 r) { return r >> 5 & 15; }
static int rq(u32 r) { return r >> 9 & 63; } static int re(u32 r) { return r >> 15 & 7; } static int ru(u32 r) { return r >> 18 & 63; }

struct Map { u8 m[MB], hb, hv, end; };
static void apply(Map& M, u32 r) {
  int b = rb_(r);
  switch (rk(r)) {
    case DATA: M.m[b] = rq(r); if (M.hb == b + 1 && !V.dataKeepsHead) M.hb = 0; break;
    case CLEAN: if (M.m[b] <= ru(r) || V.cleanNoSeq) M.m[b] = 0; break;
    case HEAD: M.hb = b + 1; M.hv = rv_(r); break;
    case NOHEAD: if (M.hb == b + 1) M.hb = 0; break;
  }
}
// view 0: durable only; 1: completed too; 2: in flight too
static u32 look(const State& s, int i, int view) { return (view && s.lst[i] >= (view == 1 ? 2 : 1)) ? s.lpen[i] : s.ldur[i]; }
static Map replay(const State& s, const Ck& c, int view, bool rec) {
  Map M; memset(&M, 0, sizeof M); memcpy(M.m, c.m, MB); M.hb = c.hb; M.hv = c.hv; int q = c.S;
  for (int n = 0; n < C.NL; n++, q++) {
    if (!rec && q >= s.nseq) break;                     // a running server knows where its log ends
    u32 r = look(s, q % C.NL, view);
    bool ok = r != 0;
    if (ok && !(V.noSeq && rec) && rq(r) != q) ok = false;
    if (ok && !(V.noEpoch && rec) && !V.noSeq && re(r) != c.ep) ok = false;
    if (!ok) { if (V.skipHole && rec) { bool more = false; for (int j = 1; n + j < C.NL; j++) { u32 t = look(s, (q + j) % C.NL, view); if (t && rq(t) == q + j && re(t) == c.ep) more = true; } if (more) continue; } break; }
    apply(M, r);
  }
  M.end = q; return M;
}
static Map jrep(const State& s, int view) { return replay(s, s.ck[s.act], view, false); }
static void flashFlush(State& s) {
  for (int i = 0; i < C.NL; i++) if (s.lst[i] == 2) { s.ldur[i] = s.lpen[i]; s.lpen[i] = 0; s.lst[i] = 0; }
  if (s.hst == 2) { s.hdb = s.hpb; s.hdv = s.hpv; s.hpb = s.hpv = 0; s.hst = 0; }
}
static void diskFlush(State& s) {
  for (int b = 0; b < C.NB; b++) {
    u16 p = 1u << s.cur[b];
    if (s.w[b].k == W_BYPASS && s.w[b].ph == 3) p |= 1u << s.w[b].v;
    if (s.wph == 1 && s.wb == b) p |= 1u << s.wv;
    s.pers[b] = p; if (s.pcs[b] == 1) s.pcs[b] = 2;
  }
}
static bool room(const State& s) {
  int q = s.nseq, i = q % C.NL, o = q - C.NL;
  if (q >= 60 || s.lst[i] == 1) return false;
  if (s.rph == 1 && s.rs == i + 1 && !V.readNoPin) return false;
  if (o < 1) return true;
  if (!V.noCkptTail && o >= s.ck[s.act].S) return false;
  int view = (V.cleanSoft || V.supersededSoft) ? 2 : 0;
  Map M = jrep(s, view);
  for (int b = 0; b < C.NB; b++) if (M.m[b] == o) { if (V.noTomb && s.mm[b] != o) continue; return false; }
  if (V.deadlock) { int live = 0; for (int b = 0; b < C.NB; b++) live += M.m[b] != 0; (void)live; }
  return true;
}
static int append(State& s, int k, int b, int v, int u) {
  int q = s.nseq++, i = q % C.NL;
  if (s.lst[i] == 2) s.ldur[i] = s.lpen[i];
  s.lpen[i] = mk(k, b, v, q, s.ep, u); s.lst[i] = 1; return q;
}
static bool inflightLog(const State& s) { for (int i = 0; i < C.NL; i++) if (s.lst[i] == 1) return true; return false; }
static int slotVal(const State& s, int q) { u32 r = look(s, q % C.NL, 2); return rq(r) == q && rk(r) == DATA ? rv_(r) : 15; }
static int readVal(const State& s, int b) {
  if (s.drs[b]) return s.dr[b];
  if (s.mm[b]) return slotVal(s, s.mm[b]);
  if (s.mh == b + 1) return s.mhv;
  return s.cur[b];
}
static void touch(State& s, int b) { if (s.lph && s.lb == b && !V.liftNoCancel) s.lph = 0, s.lb = s.lv = 0, s.hst = s.hst == 1 ? 2 : s.hst; if (s.oph && s.ob == b && !V.loadNoCancel) s.oph = s.ob = s.ov = 0; }
static void complete(State& s, int i) {
  u32 r = s.lpen[i]; s.lst[i] = 2; int b = rb_(r), q = rq(r);
  switch (rk(r)) {
    case DATA: {
      s.mm[b] = q; if (s.mh == b + 1) s.mh = s.mhv = 0; touch(s, b);
      if (s.w[b].k == W_ABSORB) { s.acked[b] = rv_(r); s.dr[b] = s.drs[b] = 0; }
      else if (s.w[b].k == W_PUSH) { if (s.dr[b] == rv_(r) || V.dramPushDrops) s.dr[b] = s.drs[b] = 0; }
      s.w[b] = {0, 0, 0};
    } break;
    case CLEAN: if (s.mm[b] && (s.mm[b] <= ru(r) || V.cleanNoSeq)) s.mm[b] = 0; break;
    case HEAD: { Map M = jrep(s, 2); if (M.hb == b + 1 && s.mm[b] == 0 && !(s.w[b].k == W_BYPASS && s.w[b].ph >= 1)) { s.mh = b + 1; s.mhv = rv_(r); } } break;
  }
}
typedef std::vector<std::pair<State, std::string>> Out;
static std::string bad;
static void fail(const std::string& x) { if (bad.empty()) bad = x; }
#define ADD(t, ...) do { char z_[96]; snprintf(z_, sizeof z_, __VA_ARGS__); out.push_back({t, z_}); } while (0)

// what recovery makes of the media in s (everything pending already resolved)
static bool recover(State& s) {
  int a = -1; for (int i = 0; i < 2; i++) if (!C.rot && s.ck[i].num && (a < 0 || s.ck[i].num > s.ck[a].num)) a = i;
  if (C.rot) { int newest = std::max(s.sb[0], s.sb[1]); for (int i = 0; i < 2; i++) if (newest && s.ck[i].num == newest) a = i; }
  if (a < 0) { fail("no valid checkpoint"); return false; }
  s.act = a; Map M = replay(s, s.ck[a], 0, true);
  if (M.hb && !V.headNoCrc && (s.hdb != M.hb || s.hdv != M.hv)) M.hb = 0;      // CRC in the HEAD record
  for (int b = 0; b < C.NB; b++) s.mm[b] = M.m[b];
  s.mh = M.hb; s.mhv = M.hb ? s.hdv : 0; s.nseq = M.end; s.ep = s.ck[a].ep + (V.noEpoch || V.noSeq ? 0 : 1);
  for (int b = 0; b < C.NB; b++) {
    int v = readVal(s, b);
    if (v == 15) { fail("V2: dirty record of block " + std::to_string(b) + " is gone"); return false; }
    if (v && s.vb[v] != b + 1) { fail("V2: block " + std::to_string(b) + " holds another block's value"); return false; }
    if (v < s.flo[b]) { fail("V2/V3: block " + std::to_string(b) + " holds " + std::to_string(v) + ", flushed or recovered was " + std::to_string(s.flo[b])); return false; }
    s.acked[b] = v; if (!C.rot) s.flo[b] = v;           // with rot a start may find less again until it has served
  }
  Ck n; memset(&n, 0, sizeof n); n.num = s.ck[a].num + 1; n.S = s.nseq; n.ep = s.ep; memcpy(n.m, s.mm, MB); n.hb = s.mh; n.hv = s.mhv;
  s.cpen = n; s.cst = C.rot && !V.startOnce ? (s.sb[0] != s.ck[a].num ? 6 : s.sb[1] != s.ck[a].num ? 7 : 2) : 2; s.mode = 1; return true;
}
static void crash(const State& s0, Out& out) {
  State s = s0; s.ncr++;
  for (int b = 0; b < MB; b++) { s.mm[b] = s.dr[b] = s.drs[b] = s.pcu[b] = s.pcs[b] = s.ft[b] = s.fd[b] = 0; s.w[b] = {0, 0, 0}; }
  s.mh = s.mhv = s.fph = s.wph = s.wb = s.wv = s.ws = s.lph = s.lb = s.lv = s.oph = s.ob = s.ov = s.rph = s.rb = s.rs = s.rv = 0;
  std::vector<State> xs{s}, ys;
  for (int i = 0; i < C.NL; i++) if (s.lst[i]) { ys.clear(); for (auto& x : xs) for (int o = 0; o < 3; o++) { State t = x; if (o == 1) t.ldur[i] = t.lpen[i]; if (o == 2) t.ldur[i] = 0; t.lpen[i] = 0; t.lst[i] = 0; ys.push_back(t); } xs.swap(ys); }
  if (C.rot && s.cst >= 4) { int p = s.cst & 1; u8 num = s.cst >= 6 ? s.ck[s.act].num : s.cpen.num; ys.clear(); for (auto& x : xs) for (int o = 0; o < 3; o++) { State t = x; if (o) t.sb[p] = o == 1 ? num : 0; ys.push_back(t); } xs.swap(ys); }
  if (C.rot) { ys.clear(); for (auto& x : xs) { ys.push_back(x); if (x.sb[0] && x.sb[1]) for (int p = 0; p < 2; p++) { State t = x; t.sb[p] = 0; ys.push_back(t); } } xs.swap(ys); } // of two whole ones any may rot
  if (s.cst == 2 || s.cst == 3) { int a = V.oneCk ? s.act : 1 - s.act; ys.clear(); for (auto& x : xs) for (int o = 0; o < 3; o++) { State t = x; if (o == 1) t.ck[a] = t.cpen; if (o == 2) memset(&t.ck[a], 0, sizeof(Ck)); ys.push_back(t); } xs.swap(ys); }
  if (s.hst) { ys.clear(); for (auto& x : xs) for (int o = 0; o < 3; o++) { State t = x; if (o == 1) t.hdb = t.hpb, t.hdv = t.hpv; if (o == 2) t.hdb = t.hdv = 0; t.hst = t.hpb = t.hpv = 0; ys.push_back(t); } xs.swap(ys); }
  for (int b = 0; b < C.NB; b++) { ys.clear(); for (auto& x : xs) for (int v = 0; v < 12; v++) if (x.pers[b] >> v & 1) { State t = x; t.cur[b] = v; t.pers[b] = 1u << v; ys.push_back(t); } xs.swap(ys); }
  for (auto& t : xs) { memset(&t.cpen, 0, sizeof(Ck)); t.cst = 0; if (!recover(t)) { ADD(t, "CRASH, recovery: wrong"); return; }
    std::string d = "CRASH; disk"; for (int b = 0; b < C.NB; b++) d += " " + std::to_string(t.cur[b]); d += "; recovered"; for (int b = 0; b < C.NB; b++) d += " " + std::to_string(t.acked[b]); out.push_back({t, d}); }
}
static void ckDone(State& s) {
  flashFlush(s); Ck n = s.cpen; int a = V.oneCk ? s.act : 1 - s.act;
  for (int b = 0; b < C.NB; b++) if (s.mm[b] && s.mm[b] < n.S && n.m[b] != s.mm[b] && s.mode == 0) s.mm[b] = 0;
  s.ck[a] = n; s.act = a; memset(&s.cpen, 0, sizeof(Ck)); s.cst = 0;
  for (int b = 0; b < C.NB; b++) { Map M = jrep(s, 2); if (s.pcs[b] && (M.m[b] == 0 || M.m[b] > s.pcu[b])) s.pcs[b] = s.pcu[b] = 0; }
}
// Rows with rot: area, superblock in one place, superblock in the other, each durable before the next is written; then it is in force.
static void ckStep(const State& s, Out& out) {
  State t = s;
  if (s.cst == 6 || s.cst == 7) { int p = s.cst & 1; t.sb[p] = s.ck[s.act].num; t.cst = p == 0 && s.sb[1] != s.ck[s.act].num ? 7 : 2; ADD(t, "recovery: superblock in force durable in place %d too", p); return; }
  if (s.cst == 2) { flashFlush(t); t.ck[1 - s.act] = s.cpen; t.cst = s.sb[0] <= s.sb[1] ? 4 : 5; ADD(t, "checkpoint area durable; superblock to place %d", t.cst & 1); return; }
  int p = s.cst & 1; t.sb[p] = s.cpen.num;
  if (!V.sbOnce && t.sb[1 - p] != s.cpen.num) { t.cst = p ? 4 : 5; ADD(t, "superblock durable in place %d", p); return; }
  if (s.mode == 1) memcpy(t.flo, t.acked, sizeof t.flo);
  ckDone(t); t.mode = 0; ADD(t, "superblock durable in place %d: checkpoint in force", p);
}
// internal steps; returns whether something waits
static bool steps(const State& s, Out& out) {
  bool waits = false;
  if (s.mode == 1 && C.rot) { ckStep(s, out); return true; }
  if (s.mode == 1) { State t = s; t.cst = 3; ckDone(t); t.mode = 0; ADD(t, "recovery: new checkpoint durable, serving"); return true; }
  for (int i = 0; i < C.NL; i++) if (s.lst[i] == 1) { waits = true; State t = s; complete(t, i); u32 r = s.lpen[i]; ADD(t, "log record %d completes (kind %d block %d)", rq(r), rk(r), rb_(r)); }
  bool rm = room(s);
  for (int b = 0; b < C.NB; b++) {
    auto w = s.w[b];
    if (w.k == W_ABSORB && w.ph == 1) { waits = true; if (rm) { State t = s; append(t, DATA, b, w.v, 0); t.w[b].ph = 2; ADD(t, "absorb %d of block %d submitted", w.v, b); } }
    if (w.k == W_BYPASS) {
      waits = true; State t = s; Map M = jrep(s, 2);
      if (w.ph == 1) { // head must be invalid durably before the disk is written
        if (s.wph && s.wb == b && !V.wbUnordered) continue;
        if (M.hb == b + 1 && !V.headMem) { if (V.headLate) { t.w[b].ph = 3; t.pers[b] |= 1u << w.v; t.mh = t.mhv = 0; ADD(t, "bypass %d to disk, NOHEAD later", w.v); }
          else if (rm) { append(t, NOHEAD, b, 0, 0); t.w[b].ph = 2; if (t.mh == b + 1) t.mh = t.mhv = 0; ADD(t, "bypass %d: NOHEAD submitted", w.v); } }
        else {
          bool may = jrep(s, 0).hb == b + 1; for (int i = 0; i < C.NL; i++) if (s.lst[i] && rk(s.lpen[i]) == HEAD && rb_(s.lpen[i]) == b) may = true;
          if (may && !V.headMem && !V.headSoft) { t.w[b].ph = 2; ADD(t, "bypass %d waits for the end of the head to be durable", w.v); }
          else { t.w[b].ph = 3; t.pers[b] |= 1u << w.v; if (t.mh == b + 1) t.mh = t.mhv = 0; ADD(t, "bypass %d to disk submitted", w.v); }
        }
      } else if (w.ph == 2) { if (!inflightLog(s)) { flashFlush(t); t.w[b].ph = 3; t.pers[b] |= 1u << w.v; ADD(t, "NOHEAD durable; bypass %d to disk submitted", w.v); } }
      else if (w.ph == 3) {
        t.cur[b] = w.v; t.acked[b] = w.v; t.mm[b] = 0; t.dr[b] = t.drs[b] = 0; touch(t, b); t.w[b] = {0, 0, 0};
        if (M.m[b] && !V.noTomb && (V.owedReset || !(s.pcs[b] == 2 && s.pcu[b] >= M.m[b]))) { t.pcu[b] = V.tombAll ? 63 : M.m[b]; t.pcs[b] = V.tombEarly ? 2 : 1; }
        ADD(t, "bypass %d of block %d complete", w.v, b);
      }
    }
    if (w.k == W_PUSH && w.ph == 1) { waits = true; if (rm) { State t = s; t.w[b].v = s.dr[b]; append(t, DATA, b, s.dr[b], 0); t.w[b].ph = 2; ADD(t, "DRAM block %d value %d to log", b, s.dr[b]); } }
    if (!w.k && s.drs[b] == 2) { State t = s; t.w[b] = {W_PUSH, 1, 0}; ADD(t, "push of DRAM block %d starts", b); }
    if (s.drs[b] == 1) { State t = s; t.drs[b] = t.dr[b] = 0; ADD(t, "loaded block %d dropped", b); }
    // CLEAN records
    if (s.pcs[b] == 2 && rm) {
      bool have = false; for (int i = 0; i < C.NL; i++) if (s.lst[i] == 1 && rk(s.lpen[i]) == CLEAN && rb_(s.lpen[i]) == b) have = true;
      if (!have) { State t = s; append(t, CLEAN, b, 0, s.pcu[b] & 63); t.pcs[b] = t.pcu[b] = 0; ADD(t, "CLEAN block %d up to %d submitted", b, s.pcu[b]); } }
  }
  // write-back
  if (s.wph == 0) { Map D = jrep(s, V.wbUndurable ? 1 : 0); for (int b = 0; b < C.NB; b++) {
      if (!s.mm[b] || D.m[b] != s.mm[b] || (s.pcs[b] && s.pcu[b] >= s.mm[b])) continue;
      if (s.w[b].k == W_BYPASS && s.w[b].ph >= 1 && !V.wbUnordered) continue;
      bool have = false; for (int i = 0; i < C.NL; i++) if (s.lst[i] == 1 && rk(s.lpen[i]) == CLEAN && rb_(s.lpen[i]) == b && ru(s.lpen[i]) >= s.mm[b]) have = true;
      if (have) continue;
      State t = s; t.wph = 1; t.wb = b; t.ws = s.mm[b]; t.wv = slotVal(s, s.mm[b]); t.pers[b] |= 1u << t.wv; ADD(t, "write-back of block %d value %d to disk submitted", b, t.wv); } }
  else { State t = s; t.cur[s.wb] = s.wv; t.pcu[s.wb] = s.ws; t.pcs[s.wb] = V.reclaimNoDisk ? 2 : 1; t.wph = t.wb = t.wv = t.ws = 0; ADD(t, "write-back of block %d complete", s.wb); waits = true; }
  { bool need = false; for (int b = 0; b < C.NB; b++) if (s.pcs[b] == 1) need = true; if (need) { State t = s; diskFlush(t); ADD(t, "disk FLUSH (write-back)"); } }
  // checkpoint
  if (s.cst == 0 && s.nck < C.ckpts) {
    Map M = jrep(s, 1); bool useful = s.nseq > s.ck[s.act].S; for (int b = 0; b < C.NB; b++) if (s.pcs[b] == 2) useful = true;
    if (useful && (V.ckInflight || !inflightLog(s))) {
      State t = s; Ck n; memset(&n, 0, sizeof n); n.num = s.ck[s.act].num + 1; n.S = s.nseq; n.ep = s.ep; n.hb = M.hb; n.hv = M.hb ? M.hv : 0;
      for (int b = 0; b < C.NB; b++) { n.m[b] = V.ckMemMap ? s.mm[b] : M.m[b]; if (s.pcs[b] == 2 && n.m[b] <= s.pcu[b]) n.m[b] = 0; }
      if (V.ckMemMap) n.hb = s.mh, n.hv = s.mhv;
      if (!V.ckNoFlush) flashFlush(t);
      t.cpen = n; t.cst = 2; ADD(t, "checkpoint: records below %d made durable, area written", n.S);
    }
  } else if (C.rot && s.cst >= 2) { waits = true; ckStep(s, out);
  } else if (s.cst == 2) { waits = true; State t = s; t.cst = 3; ckDone(t); ADD(t, "checkpoint durable"); }
  // flash flush in the background
  { bool need = false; for (int i = 0; i < C.NL; i++) if (s.lst[i] == 2) need = true; if (s.hst == 2) need = true; if (need) { State t = s; flashFlush(t); ADD(t, "flash FLUSH"); } }
  // FLUSH of the user
  if (s.fph) {
    waits = true; State t = s;
    if (s.fph == 1) { bool ok = true; for (int b = 0; b < C.NB; b++) if (s.fd[b] && s.drs[b] == 2 && !(s.mm[b] && slotVal(s, s.mm[b]) >= s.fd[b])) ok = false;
      if (ok || V.flushNoDram) { t.fph = 2; for (int b = 0; b < C.NB; b++) t.fd[b] = 0; ADD(t, "FLUSH: DRAM is on the log"); } }
    else if (s.fph == 2) { if (!V.flushFlashOnly) diskFlush(t); t.fph = 3; ADD(t, "FLUSH: disk flushed"); }
    else if (s.fph == 3) { bool ok = true; for (int b = 0; b < C.NB; b++) if (s.pcs[b] == 2) ok = false; if (ok && (V.flushHole || !inflightLog(s))) { flashFlush(t); t.fph = 0; for (int b = 0; b < C.NB; b++) { t.flo[b] = std::max(t.flo[b], s.ft[b]); t.ft[b] = 0; } ADD(t, "FLUSH: flash flushed, acknowledged"); } }
    if (!out.size() || 0) {}
  }
  // lift
  if (s.lph == 0) {
    if (s.nli < C.lifts) { Map M = jrep(s, 2), D = jrep(s, V.headSlotSoft ? 2 : 0); if (!M.hb && !D.hb && !s.hst) for (int b = 0; b < C.NB; b++) {
      if (s.mm[b] || M.m[b] || s.drs[b] == 2 || (s.w[b].k && !V.liftWrite)) continue;
      State t = s; t.nli++; t.lph = 1; t.lb = b; t.lv = s.cur[b]; ADD(t, "lift of block %d reads %d from disk", b, t.lv); } }
  } else {
    State t = s; int b = s.lb;
    if (s.lph == 1) { t.hpb = b + 1; t.hpv = s.lv; t.hst = 2; t.lph = 2; ADD(t, "lift: head slot written"); }
    else if (s.lph == 2) { if (V.liftNoFlush || s.pers[b] == (1u << s.cur[b])) { if (rm) { append(t, HEAD, b, s.lv, 0); t.lph = t.lb = t.lv = 0; ADD(t, "lift: HEAD submitted"); } }
      else { diskFlush(t); ADD(t, "lift: disk FLUSH"); } }
    // a lift can be given up at any time
    State g = s; g.lph = g.lb = g.lv = 0; ADD(g, "lift given up");
  }
  if (s.mh && s.nde < C.delifts && rm) { State t = s; t.nde++; append(t, NOHEAD, s.mh - 1, 0, 0); t.mh = t.mhv = 0; ADD(t, "de-lift: NOHEAD submitted"); }
  if (s.oph == 1) { State t = s; if (!s.drs[s.ob]) t.dr[s.ob] = s.ov, t.drs[s.ob] = 1; t.oph = t.ob = t.ov = 0; ADD(t, "load installed"); }
  else if (s.nlo < C.loads) for (int b = 0; b < C.NB; b++) if (!s.drs[b]) { State t = s; t.nlo++; t.oph = 1; t.ob = b; t.ov = readVal(s, b); ADD(t, "load of block %d reads %d", b, t.ov); }
  if (s.rph == 1) { waits = true; State t = s; u32 r = look(s, s.rs - 1, 2); int v = rk(r) == DATA && rb_(r) == s.rb ? rv_(r) : 15; if (v == 15 || v < s.rv) fail("V1: a read got what its slot was reused for"); t.rph = t.rb = t.rs = t.rv = 0; ADD(t, "read done"); }
  return waits;
}
static void requests(const State& s, Out& out) {
  if (s.mode) return;
  for (int b = 0; b < C.NB; b++) if (s.nw <= C.writes && (s.nw > 1 || b == 0 || C.lifts || C.loads)) { // blocks are alike: the first write goes to block 0
    auto put = [&](State& t) { t.vb[s.nw] = b + 1; t.nw++; };
    if (!s.w[b].k && C.absorb) { State t = s; put(t); t.w[b] = {W_ABSORB, 1, s.nw}; touch(t, b); ADD(t, "request: write %d of block %d (absorb)", s.nw, b); }
    if (!s.w[b].k && C.bypass) { State t = s; put(t); t.w[b] = {W_BYPASS, 1, s.nw}; touch(t, b); ADD(t, "request: write %d of block %d (bypass)", s.nw, b); }
    if ((!s.w[b].k || s.w[b].k == W_PUSH) && C.dram) { State t = s; put(t); t.dr[b] = s.nw; t.drs[b] = 2; t.acked[b] = s.nw; touch(t, b); ADD(t, "request: write %d of block %d (DRAM), acknowledged", s.nw, b); }
  }
  if (!s.fph && s.nfl < C.flushes) { State t = s; t.nfl++; t.fph = 1; for (int b = 0; b < C.NB; b++) { t.ft[b] = s.acked[b]; t.fd[b] = s.drs[b] == 2 ? s.dr[b] : 0; } ADD(t, "request: FLUSH"); }
  if (!s.rph && s.nrd < C.reads) for (int b = 0; b < C.NB; b++) if (!s.drs[b] && s.mm[b]) { State t = s; t.nrd++; t.rph = 1; t.rb = b; t.rs = s.mm[b] % C.NL + 1; t.rv = s.acked[b]; ADD(t, "request: read of block %d from log", b); }
}
static void check(const State& s) {
  if (s.mode) return;
  for (int b = 0; b < C.NB; b++) { int v = readVal(s, b); if (v != s.acked[b]) fail("V1: block " + std::to_string(b) + " reads " + std::to_string(v) + ", acknowledged is " + std::to_string(s.acked[b])); }
}
static u64 hash(const State& s) { const u8* p = (const u8*)&s; u64 h = 1469598103934665603ull; size_t n = sizeof s; u64 x; while (n >= 8) { memcpy(&x, p, 8); h = (h ^ x) * 0x9E3779B97F4A7C15ull; h ^= h >> 29; p += 8; n -= 8; } while (n--) h = (h ^ *p++) * 1099511628211ull; h ^= h >> 32; return h ? h : 1; }
// States are remembered by a 128-bit digest; the frontier holds them whole.
struct Res { u64 n; int depth; std::string bad; std::vector<std::string> trace; double sec; bool full; };
static Res run(bool trace, u64 limit, double maxsec) {
  auto t0 = std::chrono::steady_clock::now(); bad.clear();
  State s; memset(&s, 0, sizeof s); s.ck[0].num = 1; s.ck[0].S = 1; s.ck[0].ep = 1; if (C.rot) s.sb[0] = s.sb[1] = 1; s.nseq = 1; s.ep = 1; s.nw = 1; for (int b = 0; b < C.NB; b++) s.pers[b] = 1;
  std::vector<u64> tab(1 << 22, 0); u64 mask = tab.size() - 1, n = 0;
  auto seen = [&](const State& x) { u64 h = hash(x); u64 i = h & mask; while (tab[i]) { if (tab[i] == h) return true; i = (i + 1) & mask; } tab[i] = h; n++;
    if (n * 2 > mask) { std::vector<u64> o(tab.size() * 2, 0); u64 m = o.size() - 1; for (u64 k : tab) if (k) { u64 j = k & m; while (o[j]) j = (j + 1) & m; o[j] = k; } tab.swap(o); mask = m; } return false; };
  std::vector<State> fr{s}, nx; seen(s); Res R{0, 0, "", {}, 0, true};
  std::vector<std::vector<std::pair<u32, std::string>>> par; std::vector<std::pair<u32, std::string>> pn;
  auto done = [&](size_t i, const std::string& last) { R.bad = bad; if (trace) { std::vector<std::string> z{last}; u32 k = i; for (int d = (int)par.size() - 1; d >= 0; d--) { z.push_back(par[d][k].second); k = par[d][k].first; } std::reverse(z.begin(), z.end()); R.trace = z; } };
  Out out; bool stop = false;
  while (!fr.empty() && !stop) {
    nx.clear(); pn.clear();
    for (size_t i = 0; i < fr.size() && !stop; i++) {
      out.clear(); bool w = steps(fr[i], out);
      if (!bad.empty()) { done(i, "read done"); stop = true; break; }
      if (w && out.empty()) { fail("V4: something waits and nothing can move"); done(i, "(deadlock)"); stop = true; break; }
      requests(fr[i], out);
      if (fr[i].ncr < C.crashes) crash(fr[i], out);
      if (!bad.empty()) { done(i, out.back().second); stop = true; break; }
      for (auto& o : out) { if (seen(o.first)) continue; check(o.first); if (!bad.empty()) { done(i, o.second); stop = true; break; } nx.push_back(o.first); if (trace) pn.push_back({(u32)i, o.second}); }
      if ((i & 1023) == 0 && (n > limit || std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() > maxsec)) { R.full = false; stop = true; }
    }
    fr.swap(nx); if (trace) par.push_back(pn); R.depth++;
  }
  R.n = n; R.sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count(); return R;
}
//                 name      NB NL wr ab by dr fl li de lo rd cr ck
static Cfg cfgs[] = {
  {"log1",         1, 3, 3, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1},
  {"log2",         2, 3, 2, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1},
  {"log",          2, 3, 3, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1},
  {"mixed2",       2, 3, 2, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1},
  {"mixed",        2, 3, 3, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1},
  {"flush2",       1, 3, 3, 1, 1, 0, 2, 0, 0, 0, 0, 1, 1},
  {"twocrash1",    1, 3, 3, 1, 1, 0, 1, 0, 0, 0, 0, 2, 1},
  {"twocrash",     2, 3, 2, 1, 1, 0, 1, 0, 0, 0, 0, 2, 1},
  {"wrap",         1, 3, 4, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1},
  {"epoch",        2, 4, 4, 1, 0, 0, 1, 0, 0, 0, 0, 2, 1},
  {"head1",        1, 4, 2, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1},
  {"head",         1, 4, 3, 1, 1, 0, 1, 2, 1, 1, 0, 1, 1},
  {"head2",        2, 4, 2, 1, 1, 0, 1, 2, 1, 0, 0, 1, 1},
  {"dram1",        1, 3, 2, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1},
  {"dram",         2, 3, 3, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1},
  {"all1",         1, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
  {"rot1",         1, 3, 2, 1, 1, 0, 1, 0, 0, 0, 0, 2, 2, true},
  {"rot2",         1, 3, 3, 1, 0, 0, 1, 0, 0, 0, 0, 2, 1, true},
};
static std::vector<std::pair<const char*, Var>> variants() {
  std::vector<std::pair<const char*, Var>> r;
#define VAR(c, f, w) { Var v; v.name = #f; v.what = w; v.f = true; r.push_back({c, v}); }
  VAR("mixed", noTomb, "no CLEAN (tombstone) for a bypass over a dirty record")
  VAR("mixed", tombEarly, "bypass's CLEAN before the disk FLUSH")
  VAR("mixed", tombAll, "bypass's CLEAN names no sequence number")
  VAR("log", reclaimNoDisk, "CLEAN (and reclaim) before the disk FLUSH")
  VAR("wrap", noSeq, "no sequence and epoch check in replay")
  VAR("epoch", noEpoch, "no epoch check: records beyond a hole come back")
  VAR("log", cleanSoft, "slot reused before its CLEAN / successor is durable")
  VAR("wrap", noCkptTail, "slot reused that the durable checkpoint still replays")
  VAR("mixed", ckMemMap, "checkpoint writes the map in memory")
  VAR("log", ckNoFlush, "checkpoint names records that are not durable")
  VAR("log", ckInflight, "checkpoint while a record is in flight")
  VAR("log", oneCk, "one checkpoint area")
  VAR("log", flushHole, "FLUSH does not wait for earlier records in flight")
  VAR("mixed", flushFlashOnly, "FLUSH flushes flash only")
  VAR("mixed", wbUnordered, "bypass does not wait for a write-back in flight")
  VAR("log", cleanNoSeq, "CLEAN of a block whatever its newest record is")
  VAR("head", headMem, "head invalidated in memory only")
  VAR("mixed", owedReset, "a second bypass takes back a CLEAN that is owed")
  VAR("head", headSoft, "bypass does not wait for a NOHEAD or DATA in flight")
  VAR("head", dataKeepsHead, "a DATA record does not end a head in replay")
  VAR("head", wbUndurable, "write-back of a record not yet durable")
  VAR("head", liftNoFlush, "lift without disk FLUSH before HEAD")
  VAR("head", liftNoCancel, "lift not cancelled by a newer write")
  VAR("head", loadNoCancel, "load not cancelled by a newer write")
  VAR("head2", headSlotSoft, "head slot reused before NOHEAD is durable (CRC kept)")
  VAR("head2", headNoCrc, "HEAD without CRC of the data")
  VAR("dram", dramPushDrops, "DRAM block marked clean although written during the push")
  VAR("dram", flushNoDram, "FLUSH does not push DRAM")
  VAR("rot1", sbOnce, "superblock in one place only before its checkpoint is in force")
  VAR("rot1", startOnce, "a start does not put the superblock in force in both places first")
  VAR("wrap", readNoPin, "slot reused under a read")
  return r;
}
// The dirty guard by itself: two blocks of the guard region, value = write counter, code = 2 * value + XORed.
namespace guard {
enum { OFF, APPLY, ON, REMOVE };
struct G { u8 cur[2]; u32 pers[2]; u8 st, sp, pend, ph, wr[2]; u8 copy[2], ack[2], flo[2]; u8 dirty, nw, ncr, rec; };  // st durable state; sp pending one; ph steps done; rec: redo after a crash
struct GV { const char* name; bool inPlace, dirtyEarly, writeDuring, removeEarly, stateLate; };
static std::string gbad; static GV v;
static bool operator<(const G& a, const G& b) { return memcmp(&a, &b, sizeof a) < 0; }
static void next(const G& s, std::vector<G>& o) {
  G t; bool trans = s.st == APPLY || s.st == REMOVE; int x = s.st == APPLY && !s.rec;
  if (s.pend) { t = s; t.st = s.sp; t.pend = t.sp = 0; t.ph = 0; t.wr[0] = t.wr[1] = 0; if (t.st == OFF || t.st == ON) t.rec = 0; o.push_back(t); }
  auto begin = [&](int st) { G u = s; u.pend = 1; u.sp = st; for (int b = 0; b < 2; b++) u.copy[b] = s.cur[b] / 2; o.push_back(u); };
  if (!s.pend && s.st == OFF) begin(APPLY);
  if (!s.pend && s.st == ON && (!s.dirty || v.removeEarly)) begin(REMOVE);
  if ((trans && !s.pend) || (v.stateLate && s.pend && s.sp == APPLY)) {
    int xx = v.stateLate && s.pend ? 1 : x;
    for (int b = 0; b < 2; b++) if (!s.wr[b]) { t = s; t.wr[b] = 1; t.cur[b] = (v.inPlace && s.rec) ? s.cur[b] ^ 1 : s.copy[b] * 2 + xx; t.pers[b] |= 1u << t.cur[b]; o.push_back(t); }
    if (trans && !s.pend && s.wr[0] && s.wr[1] && s.ph == 0) { t = s; t.ph = 1; for (int b = 0; b < 2; b++) t.pers[b] = 1u << s.cur[b], t.flo[b] = s.ack[b]; o.push_back(t); }
    if (trans && !s.pend && s.ph == 1) { t = s; t.pend = 1; t.sp = x ? ON : OFF; o.push_back(t); }
  }
  if (!s.dirty && !s.pend && (s.st == ON || (v.dirtyEarly && s.st == APPLY && !s.rec))) { t = s; t.dirty = 1; o.push_back(t); }
  if (s.dirty && s.st == ON) { t = s; t.dirty = 0; o.push_back(t); }
  bool held = s.pend || trans;
  if (s.nw < 3 && (!held || v.writeDuring)) for (int b = 0; b < 2; b++) { t = s; t.nw++; t.cur[b] = t.nw * 2 + (s.st == ON || s.st == APPLY); t.pers[b] |= 1u << t.cur[b]; t.ack[b] = t.nw; o.push_back(t); }
  t = s; bool ch = false; for (int b = 0; b < 2; b++) { if (t.pers[b] != 1u << s.cur[b] || t.flo[b] != s.ack[b]) ch = true; t.pers[b] = 1u << s.cur[b]; t.flo[b] = s.ack[b]; } if (ch) o.push_back(t);
  if (s.ncr < 2) for (int a = 0; a < 8; a++) for (int c = 0; c < 8; c++) for (int p = 0; p < 1 + s.pend; p++) if (s.pers[0] >> a & 1 && s.pers[1] >> c & 1) {
    t = s; t.ncr++; t.cur[0] = a; t.cur[1] = c; t.pers[0] = 1u << a; t.pers[1] = 1u << c; if (p) t.st = s.sp; t.pend = t.sp = t.ph = t.wr[0] = t.wr[1] = 0; t.rec = t.st == APPLY || t.st == REMOVE;
    if (t.dirty && !(a & c & 1)) { gbad = "dirty bytes exist and the raw disk is recognisable"; return; }
    for (int b = 0; b < 2; b++) { int val = t.rec && !v.inPlace ? t.copy[b] : (t.st == ON && !(t.cur[b] & 1)) || (t.st == OFF && (t.cur[b] & 1)) ? 9 : t.cur[b] / 2; if (val == 9 || val < t.flo[b]) { gbad = "guard region wrong after a crash"; return; } t.ack[b] = t.flo[b] = val; }
    o.push_back(t); }
  for (auto& u : o) if (!u.pend && (u.st == OFF || u.st == ON)) for (int b = 0; b < 2; b++) if ((u.cur[b] & 1) != (u.st == ON) || u.cur[b] / 2 != u.ack[b]) gbad = "guard region reads wrong";
}
static int table() {                                     // how many were judged; less than none: one wrongly
  int judged = 0; bool wrong = false;
  GV vs[] = {{"correct"}, {"xorInPlace", 1}, {"dirtyEarly", 0, 1}, {"writeNotHeld", 0, 0, 1}, {"removeEarly", 0, 0, 0, 1}, {"stateLate", 0, 0, 0, 0, 1}};
  for (auto& q : vs) { v = q; gbad.clear(); G s; memset(&s, 0, sizeof s); s.pers[0] = s.pers[1] = 1; std::set<G> seen{s}; std::vector<G> fr{s}, nx, o;
    while (!fr.empty() && gbad.empty()) { nx.clear(); for (auto& f : fr) { o.clear(); next(f, o); if (!gbad.empty()) break; for (auto& u : o) if (seen.insert(u).second) nx.push_back(u); } fr.swap(nx); }
    printf("guard     %-16s %10zu states  %s\n", q.name, seen.size(), gbad.empty() ? "holds" : gbad.c_str());
    judged++; if (gbad.empty() != (&q == vs)) wrong = true; }
  return wrong ? -judged : judged;
}
}
// Rows that are searched to their end in seconds; what survives: see volume.md.
static const char *SMALL[] = {"log2", "log1", "mixed2", "twocrash", "dram1", "rot1"};
static const char *SURVIVES[] = {"headSlotSoft"};
template <size_t N> static bool among(const char *(&names)[N], const char *name) { for (auto *n : names) if (!strcmp(n, name)) return true; return false; }
static int checkAll(bool all, double maxsec) {
  int right = 0, wrong = 0, g = guard::table(); g > 0 ? right += g : wrong -= g;
  for (auto &c : cfgs) { bool small = among(SMALL, c.name); if (!small && !all) continue;
    C = c; V = Var(); Res r = run(false, 60000000, maxsec); bool ok = r.bad.empty() && (r.full || !small); (ok ? right : wrong)++;
    printf("%-9s correct          %10llu states depth %3d %6.1f s  %s\n", c.name, (unsigned long long)r.n, r.depth, r.sec, !r.bad.empty() ? r.bad.c_str() : r.full ? "holds" : small ? "WRONG: not searched to the end" : "holds so far (limit)"); }
  for (auto &v : variants()) { if (among(SURVIVES, v.second.name)) continue; for (auto &c : cfgs) if (!strcmp(v.first, c.name)) C = c;
    V = v.second; Res r = run(false, 60000000, maxsec); (r.bad.empty() ? wrong : right)++;
    printf("%-9s %-16s %10llu states depth %3d %6.1f s  %s\n", C.name, v.second.name, (unsigned long long)r.n, r.depth, r.sec, r.bad.empty() ? "WRONG: nothing fails, so the rule is not there" : r.bad.c_str()); }
  printf("protocol volume: %d passed, %d failed\n", right, wrong);
  return wrong > 0;
}
int main(int ac, char** av) {
  std::string mode = ac > 1 ? av[1] : "table", sub = ac > 2 ? av[2] : "";
  double maxsec = getenv("SECONDS_EACH") ? atof(getenv("SECONDS_EACH")) : 100;
  auto vs = variants(); setvbuf(stdout, 0, _IOLBF, 0);
  if (mode == "trace") { std::string vn = ac > 3 ? av[3] : "none"; for (auto& c : cfgs) if (sub == c.name) C = c; V = Var(); for (auto& v : vs) if (vn == v.second.name) V = v.second;
    Res r = run(true, 3000000, 100); for (auto& x : r.trace) printf("  %s\n", x.c_str()); printf("%s  (%llu states)\n", r.bad.c_str(), (unsigned long long)r.n); return 0; }
  if (mode == "check") return checkAll(ac > 2, maxsec);
  if (sub.empty() || sub == "guard") guard::table();
  for (auto& c : cfgs) if (sub != "variants" && (sub.empty() || std::string(c.name).find(sub) != std::string::npos || sub == "correct")) { C = c; V = Var(); Res r = run(false, 60000000, maxsec);
    printf("%-9s correct          %10llu states depth %3d %6.1f s  %s\n", c.name, (unsigned long long)r.n, r.depth, r.sec, r.bad.empty() ? (r.full ? "holds" : "holds so far (limit)") : r.bad.c_str()); }
  if (sub != "correct") for (auto& v : vs) if (sub.empty() || sub == "variants" || std::string(v.second.name).find(sub) != std::string::npos) { for (auto& c : cfgs) if (!strcmp(v.first, c.name)) C = c; V = v.second; Res r = run(false, 60000000, maxsec);
    printf("%-9s %-16s %10llu states depth %3d %6.1f s  %s\n", C.name, v.second.name, (unsigned long long)r.n, r.depth, r.sec, r.bad.empty() ? (r.full ? "NOT DETECTED" : "not detected (limit)") : r.bad.c_str()); }
}
