//! What a member does now and then looks at no file that nothing is done about, however many are known.

use std::sync::Arc;

use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::files::visits;
use crate::guest::ALL;
use crate::log::Log;
use crate::member::Member;
use crate::message::{Ask, Envelope, Message};
use crate::names::{FileId, MemberId, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::record::{Record, What};
use crate::{Found, Timing, View};

const TIMING: Timing = Timing { hold: Nanos(100), margin: Nanos(10) };
const MEMBERS: u16 = 4;
/// The member that is looked at.
const OWN: u16 = 0;

fn seat(node: u16) -> Seat {
    Seat { member: MemberId { node, life: 0 }, incarnation: 0 }
}

struct Site {
    member: Member,
    view: Arc<View>,
    /// The next file that nothing is known of.
    next: u64,
}

impl Site {
    /// All have declared, and of so many files of each kind nothing is to be done.
    fn with_idle(files: u64) -> Site {
        let view = Arc::new(View::first((0..MEMBERS).map(seat).collect(), 64));
        let mut member = Member::new(seat(OWN), TIMING, Log::default(), Vec::new()).keeping_claims_back();
        member.on_view(Nanos(1), Nanos(2), Arc::clone(&view));
        let mut site = Site { member, view, next: 1 };
        for node in 1..MEMBERS {
            site.hear(node, Message::Declare((0..64).collect(), Vec::new()));
            site.hear(node, Message::Heard((0..64).collect()));
        }
        for _ in 0..files {
            let stamp = Stamp { view: 1, count: 1 };
            let absent = site.file(false);
            site.hear(site.home(absent), Message::Holds(absent, stamp));
            let alone = site.file(false);
            site.hear(site.home(alone), Message::Yours { file: alone, epoch: stamp, ask: Vec::new(), logged: false });
            assert!(site.member.is_alone(alone) && site.member.holds(absent));
            let of_another = site.file(false);
            site.hear(site.home(of_another), Message::OwnedBy(of_another, seat(1), stamp));
            let held = site.file(true);
            site.hear(1, Message::Open(held));
        }
        assert!(!site.member.waits() && site.member.waits_for().is_empty());
        site
    }

    fn hear(&mut self, from: u16, message: Message) -> Vec<Output> {
        let view = self.view.number();
        assert!(self.member.on_message(Envelope { from: seat(from), to: seat(OWN), view, message }), "it counts");
        self.member.take_outputs()
    }

    fn home(&self, file: FileId) -> u16 {
        self.view.home(file).member.node
    }

    /// A file of which nothing is known, whose home is this member or another.
    fn file(&mut self, own: bool) -> FileId {
        loop {
            self.next += 1;
            if (self.home(FileId(self.next)) == OWN) == own {
                return FileId(self.next);
            }
        }
    }

    /// One file for which a thread waits, one that this member owns and of which it awaits a claim and a barrier.
    fn work(&mut self) {
        let asked = self.file(false);
        self.member.ask(asked, RequestId { slot: 1, seq: 1 }, Ask::Read { range: ALL });
        let owned = self.file(true);
        self.hear(1, Message::Open(owned));
        self.hear(2, Message::Open(owned));
        self.member.own(owned);
        self.member.take_outputs();
    }

    /// A file that another member owns, and whose record this member appends.
    fn record(&mut self) {
        let file = self.file(false);
        let epoch = Stamp { view: 1, count: 9 };
        self.hear(1, Message::Claim(file, epoch));
        self.member.on_fenced(file, epoch, None, ALL, Found::default());
        let (order, what) = (crate::Order { epoch, seq: 1 }, What::Map { place: 1 });
        let Record { range, by, .. } = Record { file, order, range: Range::new(0, 1), what, by: None };
        self.hear(1, Message::Ordered { file, order, range, what, by });
    }
}

/// Files looked at by each verb, where so many are idle.
fn visits_of_verbs(idle: u64) -> Vec<(&'static str, usize)> {
    let mut site = Site::with_idle(idle);
    site.work();
    site.record();
    let mut counts = Vec::new();
    visits::take();
    let mut count = |verb: &'static str, site: &mut Site, act: &mut dyn FnMut(&mut Site)| {
        act(site);
        site.member.take_outputs();
        counts.push((verb, visits::take()));
    };
    count("waits_for", &mut site, &mut |site| assert!(site.member.waits_for().len() >= 2));
    count("waits", &mut site, &mut |site| assert!(site.member.waits()));
    count("again", &mut site, &mut |site| site.member.again());
    count("a look at the same view", &mut site, &mut |site| {
        site.member.on_view(Nanos(3), Nanos(4), Arc::clone(&site.view));
    });
    count("a barrier", &mut site, &mut |site| site.member.on_synced(Nanos(5), 1));
    count("another's barrier", &mut site, &mut |site| {
        site.hear(1, Message::Synced(5));
    });
    count("salvageable", &mut site, &mut |site| assert!(site.member.salvageable(9).is_empty()));
    count("orphans", &mut site, &mut |site| assert!(site.member.orphans(9).is_empty()));
    counts
}

#[test]
fn what_a_member_does_now_and_then_looks_at_no_idle_file() {
    let (few, many) = (visits_of_verbs(2), visits_of_verbs(500));
    assert_eq!(few, many);
    assert!(few.iter().map(|(_, visits)| visits).sum::<usize>() > 0, "those at work are looked at: {few:?}");
}

#[test]
fn a_member_more_is_no_walk_through_what_members_have_to_themselves() {
    let visits = |idle: u64| {
        let mut site = Site::with_idle(idle);
        let next = site.view.joined(MemberId { node: MEMBERS, life: 0 }).expect("it is new");
        visits::take();
        site.member.on_view(Nanos(3), Nanos(4), Arc::new(next));
        let said = site.member.take_outputs();
        let declared = said.iter().filter_map(|output| match output {
            Output::Send(Envelope { message: Message::Declare(_, files), .. }) => Some(files.len()),
            _ => None,
        });
        (visits::take(), declared.sum::<usize>())
    };
    let ((few, said_few), (many, said_many)) = (visits(100), visits(200));
    // Names of three files of each kind, the owners of one, and what is declared twice.
    assert!(many - few <= 4 * 100 + 4 * (said_many - said_few), "{few} and {many} files were looked at");
}
