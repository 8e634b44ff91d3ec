//! Critical reads that the slow file served: what they leave for the agent, and how it hears of that.

use std::cell::Cell;

use headstart_policy::client::s4d::Critical;
use headstart_policy::client::{Decision, FetchTurn, Request};
use headstart_protocol::call::{Answer, Call, Moved, Step, Thread};
use headstart_protocol::memory::Memory;
use headstart_protocol::ring::Collector;
use headstart_protocol::shared::{Shared, Slot};
use headstart_units::request::Direction;

use super::world::{BLOCK, FILE, Rank, request};

const BENEFIT_NS: u64 = 1000;

/// One whose reads a policy wants on flash from the next time on.
struct Missing<'a> {
    rank: Rank<'a>,
    calls_of_the_agent: Cell<u32>,
}

impl Thread for Missing<'_> {
    fn slot(&self) -> &Slot {
        self.rank.slot()
    }

    fn index(&self) -> u32 {
        self.rank.index()
    }

    fn shared(&self) -> Shared<'_> {
        self.rank.shared()
    }

    fn decide(&self, request: &Request) -> (Request, Decision) {
        (*request, Decision::Fetch { benefit_ns: BENEFIT_NS, turn: FetchTurn::Soon })
    }

    fn wake_agent(&self) {
        self.calls_of_the_agent.set(self.calls_of_the_agent.get() + 1);
    }
}

/// Reads the block from the slow file, with a set bit because the agent says so.
fn read(thread: &Missing<'_>, bit: bool) {
    let (mut call, step) = Call::read(FILE, request(Direction::Read, BLOCK));
    assert_eq!(step, Step::Look);
    let step = call.look(thread);
    let step = if bit {
        assert!(matches!(step, Step::Ask(_)), "{step:?}");
        call.on_answer(thread, Answer::Disk(BLOCK.length)).unwrap()
    } else {
        step
    };
    assert_eq!((step, call.on_moved(thread, Moved::Bytes(BLOCK.length))), (Step::Slow(BLOCK), Step::Look));
    assert_eq!((call.look(thread), call.result()), (Step::Done, Ok(BLOCK.length)));
}

#[test]
fn a_critical_read_that_missed_marks_its_slot_and_wakes_an_agent_that_sleeps() {
    for bit in [false, true] {
        let memory = Memory::new(1, 2, 1);
        let (shared, mut collector) = (memory.view(), Collector::default());
        if bit {
            shared.announce(FILE, BLOCK);
        }
        let thread =
            Missing { rank: Rank { memory: &memory, slot: 1, absorbs: false }, calls_of_the_agent: Cell::new(0) };
        for sleeps in [false, true] {
            assert!(!sleeps || collector.fall_asleep(shared), "there is nothing to look at");
            read(&thread, bit);
            assert_eq!(thread.calls_of_the_agent.get(), u32::from(sleeps), "one that is awake looks by itself");
            shared.wake_up();
            assert_eq!(collector.take(shared), []);
            assert!(collector.take_hinted().iter().eq([1]), "it looks at marked slots alone");
            let left = Critical { file: FILE, range: BLOCK, benefit_ns: BENEFIT_NS, turn: FetchTurn::Soon };
            assert_eq!((memory.slots[1].take_hint(), memory.slots[1].take_hint()), (Some(left), None));
        }
    }
}
