//! Exhaustive search: all schedules that choose an option other than the ordinary one at most
//! `bound` times.

use super::schedule::Schedule;
use std::{cell::RefCell, rc::Rc};

/// A decision of the current schedule.
#[derive(Clone, Copy)]
struct Fork {
    chosen: u32,
    options: u32,
    /// Whether choices other than 0 are not counted against the bound.
    ordinary: bool,
}

/// The state of a search.
#[derive(Debug, Default)]
pub struct Search {
    forks: Vec<Fork>,
    /// Decisions of this run so far.
    depth: usize,
    /// Choices other than the ordinary one that this run may still make.
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

    /// Advances to the next schedule; `false` if there is none.
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

/// Returns schedules until all have been tried. A schedule deviates from the ordinary one at most
/// `bound` times: it preempts a CPU that could continue, delays an interrupt, lets a store reach
/// memory early, or forces a rare outcome.
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
    /// A search that has tried no schedule.
    #[must_use]
    pub fn new(bound: u32) -> Self {
        let search = Search { bound, left: bound, ..Search::default() };
        Self { search: Rc::new(RefCell::new(search)), tried: 0 }
    }

    /// The next schedule, for exactly one run; `None` if all have been tried.
    #[allow(clippy::should_implement_trait, reason = "a run belongs between two calls")]
    pub fn next(&mut self) -> Option<Schedule> {
        if self.tried > 0 && !self.search.borrow_mut().advance() {
            return None;
        }
        self.tried += 1;
        Some(Schedule::Exhaustive(Rc::clone(&self.search)))
    }

    /// The number of schedules returned so far.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.tried
    }
}
