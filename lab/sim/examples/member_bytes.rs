//! What a member of a large cluster takes: bytes of memory for each file that it knows, and what its verbs take then.
//!
//! ```text
//! cargo run --release -p headstart-sim --example member_bytes -- [MEMBERS] [FILES]
//! ```
//!
//! `headstart-cluster`'s machines alone, with 1,000 members and 1,000,000 files unless told otherwise. Memory is what the
//! allocator gives out for what was asked for, as glibc rounds it; time is the wall's. The last line is a JSON object, for
//! `make bench-cluster`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use headstart_cluster::{
    Ask, Envelope, FileId, Log, Member, MemberId, Message, Output, RequestId, Seat, Stamp, Timing, View, wire,
};
use headstart_units::Nanos;
use headstart_units::request::Range;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A word in front, in steps of 16 bytes, and no less than 32.
fn real_bytes(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(real_bytes(layout), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(real_bytes(layout), Relaxed);
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SLOTS: usize = 4096;
const TIMING: Timing = Timing { hold: Nanos(30_000_000_000), margin: Nanos(5_000_000_000) };
/// The member that is measured.
const OWN: u16 = 0;
/// So often is said again what one thread waits for.
const TICKS: u32 = 100;

fn seat(node: u16) -> Seat {
    Seat { member: MemberId { node, life: 0 }, incarnation: 0 }
}

/// A member and the others, which say what is wanted of them.
struct Site {
    member: Member,
    view: Arc<View>,
    members: u16,
}

impl Site {
    /// All have declared: it is home of its slots.
    fn new(members: u16) -> Site {
        let view = Arc::new(View::first((0..members).map(seat).collect(), SLOTS));
        let mut member = Member::new(seat(OWN), TIMING, Log::default(), Vec::new()).keeping_claims_back();
        member.on_view(Nanos(1), Nanos(2), Arc::clone(&view));
        let mut site = Site { member, view, members };
        let slots: Vec<u16> = (OWN..SLOTS as u16).step_by(members.into()).collect();
        for other in 1..members {
            site.hear(other, Message::Declare(slots.clone(), Vec::new()));
            let theirs = (other..SLOTS as u16).step_by(members.into()).collect();
            site.hear(other, Message::Heard(theirs));
        }
        assert!(site.member.waits_for().is_empty(), "all have told");
        site
    }

    fn hear(&mut self, from: u16, message: Message) -> Vec<Output> {
        let view = self.view.number();
        assert!(self.member.on_message(Envelope { from: seat(from), to: seat(OWN), view, message }), "it counts");
        self.member.take_outputs()
    }

    /// Files whose home is another member, or this one.
    fn files(&self, own: bool) -> impl Iterator<Item = FileId> + use<> {
        let view = Arc::clone(&self.view);
        (1u64..).map(FileId).filter(move |file| (view.home(*file) == seat(OWN)) == own)
    }
}

/// What is said of each file.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Nobody has anything of it: its threads read and write the slow file.
    Absent,
    /// It is this member's alone.
    Alone,
    /// This member is its home, and one other has it open.
    Home,
}

fn timed(act: impl FnOnce()) -> f64 {
    let began = Instant::now();
    act();
    began.elapsed().as_secs_f64() * 1e3
}

/// The JSON member of one kind of files.
fn measure(members: u16, files: usize, known: Known) -> String {
    let mut site = Site::new(members);
    let names: Vec<FileId> = site.files(matches!(known, Known::Home)).take(files).collect();
    let before = LIVE.load(Relaxed);
    let began = Instant::now();
    for (count, file) in (1u64..).zip(&names) {
        let home = site.view.home(*file).member.node;
        let stamp = Stamp { view: 1, count };
        let message = match known {
            Known::Absent => Message::Holds(*file, stamp),
            Known::Alone => Message::Yours { file: *file, epoch: stamp, ask: Vec::new(), logged: false },
            Known::Home => Message::Open(*file),
        };
        site.hear(if matches!(known, Known::Home) { 1 } else { home }, message);
    }
    let ns = began.elapsed().as_secs_f64() * 1e9 / files as f64;
    let bytes = (LIVE.load(Relaxed) - before) as f64 / files as f64;
    // One thread waits for an answer, so that there is something to say again.
    let unknown = site.files(false).nth(files).expect("there are always more");
    site.member.ask(unknown, RequestId { slot: 1, seq: 1 }, Ask::Read { range: Range::new(0, u64::MAX) });
    site.member.take_outputs();
    let ticks_ms = timed(|| {
        for _ in 0..TICKS {
            assert_eq!(site.member.waits_for().len(), 1, "the home of that file");
            site.member.again();
            site.member.take_outputs();
        }
    });
    let tick_us = ticks_ms * 1e3 / f64::from(TICKS);
    let next = Arc::new(site.view.joined(MemberId { node: site.members, life: 0 }).expect("it is new"));
    let view_ms = timed(|| site.member.on_view(Nanos(3), Nanos(4), next));
    let said = site.member.take_outputs().len();
    println!(
        "{known:?}: {bytes:.0} bytes a file, {ns:.0} ns a message; whom it waits for and again {tick_us:.1} us, \
         a member more {view_ms:.1} ms and {said} messages"
    );
    let name = format!("{known:?}").to_lowercase();
    format!(
        r#""{name}": {{"bytes": {bytes:.0}, "message_ns": {ns:.0}, "tick_us": {tick_us:.1}, "view_ms": {view_ms:.1}}}"#
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (members, files) = (next(1_000) as u16, next(1_000_000));
    let before = LIVE.load(Relaxed);
    let site = Site::new(members);
    let rest = LIVE.load(Relaxed) - before;
    let mut view = Vec::new();
    wire::encode_view(&site.view, &mut view);
    println!("{members} members: {rest} bytes at rest, its view included, which the register holds in {}", view.len());
    drop(site);
    let all = [Known::Absent, Known::Alone, Known::Home].map(|known| measure(members, files, known)).join(", ");
    println!(r#"{{"members": {members}, "files": {files}, {all}}}"#);
}
