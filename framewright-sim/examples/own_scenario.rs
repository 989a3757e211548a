//! A hunt for a bug in code that has nothing to do with the library: a pool of slots, whose free slots are on a list
//! that CPUs change without a lock.
//!
//! ```sh
//! cargo run --release -p framewright-sim --example own_scenario
//! ```
//!
//! A CPU takes the first slot of the list in three steps: it reads the head, reads the slot after it, and replaces the
//! head if it is unchanged. With the seeded bug the head has no generation. Then the last step also succeeds if other
//! CPUs have taken two slots meanwhile and returned the first: the head is the same again, but the slot after it is in
//! use (the ABA problem). Every slot must have one owner at most, and none may be lost.
#![forbid(unsafe_code)]

use framewright_sim::{
    engine::{Cpu, Machine, Program},
    scenario::{Kind, ProgramHunt, ProgramResult},
};
use std::{cell::Cell, fmt};

/// The bugs that can be seeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// The head of the list has no generation.
    NoGeneration,
}

const SLOTS: usize = 3;
const CPUS: u16 = 3;
/// The number of times that each CPU takes slots.
const TURNS: u32 = 2;

/// The head of the list: a slot, and the number of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    slot: Option<usize>,
    generation: u32,
}

/// Slots, and the list of those that are free.
struct Pool {
    bug: Option<Bug>,
    head: Cell<Head>,
    /// The free slot after each.
    next: [Cell<Option<usize>>; SLOTS],
    /// The CPU that has the slot: known to the check alone.
    owner: [Cell<Option<usize>>; SLOTS],
}

impl Pool {
    fn new(bug: Option<Bug>) -> Self {
        let after = |slot: usize| Cell::new(Some(slot + 1).filter(|next| *next < SLOTS));
        Self {
            bug,
            head: Cell::new(Head { slot: Some(0), generation: 0 }),
            next: std::array::from_fn(after),
            owner: Default::default(),
        }
    }

    /// Replaces the head if it is `seen`: an atomic operation, which is one step.
    fn replace(&self, cpu: Cpu<'_>, seen: Head, slot: Option<usize>) -> bool {
        cpu.step();
        let same = self.head.get() == seen;
        if same {
            let changes = u32::from(self.bug != Some(Bug::NoGeneration));
            self.head.set(Head { slot, generation: seen.generation + changes });
        }
        same
    }

    /// Takes a slot; `None` if none is free.
    fn take(&self, cpu: Cpu<'_>) -> Option<usize> {
        loop {
            cpu.step();
            let seen = self.head.get();
            let slot = seen.slot?;
            cpu.step();
            if self.replace(cpu, seen, self.next[slot].get()) {
                let me = cpu.id().index();
                if let Some(other) = self.owner[slot].replace(Some(me)) {
                    cpu.fail(format!("slot {slot} of CPU {other} is taken again, by CPU {me}"));
                }
                return Some(slot);
            }
        }
    }

    /// Returns a slot.
    fn put(&self, cpu: Cpu<'_>, slot: usize) {
        self.owner[slot].set(None);
        loop {
            cpu.step();
            let seen = self.head.get();
            self.next[slot].set(seen.slot);
            if self.replace(cpu, seen, Some(slot)) {
                return;
            }
        }
    }

    /// The number of slots on the list. A list with a cycle counts as longer than all slots.
    fn free(&self) -> usize {
        let first = self.head.get().slot;
        std::iter::successors(first, |slot| self.next[*slot].get()).take(SLOTS + 1).count()
    }
}

/// One run: each CPU takes two slots and returns the first before the second. At the end all slots are on the list.
fn scenario(machine: &Machine, bug: Option<Bug>) -> Result<(), String> {
    let pool = Pool::new(bug);
    let program = |_| -> Program<'_> {
        let pool = &pool;
        Box::new(move |cpu| {
            for _ in 0..TURNS {
                let slots = [pool.take(cpu), pool.take(cpu)];
                slots.into_iter().flatten().for_each(|slot| pool.put(cpu, slot));
            }
        })
    };
    machine.run((0..CPUS).map(program).collect()).map_err(|failure| failure.to_string())?;
    match pool.free() {
        SLOTS => Ok(()),
        free => Err(format!("{free} of {SLOTS} slots are on the list at the end")),
    }
}

/// Hunts with a bug, or without one.
fn hunt(bug: Option<Bug>, kind: Kind, schedules: u64) -> ProgramResult {
    let hunt = ProgramHunt { cpus: CPUS, kind, seed: 1, schedules };
    hunt.run(|machine| scenario(machine, bug))
}

/// The result as a line.
struct Line(&'static str, ProgramResult);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.1.found {
            Some(find) => write!(f, "{}: {find}", self.0),
            None => write!(f, "{}: clean, {} schedules tried", self.0, self.1.tried),
        }
    }
}

fn main() {
    println!("{}", Line("no-generation", hunt(Some(Bug::NoGeneration), Kind::Random, 20_000)));
    println!("{}", Line("none", hunt(None, Kind::Random, 20_000)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bug_is_found_and_its_schedule_repeats_it() {
        for kind in [Kind::Random, Kind::Pct { depth: 4 }] {
            let result = hunt(Some(Bug::NoGeneration), kind.clone(), 20_000);
            let find = result.found.unwrap_or_else(|| panic!("{kind} finds nothing"));
            let again = hunt(Some(Bug::NoGeneration), find.schedule.clone(), 1);
            assert_eq!(again.found.map(|find| find.what), Some(find.what));
            assert_eq!(again.misfit, None);
        }
    }

    #[test]
    fn without_the_bug_no_schedule_fails() {
        let clean = hunt(None, Kind::Random, 5_000);
        assert_eq!((clean.found, clean.tried), (None, 5_000));
    }
}
