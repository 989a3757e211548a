//! Exhaustive search: all schedules that leave the ordinary course at most so often.

use super::schedule::Schedule;
use std::{cell::RefCell, rc::Rc};

/// A decision on the way to the schedule that is being tried.
#[derive(Clone, Copy)]
struct Fork {
    chosen: u32,
    options: u32,
    /// Choices other than 0 cost nothing.
    ordinary: bool,
}

/// Where the search is.
#[derive(Debug, Default)]
pub struct Search {
    forks: Vec<Fork>,
    /// Decisions made in this run.
    depth: usize,
    /// Times that this run may still leave the ordinary course.
    left: u32,
    bound: u32,
}

impl std::fmt::Debug for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.chosen, self.options)
    }
}

impl Search {
    pub(super) fn decide(&mut self, options: u32, ordinary: bool) -> u32 {
        if self.depth == self.forks.len() {
            let options = if ordinary || self.left > 0 { options } else { 1 };
            self.forks.push(Fork { chosen: 0, options, ordinary });
        }
        let fork = self.forks[self.depth];
        self.depth += 1;
        self.left -= u32::from(!fork.ordinary && fork.chosen != 0);
        fork.chosen
    }

    /// Goes to the next schedule; `false` if there is none.
    fn advance(&mut self) -> bool {
        self.depth = 0;
        self.left = self.bound;
        while let Some(last) = self.forks.last_mut() {
            if last.chosen + 1 < last.options {
                last.chosen += 1;
                return true;
            }
            self.forks.pop();
        }
        false
    }
}

/// Hands out schedules until all have been tried: those that preempt a CPU that could go on,
/// delay an interrupt, let a store reach memory early or force a rare outcome at most `bound`
/// times in all.
///
/// ```
/// # use framewright_sim::engine::{Exhaustive, Machine, Options};
/// let machine = Machine::new(2, Options::default());
/// let mut search = Exhaustive::new(2);
/// while let Some(schedule) = search.next() {
///     machine.restart(schedule);
///     machine.run(vec![Box::new(|cpu| cpu.step()), Box::new(|cpu| cpu.step())]).unwrap();
/// }
/// assert!(search.tried() > 2);
/// ```
pub struct Exhaustive {
    search: Rc<RefCell<Search>>,
    tried: u64,
}

impl Exhaustive {
    /// A search from the start.
    #[must_use]
    pub fn new(bound: u32) -> Self {
        let search = Search { bound, left: bound, ..Search::default() };
        Self { search: Rc::new(RefCell::new(search)), tried: 0 }
    }

    /// The next schedule, for exactly one run; none if all have been tried.
    #[allow(clippy::should_implement_trait, reason = "a run belongs between two calls")]
    pub fn next(&mut self) -> Option<Schedule> {
        if self.tried > 0 && !self.search.borrow_mut().advance() {
            return None;
        }
        self.tried += 1;
        Some(Schedule::Exhaustive(Rc::clone(&self.search)))
    }

    /// Schedules handed out so far.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.tried
    }
}
