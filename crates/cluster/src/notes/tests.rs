//! Three agents tell each other notes; letters are lost, doubled and overtaken, and agents are followed by others.

use headstart_units::chance::Random;

use super::*;
use crate::names::FileId;

const NODES: usize = 3;

fn member(node: usize) -> MemberId {
    MemberId { node: node as u16, life: 0 }
}

fn note(number: u64) -> Note {
    Note::Unlinked { file: FileId(number), passed: false }
}

fn number(note: &Note) -> u64 {
    match note {
        Note::Unlinked { file, .. } => file.0,
        other => panic!("{other:?} was told by nobody"),
    }
}

struct World {
    random: Random,
    view: View,
    agents: Vec<Notes>,
    letters: Vec<Told>,
    /// What each told each, by its agent now: lists of numbers that rise.
    told: Vec<Vec<Vec<u64>>>,
    /// What each heard of each: by agent of the hearer.
    heard: Vec<Vec<Vec<Vec<u64>>>>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let seat = |node| Seat { member: member(node), incarnation: 0 };
        let view = View::first((0..NODES).map(seat).collect(), 4);
        let mut agents: Vec<Notes> = (0..NODES).map(|node| Notes::new(seat(node))).collect();
        agents.iter_mut().for_each(|agent| assert_eq!(agent.on_view(&view).len(), NODES - 1));
        World {
            random: Random(seed),
            view,
            agents,
            letters: Vec::new(),
            told: vec![vec![Vec::new(); NODES]; NODES],
            heard: vec![vec![vec![Vec::new()]; NODES]; NODES],
            next: 0,
        }
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn tell(&mut self, from: usize, to: usize) {
        self.next += 1;
        assert!(self.agents[from].tell(member(to), note(self.next)));
        self.told[from][to].push(self.next);
    }

    fn send(&mut self, from: usize, again: bool) {
        self.letters.extend(self.agents[from].take(again));
    }

    /// One letter arrives, whichever; it may come again.
    fn deliver(&mut self, doubles: bool) {
        if self.letters.is_empty() {
            return;
        }
        let at = self.pick(self.letters.len());
        let letter = match doubles && self.random.chance(20) {
            true => self.letters[at].clone(),
            false => self.letters.swap_remove(at),
        };
        let (from, to) = (letter.from.member.node as usize, letter.to.member.node as usize);
        for note in self.agents[to].on_told(letter).unwrap_or_default() {
            self.heard[to][from].last_mut().expect("it has an agent").push(number(&note));
        }
        self.send(to, false);
    }

    /// The next agent of a node. What the one before had not heard is told to it, and what that told is over.
    fn restart(&mut self, node: usize) {
        self.view = self.view.restarted(member(node)).expect("it has a seat");
        self.agents[node] = Notes::new(self.view.seat(member(node)).expect("it has a seat"));
        for other in (0..NODES).filter(|other| *other != node) {
            self.heard[node][other].push(Vec::new());
            let heard: Vec<u64> = self.heard[other][node].concat();
            let told = &mut self.told[node][other];
            let count = told.iter().rposition(|number| heard.contains(number)).map_or(0, |last| last + 1);
            told.truncate(count);
        }
        (0..NODES).for_each(|at| drop(self.agents[at].on_view(&self.view)));
    }

    fn step(&mut self) {
        let (node, other) = (self.pick(NODES), self.pick(NODES));
        match self.random.below(100) {
            0..30 if node != other => self.tell(node, other),
            30..50 => self.send(node, false),
            50..60 => self.send(node, true),
            60..62 => self.restart(node),
            62..70 if !self.letters.is_empty() => {
                let at = self.pick(self.letters.len());
                self.letters.swap_remove(at);
            }
            _ => self.deliver(true),
        }
    }

    /// Lets everything arrive, then compares.
    fn check(&mut self) {
        while self.agents.iter().any(Notes::wait) || !self.letters.is_empty() {
            (0..NODES).for_each(|node| self.send(node, true));
            while !self.letters.is_empty() {
                self.deliver(false);
            }
        }
        for (to, from) in (0..NODES).flat_map(|to| (0..NODES).map(move |from| (to, from))).filter(|(a, b)| a != b) {
            let heard = &self.heard[to][from];
            assert!(heard.iter().all(|of| of.is_sorted_by(|a, b| a < b)), "in order and once: {heard:?}");
            let mut all: Vec<u64> = heard.concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all, self.told[from][to], "{to} has heard all that {from} told it");
        }
    }
}

#[test]
fn every_note_is_heard_in_its_order_and_once_by_each_agent() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = number("SEED").map_or(0..200 * number("CASES").unwrap_or(1), |seed| seed..seed + 1);
    for seed in seeds {
        println!("SEED={seed}");
        let mut world = World::new(seed);
        (0..600).for_each(|_| world.step());
        world.check();
    }
}

fn two() -> (Notes, Notes, View) {
    let seat = |node| Seat { member: member(node), incarnation: 0 };
    let view = View::first(vec![seat(0), seat(1)], 4);
    let (mut one, mut other) = (Notes::new(seat(0)), Notes::new(seat(1)));
    assert_eq!((one.on_view(&view), other.on_view(&view)), (vec![member(1)], vec![member(0)]));
    assert!(one.on_view(&view).is_empty(), "it is known by now");
    (one, other, view)
}

#[test]
fn what_was_answered_is_not_said_again_and_what_was_not_is_the_next_agents() {
    let (mut one, mut other, view) = two();
    assert!((1..=2).all(|number| one.tell(member(1), note(number))));
    let letters = one.take(false);
    assert!(one.take(false).is_empty() && one.take(true) == letters, "until it is answered");
    let heard = other.on_told(letters[0].clone()).unwrap();
    assert_eq!(heard, [note(1), note(2)]);
    let answer = other.take(false);
    assert_eq!((answer.len(), answer[0].heard, answer[0].notes.len()), (1, 2, 0));
    assert_eq!(one.on_told(answer[0].clone()), Some(Vec::new()));
    assert!(!one.wait() && one.take(true).is_empty());
    one.tell(member(1), note(3));
    one.take(false);
    let view = view.restarted(member(1)).unwrap();
    assert_eq!(one.on_view(&view), [member(1)]);
    let mut next = Notes::new(view.seat(member(1)).unwrap());
    next.on_view(&view);
    let letters = one.take(false);
    assert_eq!(other.on_told(letters[0].clone()), None, "it is not for the agent before");
    assert_eq!(next.on_told(letters[0].clone()), Some(vec![note(3)]));
}

#[test]
fn who_answers_nothing_for_long_is_told_no_more_names_but_questions() {
    let (mut one, _, view) = two();
    assert!((0..WAITING_MAX as u64).all(|number| one.tell(member(1), note(number))));
    assert!(!one.tell(member(1), note(1)));
    assert!(one.tell(member(1), Note::KeepOff { on: true, question: 1 }));
    let letters = one.take(false);
    assert!(letters.len() > 1 && letters.iter().all(|letter| letter.notes.len() * size_of::<Note>() <= LETTER_BYTES));
    one.on_view(&view.without(member(1)).unwrap());
    assert!(!one.wait() && !one.tell(member(1), note(1)), "it has no seat");
}
