//! Programs one after another, as a batch script runs them: each begins when all ranks are done with the one before.

use serde::{Deserialize, Serialize};

use crate::description::{Description, Problem};
use crate::step::{Phase, Program, Step};

/// As it is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sequence {
    /// What there is to run.
    pub instances: Vec<Description>,
    /// Numbers of the instances to run, one after another, from 0; left out: each once. An instance that is
    /// run more than once has files of its own each time. The place in this order is added to its seed.
    #[serde(default)]
    pub order: Vec<usize>,
    /// At the end all of them read once more what they wrote (S4D, V-B: "the second run").
    #[serde(default)]
    pub read_again: bool,
}

impl Sequence {
    pub(crate) fn program(&self) -> Result<Succession, Problem> {
        let order = if self.order.is_empty() { (0..self.instances.len()).collect() } else { self.order.clone() };
        if order.is_empty() {
            return Err(Problem::new("a sequence needs at least one of instances"));
        }
        let mut described = Vec::new();
        for (place, number) in order.iter().enumerate() {
            let Some(instance) = self.instances.get(*number) else {
                return Err(Problem::new(format!(
                    "order names instance {number}; there are {} and they are counted from 0",
                    self.instances.len()
                )));
            };
            if matches!(instance, Description::Repeat(repeat) if repeat.times.is_none()) {
                return Err(Problem::new(format!(
                    "instance {number} never ends, so that nothing can come after it: give it times"
                )));
            }
            described.push(instance.clone().with_seed_added(place as u64));
        }
        let mut succession = Succession::default();
        for (place, description) in described.iter().enumerate() {
            let program = description.program().map_err(|problem| of_instance(order[place], &problem))?;
            succession.push(program).map_err(|problem| of_instance(order[place], &problem))?;
        }
        for (place, description) in described.into_iter().enumerate().filter(|_| self.read_again) {
            let program = description.reads().program().map_err(|problem| of_instance(order[place], &problem))?;
            succession.push_on_files_of(place, program);
        }
        Ok(succession)
    }
}

fn of_instance(number: usize, problem: &Problem) -> Problem {
    Problem::new(format!("instance {number}: {problem}"))
}

struct Part {
    program: Box<dyn Program>,
    file_first: u32,
    mark_first: u32,
}

/// The program.
#[derive(Default)]
pub struct Succession {
    parts: Vec<Part>,
    file_bytes: Vec<u64>,
    phases: Vec<Phase>,
}

impl Succession {
    /// Another program at the end, with files of its own.
    pub fn push(&mut self, program: Box<dyn Program>) -> Result<(), Problem> {
        if let Some(first) =
            self.parts.first().map(|part| part.program.ranks()).filter(|ranks| *ranks != program.ranks())
        {
            return Err(Problem::new(format!(
                "{} ranks take part, {first} in what comes first; a sequence has as many all along",
                program.ranks()
            )));
        }
        let file_first = self.file_bytes.len() as u32;
        self.file_bytes.extend(program.file_bytes());
        self.append(program, file_first);
        Ok(())
    }

    /// Another program of as many ranks at the end, on the files of an earlier one.
    fn push_on_files_of(&mut self, place: usize, program: Box<dyn Program>) {
        self.append(program, self.parts[place].file_first);
    }

    fn append(&mut self, program: Box<dyn Program>, file_first: u32) {
        let mark_first = 2 * self.phases.len() as u32;
        self.phases.extend(program.phases());
        self.parts.push(Part { program, file_first, mark_first });
    }
}

fn moved(step: Step, file_first: u32, mark_first: u32) -> Step {
    match step {
        Step::Open { file, writable } => Step::Open { file: file + file_first, writable },
        Step::Request { file, direction, range } => Step::Request { file: file + file_first, direction, range },
        Step::List { file, direction, ranges } => Step::List { file: file + file_first, direction, ranges },
        Step::Sync { file } => Step::Sync { file: file + file_first },
        Step::Close { file } => Step::Close { file: file + file_first },
        Step::Mark(mark) => Step::Mark(mark + mark_first),
        Step::Barrier | Step::Think(_) => step,
    }
}

impl Program for Succession {
    fn ranks(&self) -> u32 {
        self.parts.first().map_or(0, |part| part.program.ranks())
    }

    fn file_bytes(&self) -> Vec<u64> {
        self.file_bytes.clone()
    }

    fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        Box::new(self.parts.iter().flat_map(move |part| {
            let (file_first, mark_first) = (part.file_first, part.mark_first);
            part.program.steps(rank).map(move |step| moved(step, file_first, mark_first)).chain([Step::Barrier])
        }))
    }
}
