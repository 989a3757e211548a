//! The owner protocol on processors that reorder loads and stores, explored completely.
//!
//! The steps and their orderings are recorded from the code itself, through a [`RawWord`] that keeps a log.
//! The model performs them as ARMv8 and RISC-V may, with a memory that is the same for all CPUs. Each thread
//! performs its steps in any order, except that
//!
//! * accesses to one word keep their order, but a load may take the value of the thread's own store
//!   before others see it;
//! * no later step is performed before an acquire load, and a release store is performed after all earlier
//!   steps;
//! * a store is performed after the loads and branches that it depends on; a load does not wait for branches;
//! * a remote barrier is a full fence for its caller, and a full fence at some point of the other thread's
//!   program order: all steps before that point have been performed then, and none after it.
//!
//! A branch is modelled as a load that must return the value with which this path was recorded. All
//! paths of the owner are explored.

mod model;
mod record;

use std::{vec, vec::Vec};

use super::owner::Owner;
use crate::platform::OwnerLock;
use model::{Act, DATA, Step, Value, explore};
use record::{Find, Recorder};

/// The steps of the two sides of the protocol, in program order.
#[derive(Clone)]
struct Protocol {
    /// The owner enters, adds one to the data, and leaves.
    entered: Vec<Step>,
    /// The owner finds a drainer and does not enter.
    refused: Vec<Step>,
    /// A drainer takes over and sets the data to zero.
    drain: Vec<Step>,
}

impl Protocol {
    fn recorded() -> Self {
        use Find::{Any, Only};
        let (owner, recorder) = (Owner::<Recorder>::new(OwnerLock::Biased), Recorder::default());
        let enter = recorder.record(&[Only(0)], |on| assert!(owner.enter(on)));
        let leave = recorder.record(&[], |on| owner.leave(on));
        let refused = recorder.record(&[Only(1)], |on| assert!(!owner.enter(on)));
        // The first load of `request` tells which protocol is in use.
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

/// Several programs, one after the other.
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
    /// Explores an owner that tries to enter `visits` times, by every path, concurrently with
    /// `drainers` drainers. Returns whether owner and drainers exclude each other.
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

/// The orderings that the protocol needs: those between the words and the data, and no other. The
/// drainer's compare-exchange needs none, because a full barrier follows it.
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

/// The word that a step accesses, and the operation.
fn step_name(
    protocol: &Protocol,
    of: fn(&mut Protocol) -> &mut Vec<Step>,
    number: usize,
) -> (usize, &'static str) {
    let step = of(&mut protocol.clone())[number];
    (step.place, if step.act == Act::Load { "load" } else { "store" })
}
