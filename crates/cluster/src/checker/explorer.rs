//! Breadth first through all states, then backwards from those in which nobody waits.
//!
//! Not stateright: what has to hold of the end is that from every state everything *can* end by steps that are no
//! faults, whatever happened before. Its `eventually` says something else, and nothing certain where paths join or go
//! round in circles, as they do with every message that is said again.

use std::fmt::Debug;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::shared::hash_of;

/// What is searched.
pub(super) trait System: Clone + Hash {
    type Action: Copy + Debug;
    /// What can happen.
    fn actions(&self) -> Vec<Self::Action>;
    /// It happens; an invariant that is broken is named.
    fn act(&mut self, action: Self::Action) -> Result<(), String>;
    /// Whether it is no fault and nothing new, so that the end may rely on it.
    fn is_helpful(&self, action: Self::Action) -> bool;
    /// Whether nobody waits.
    fn is_over(&self) -> bool;
}

/// What was found.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) states: usize,
    /// What is broken, and the shortest way there.
    pub(super) broken: Option<(String, Vec<String>)>,
}

struct Search<S: System> {
    first: S,
    index: FxHashMap<u64, u32>,
    /// From which state, by which of its actions.
    parents: Vec<(u32, u16)>,
    /// Where helpful actions lead, backwards: (to, from).
    helpful: Vec<(u32, u32)>,
    over: Vec<u32>,
}

/// Searches all states.
pub(super) fn explore<S: System>(first: S) -> Report {
    let mut search = Search {
        index: FxHashMap::default(),
        parents: vec![(0, 0)],
        helpful: Vec::new(),
        over: Vec::new(),
        first: first.clone(),
    };
    search.index.insert(hash_of(&first), 0);
    let mut frontier = vec![(0u32, first)];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (at, state) in frontier {
            if let Err((broken, action)) = search.expand(at, &state, &mut next) {
                let mut steps = search.trace(at);
                steps.push(action);
                return Report { states: search.parents.len(), broken: Some((broken, steps)) };
            }
        }
        frontier = next;
    }
    let broken = search.stuck().map(|at| ("nobody can end".to_string(), search.trace(at)));
    Report { states: search.parents.len(), broken }
}

impl<S: System> Search<S> {
    fn expand(&mut self, at: u32, state: &S, next: &mut Vec<(u32, S)>) -> Result<(), (String, String)> {
        if state.is_over() {
            self.over.push(at);
        }
        for (which, action) in state.actions().into_iter().enumerate() {
            let mut after = state.clone();
            after.act(action).map_err(|broken| (broken, format!("{action:?}")))?;
            let new = self.parents.len() as u32;
            let to = *self.index.entry(hash_of(&after)).or_insert(new);
            if to == new {
                self.parents.push((at, which as u16));
                next.push((new, after));
            }
            if to != at && state.is_helpful(action) {
                self.helpful.push((to, at));
            }
        }
        Ok(())
    }

    /// The first state from which no helpful actions lead to one in which nobody waits.
    fn stuck(&mut self) -> Option<u32> {
        self.helpful.sort_unstable();
        let mut can = vec![false; self.parents.len()];
        let mut left = std::mem::take(&mut self.over);
        left.iter().for_each(|at| can[*at as usize] = true);
        while let Some(to) = left.pop() {
            let first = self.helpful.partition_point(|edge| edge.0 < to);
            for (_, from) in self.helpful[first..].iter().take_while(|edge| edge.0 == to) {
                if !std::mem::replace(&mut can[*from as usize], true) {
                    left.push(*from);
                }
            }
        }
        can.iter().position(|can| !can).map(|at| at as u32)
    }

    fn trace(&self, mut at: u32) -> Vec<String> {
        let mut which = Vec::new();
        while at != 0 {
            let (parent, action) = self.parents[at as usize];
            which.push(action);
            at = parent;
        }
        let mut state = self.first.clone();
        let mut steps = Vec::new();
        for action in which.into_iter().rev() {
            let action = state.actions()[action as usize];
            steps.push(format!("{action:?}"));
            state.act(action).expect("the search came by here");
        }
        steps
    }
}
