//! The owner protocol on processors that reorder loads and stores, explored completely.
//!
//! The steps and their orderings are not written down here: they are recorded from the code itself,
//! through a [`RawWord`] that keeps a log. The model performs them as ARMv8 and RISC-V may, where all
//! CPUs see one memory: each thread performs its steps in any order, except that
//!
//! * steps at one place keep their order, but a load may take the value of the thread's own store
//!   before others see it;
//! * nothing after an acquiring load is performed before it, and a releasing store is performed after
//!   everything before it;
//! * a store waits for the values and branches that it depends on; a load does not wait for branches;
//! * a remote barrier is a full fence for its caller, and at some point of the other thread's program
//!   order: at that moment everything before the point has been performed, and nothing after it.
//!
//! A branch is a load that must find the value with which this path was recorded. Every path of the
//! owner is tried.

#![allow(unsafe_code)]

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, OnceLock},
    vec,
    vec::Vec,
};

use super::owner::Owner;
use crate::{
    frame::{Order, Pfn},
    platform::{BarrierTarget, OwnerLock, Platform, Wait},
    sync::{Ordering, RawWord, SpinFlag},
};

// ---- what the code does ---------------------------------------------------------------------

/// A machine that logs what is done with its words.
#[derive(Default)]
struct Recorder(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// Words used so far.
    places: usize,
    /// What the next loads find.
    answers: VecDeque<Find>,
    steps: Vec<Step>,
}

/// What a recorded load found: the path depends on it, or does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Find {
    Only(u32),
    Any(u32),
}

impl Recorder {
    /// Records what `run` does when its loads find `answers`.
    fn record(&self, answers: &[Find], run: impl FnOnce(&Self)) -> Vec<Step> {
        self.0.lock().unwrap().answers.extend(answers);
        run(self);
        let mut log = self.0.lock().unwrap();
        assert!(log.answers.is_empty(), "fewer loads than expected");
        std::mem::take(&mut log.steps)
    }

    fn log(&self, word: &Word, act: Act, order: Ordering) -> u32 {
        let mut log = self.0.lock().unwrap();
        let place = *word.0.get_or_init(|| log.places);
        log.places = log.places.max(place + 1);
        let (loads, stores) = (act.loads(), act.stores());
        let find = loads.then(|| log.answers.pop_front().expect("an answer for each load"));
        let acquire = loads && !matches!(order, Ordering::Relaxed | Ordering::Release);
        let release = stores && !matches!(order, Ordering::Relaxed | Ordering::Acquire);
        let only = find.and_then(|find| if let Find::Only(v) = find { Some(v) } else { None });
        log.steps.push(Step { act, place, only, acquire, release });
        find.map_or(0, |find| match find {
            Find::Only(value) | Find::Any(value) => value,
        })
    }
}

/// A word, which has a number from its first use on.
struct Word(OnceLock<usize>);

// SAFETY: one thread records; nothing is excluded by these words.
unsafe impl RawWord<Recorder> for Word {
    fn new(_: u32) -> Self {
        Self(OnceLock::new())
    }

    fn load(&self, recorder: &Recorder, order: Ordering) -> u32 {
        recorder.log(self, Act::Load, order)
    }

    fn store(&self, recorder: &Recorder, value: u32, order: Ordering) {
        recorder.log(self, Act::Store(Value::Is(value)), order);
    }

    fn compare_exchange(
        &self,
        recorder: &Recorder,
        current: u32,
        new: u32,
        success: Ordering,
        _: Ordering,
    ) -> Result<u32, u32> {
        let found = recorder.log(self, Act::Swap(new), success);
        if found == current { Ok(found) } else { Err(found) }
    }
}

// SAFETY: no memory is made on it.
unsafe impl Platform for Recorder {
    type Lock = SpinFlag;
    type Word = Word;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, _: Wait, _: u32) {
        panic!("a recorded path does not wait");
    }

    fn clear(&self, _: Pfn, _: Order) {}
    fn copy(&self, _: Pfn, _: Pfn) {}

    fn now(&self) -> u64 {
        0
    }
}

/// Where the data lie that the protocol protects: two words that are always equal.
const DATA: [usize; 2] = [2, 3];

/// What the sides of the protocol do, in program order.
#[derive(Clone)]
struct Protocol {
    /// The owner gets in, adds one to the data, and leaves.
    entered: Vec<Step>,
    /// The owner finds a drainer.
    refused: Vec<Step>,
    /// A drainer empties the data.
    drain: Vec<Step>,
}

impl Protocol {
    fn recorded() -> Self {
        use Find::{Any, Only};
        let (owner, recorder) = (Owner::<Recorder>::new(OwnerLock::Biased), Recorder::default());
        let enter = recorder.record(&[Only(0)], |on| assert!(owner.enter(on)));
        let leave = recorder.record(&[], |on| owner.leave(on));
        let refused = recorder.record(&[Only(1)], |on| assert!(!owner.enter(on)));
        // First the kind of the protocol is read, from the word of the request.
        let announce = recorder.record(&[Any(0), Only(0)], |on| owner.announce(on));
        let take_over = recorder.record(&[Any(1), Only(0)], |on| owner.take_over(on));
        let release = recorder.record(&[Any(1)], |on| owner.release(on));
        let loads = DATA.map(|place| Step::new(Act::Load, place));
        let add = |before: &[Step]| {
            let one_more = |i| Act::Store(Value::OneMoreThan(before.len() + i));
            [0, 1].map(|i| Step::new(one_more(i), DATA[i]))
        };
        let empty = DATA.map(|place| Step::new(Act::Store(Value::Is(0)), place));
        let barrier = vec![Step::new(Act::RemoteBarrier, usize::MAX)];
        Self {
            entered: [&enter[..], &loads, &add(&enter), &leave].concat(),
            refused,
            drain: [&announce[..], &barrier, &take_over, &loads, &empty, &release].concat(),
        }
    }
}

// ---- what the processor may make of it ------------------------------------------------------

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Load,
    Store(Value),
    /// A compare-exchange that succeeds, in one step.
    Swap(u32),
    /// On the thread of the owner, which is the first.
    RemoteBarrier,
    /// What is left of it if the owner's CPU is not reached.
    Fence,
}

impl Act {
    fn loads(self) -> bool {
        matches!(self, Act::Load | Act::Swap(_))
    }

    fn stores(self) -> bool {
        matches!(self, Act::Store(_) | Act::Swap(_))
    }

    fn is_fence(self) -> bool {
        matches!(self, Act::RemoteBarrier | Act::Fence)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Is(u32),
    /// Than the load with this number found, counted from the start of the program.
    OneMoreThan(usize),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    act: Act,
    place: usize,
    /// What it has to find, for the program to come this way.
    only: Option<u32>,
    acquire: bool,
    release: bool,
}

impl Step {
    fn new(act: Act, place: usize) -> Self {
        Self { act, place, only: None, acquire: false, release: false }
    }

    /// Whether a step after this one in program order has to be performed after it. `own` is the
    /// number of this one.
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
    /// Which steps each thread has performed.
    done: [u32; THREADS],
    found: [[u32; STEPS]; THREADS],
}

impl State {
    fn is_done(&self, thread: usize, step: usize) -> bool {
        self.done[thread] >> step & 1 == 1
    }

    /// The value that a step stores, if it is known yet.
    fn stored(&self, thread: usize, step: &Step) -> Option<u32> {
        match step.act {
            Act::Store(Value::Is(value)) | Act::Swap(value) => Some(value),
            Act::Store(Value::OneMoreThan(load)) => {
                self.is_done(thread, load).then(|| self.found[thread][load] + 1)
            }
            _ => None,
        }
    }

    /// The state after a step, if it can be performed now.
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
        // The owner has performed everything up to a point, and nothing after it.
        if step.act == Act::RemoteBarrier && !(self.done[0] + 1).is_power_of_two() {
            return None;
        }
        next.done[thread] |= 1 << number;
        Some(next)
    }
}

/// Runs the programs in every way there is. Says how many ends were reached, or how one of them shows
/// that two sides were inside at once.
fn explore(programs: &[Vec<Step>]) -> Result<usize, [u32; 4]> {
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

/// No side saw the other's work half done, and nothing was lost.
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

/// Programs one after the other.
fn in_turn(parts: &[&[Step]]) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for part in parts {
        let start = all.len();
        all.extend(part.iter().map(|step| match step.act {
            Act::Store(Value::OneMoreThan(load)) => {
                Step { act: Act::Store(Value::OneMoreThan(start + load)), ..*step }
            }
            _ => *step,
        }));
    }
    all
}

impl Protocol {
    /// Explores an owner that comes `visits` times, by every path, beside some drainers. Says whether
    /// they exclude each other.
    fn excludes(&self, visits: u32, drainers: usize) -> bool {
        let mut ends = Vec::new();
        for path in 0..1 << visits {
            let visit = |i| if path >> i & 1 == 0 { &self.entered[..] } else { &self.refused };
            let owner = in_turn(&(0..visits).map(visit).collect::<Vec<_>>());
            let mut programs = vec![owner];
            programs.extend(std::iter::repeat_n(self.drain.clone(), drainers));
            match explore(&programs) {
                Ok(count) => ends.push(count),
                Err(_) => return false,
            }
        }
        assert!(
            ends.iter().all(|&count| count > 0),
            "a path of the owner is never taken: {ends:?}"
        );
        true
    }
}

#[test]
fn owner_and_drainers_exclude_each_other_on_weak_memory() {
    let protocol = Protocol::recorded();
    assert!(protocol.excludes(1, 1));
    assert!(protocol.excludes(2, 1));
    assert!(protocol.excludes(1, 2));
}

#[test]
fn they_do_not_without_the_remote_barrier() {
    let mut protocol = Protocol::recorded();
    let barrier = protocol.drain.iter_mut().find(|step| step.act == Act::RemoteBarrier);
    barrier.unwrap().act = Act::Fence;
    assert!(!protocol.excludes(1, 1));
}

#[test]
fn they_do_not_if_the_barrier_comes_before_the_announcement() {
    let mut protocol = Protocol::recorded();
    let at = protocol.drain.iter().position(|step| step.act == Act::RemoteBarrier).unwrap();
    protocol.drain[..=at].rotate_right(1);
    assert!(!protocol.excludes(1, 1));
}

#[test]
fn they_do_not_if_the_compiler_moves_the_owners_load_up() {
    let mut protocol = Protocol::recorded();
    protocol.entered.swap(0, 1);
    assert!(!protocol.excludes(1, 1));
}

/// The orderings of steps that the protocol does not hold without: those between the words and the
/// data, and no other. The drainer's compare-exchange is followed by a full barrier.
#[test]
fn four_orderings_carry_the_data_over() {
    let protocol = Protocol::recorded();
    let needed = |of: fn(&mut Protocol) -> &mut Vec<Step>| {
        let mut needed = Vec::new();
        for i in 0..of(&mut protocol.clone()).len() {
            let mut weaker = protocol.clone();
            let step = &mut of(&mut weaker)[i];
            if !step.acquire && !step.release {
                continue;
            }
            let ordering = if step.acquire { "acquire" } else { "release" };
            (step.acquire, step.release) = (false, false);
            if !(weaker.excludes(2, 1) && weaker.excludes(1, 2)) {
                needed.push((ordering, step_name(&protocol, of, i)));
            }
        }
        needed
    };
    assert_eq!(
        needed(|protocol| &mut protocol.entered),
        [("acquire", (1, "load")), ("release", (0, "store"))]
    );
    assert_eq!(needed(|protocol| &mut protocol.refused), []);
    assert_eq!(
        needed(|protocol| &mut protocol.drain),
        [("acquire", (0, "load")), ("release", (1, "store"))]
    );
}

/// The place of a step, and what it does.
fn step_name(
    protocol: &Protocol,
    of: fn(&mut Protocol) -> &mut Vec<Step>,
    number: usize,
) -> (usize, &'static str) {
    let step = of(&mut protocol.clone())[number];
    (step.place, if step.act == Act::Load { "load" } else { "store" })
}
