//! All orders in which the processor may perform the steps, explored completely.

use std::{collections::HashSet, vec, vec::Vec};

/// The protected data: two words that are always equal.
pub(super) const DATA: [usize; 2] = [2, 3];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Load,
    Store(Value),
    /// A compare-exchange that succeeds, in one step.
    Swap(u32),
    /// A remote barrier on the owner's thread, which is the first.
    RemoteBarrier,
    /// A barrier that does not reach the owner's CPU.
    Fence,
}

impl Act {
    pub(super) fn loads(self) -> bool {
        matches!(self, Act::Load | Act::Swap(_))
    }

    pub(super) fn stores(self) -> bool {
        matches!(self, Act::Store(_) | Act::Swap(_))
    }

    fn is_fence(self) -> bool {
        matches!(self, Act::RemoteBarrier | Act::Fence)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Is(u32),
    /// One more than the value of the load with this number, counted from the start of the program.
    OneMoreThan(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) act: Act,
    pub(super) place: usize,
    /// The value that the load must return for the program to take this path.
    pub(super) only: Option<u32>,
    pub(super) acquire: bool,
    pub(super) release: bool,
}

impl Step {
    pub(super) fn new(act: Act, place: usize) -> Self {
        Self { act, place, only: None, acquire: false, release: false }
    }

    /// Whether this step must be performed before `later`, which follows in program order. `own` is
    /// the number of this step.
    fn holds_back(&self, own: usize, later: &Step) -> bool {
        let needs = matches!(later.act, Act::Store(Value::OneMoreThan(load)) if load == own);
        let forwards = matches!(self.act, Act::Store(_)) && later.act == Act::Load;
        needs
            || self.acquire
            || later.release
            || self.act.is_fence()
            || later.act.is_fence()
            || self.only.is_some() && later.act.stores()
            || self.place == later.place && !forwards
    }
}

const STEPS: usize = 24;
const THREADS: usize = 3;

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    memory: [u32; 4],
    /// The steps that each thread has performed, one bit per step.
    done: [u32; THREADS],
    /// The values that the loads of each thread have returned, by step.
    found: [[u32; STEPS]; THREADS],
}

impl State {
    fn is_done(&self, thread: usize, step: usize) -> bool {
        self.done[thread] >> step & 1 == 1
    }

    /// The value that a step stores, if it is known already.
    fn stored(&self, thread: usize, step: &Step) -> Option<u32> {
        match step.act {
            Act::Store(Value::Is(value)) | Act::Swap(value) => Some(value),
            Act::Store(Value::OneMoreThan(load)) => {
                self.is_done(thread, load).then(|| self.found[thread][load] + 1)
            }
            _ => None,
        }
    }

    /// The state after a step, if the step can be performed now.
    fn after(&self, thread: usize, number: usize, program: &[Step]) -> Option<Self> {
        let step = &program[number];
        let mut waiting = (0..number).filter(|&i| !self.is_done(thread, i));
        if waiting.clone().any(|i| program[i].holds_back(i, step)) {
            return None;
        }
        let mut next = self.clone();
        if step.act.loads() {
            let own = waiting.rfind(|&i| program[i].act.stores() && program[i].place == step.place);
            let value = match own {
                Some(store) => self.stored(thread, &program[store])?,
                None => self.memory[step.place],
            };
            if step.only.is_some_and(|only| only != value) {
                return None;
            }
            next.found[thread][number] = value;
        }
        if step.act.stores() {
            next.memory[step.place] = self.stored(thread, step)?;
        }
        // The owner has performed all steps up to some point, and none after it.
        if step.act == Act::RemoteBarrier && !(self.done[0] + 1).is_power_of_two() {
            return None;
        }
        next.done[thread] |= 1 << number;
        Some(next)
    }
}

/// Runs the programs in every possible order. Returns the number of final states, or the memory of
/// a final state in which two sides were inside at once.
pub(super) fn explore(programs: &[Vec<Step>]) -> Result<usize, [u32; 4]> {
    let mut seen = HashSet::from([State::default()]);
    let mut left = vec![State::default()];
    let mut ends = 0;
    while let Some(state) = left.pop() {
        let all = |(thread, program): (usize, &Vec<Step>)| {
            state.done[thread].count_ones() as usize == program.len()
        };
        if programs.iter().enumerate().all(all) {
            ends += 1;
            check(&state, programs)?;
            continue;
        }
        for (thread, program) in programs.iter().enumerate() {
            for number in (0..program.len()).filter(|&i| !state.is_done(thread, i)) {
                let next = state.after(thread, number, program);
                left.extend(next.filter(|next| seen.insert(next.clone())));
            }
        }
    }
    Ok(ends)
}

/// Checks that neither side saw half of the other side's work, and that no addition was lost.
fn check(state: &State, programs: &[Vec<Step>]) -> Result<(), [u32; 4]> {
    let (mut added, mut taken, mut torn) = (0, 0, false);
    for (program, found) in programs.iter().zip(&state.found) {
        let numbers = |place| {
            let of = move |step: &Step| step.act == Act::Load && step.place == place;
            (0..program.len()).filter(move |&i| of(&program[i]))
        };
        torn |= numbers(DATA[0]).zip(numbers(DATA[1])).any(|(a, b)| found[a] != found[b]);
        let drains = program.iter().any(|step| matches!(step.act, Act::Swap(_)));
        if drains {
            taken += numbers(DATA[0]).map(|i| found[i]).sum::<u32>();
        } else {
            added += numbers(DATA[0]).count() as u32;
        }
    }
    let [_, _, first, second] = state.memory;
    let whole = !torn && first == second && added == taken + first;
    if whole { Ok(()) } else { Err(state.memory) }
}
