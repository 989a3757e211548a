//! The timeline of a run: its progress and end, and results hour by hour.
//!
//! Time is counted in pages that are read into memory. The workload `cdn` defines the number of
//! pages of a *day*, and an *hour* is a twenty-fourth of these. A workload without days has 24
//! hours in all. So all hours have the same amount of work. Progress is reported after each.

use std::cell::{Cell, RefCell};

pub(super) use crate::workloads::cdn::HOURS;

/// The results of an hour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Hour {
    /// Its end, in cycles.
    pub(crate) end: u64,
    /// Pages that programs used.
    pub(crate) pages: u64,
    /// The longest wait of a program for a page, in cycles.
    pub(super) stall: u64,
    /// The blocks of memory at its end.
    pub(crate) blocks: Blocks,
    /// Requests for huge pages in it.
    pub(super) huge: u64,
    /// Of these, those that succeeded without reclaim and compaction.
    pub(super) unstalled: u64,
}

/// Free blocks, and blocks that could be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blocks {
    /// Unusable free space index of order 3, in thousandths.
    pub(crate) unusable: u64,
    /// Free blocks of order 9.
    pub(crate) free_huge: u64,
    /// Pageblocks without a block of the kernel: compaction could form a block of order 9 of each.
    pub(crate) movable: u64,
}

/// Requests for huge pages of the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Huge {
    pub(crate) requests: u64,
    pub(crate) served: u64,
    /// Of these, those that succeeded without reclaim and compaction.
    pub(crate) unstalled: u64,
    /// The longest latency, in cycles.
    pub(crate) longest: u64,
}

/// The timeline of one run, shared by all event loops.
pub(super) struct Timeline<'c> {
    /// Pages read in an hour.
    hour: u64,
    /// Number of hours; `None` if the run ends with its programs.
    hours: Option<u64>,
    /// Programs that are still running.
    programs: Cell<u64>,
    /// The end of the last program, in cycles.
    ended: Cell<u64>,
    current: Cell<Hour>,
    past: RefCell<Vec<Hour>>,
    /// The longest wait of the run, in cycles.
    stall: Cell<u64>,
    /// A wait longer than this, in cycles, is a freeze.
    freeze: u64,
    /// The number of freezes.
    freezes: Cell<u64>,
    /// Pages that programs have used.
    used: Cell<u64>,
    huge: Cell<Huge>,
    tell: &'c dyn Fn(u64),
}

impl<'c> Timeline<'c> {
    /// A timeline of `hours` hours with `hour` read pages each; `None`: until all programs have
    /// ended. A wait of more than `freeze` cycles is a freeze.
    pub(super) fn new(
        hour: u64,
        hours: Option<u64>,
        programs: u64,
        freeze: u64,
        tell: &'c dyn Fn(u64),
    ) -> Self {
        Self {
            hour: hour.max(1),
            hours,
            programs: Cell::new(programs),
            ended: Cell::new(0),
            current: Cell::default(),
            past: RefCell::default(),
            stall: Cell::new(0),
            freeze,
            freezes: Cell::new(0),
            used: Cell::new(0),
            huge: Cell::default(),
            tell,
        }
    }

    /// Records the use of a page after a wait of `waited` cycles.
    #[inline]
    pub(super) fn used(&self, waited: u64) {
        let mut hour = self.current.get();
        hour.pages += 1;
        hour.stall = hour.stall.max(waited);
        self.current.set(hour);
        self.stall.set(self.stall.get().max(waited));
        self.used.set(self.used.get() + 1);
        self.freezes.set(self.freezes.get() + u64::from(waited > self.freeze));
    }

    /// Records a request for a huge page: whether it succeeded, whether it ran reclaim or
    /// compaction, and its latency.
    pub(super) fn record_huge_request(&self, served: bool, stalled: bool, took: u64) {
        let (mut hour, mut all) = (self.current.get(), self.huge.get());
        let unstalled = u64::from(served && !stalled);
        hour.huge += 1;
        hour.unstalled += unstalled;
        all.requests += 1;
        all.served += u64::from(served);
        all.unstalled += unstalled;
        all.longest = all.longest.max(took);
        self.current.set(hour);
        self.huge.set(all);
    }

    /// Requests for huge pages so far.
    pub(super) fn huge(&self) -> Huge {
        self.huge.get()
    }

    /// Pages that programs have used.
    pub(super) fn pages(&self) -> u64 {
        self.used.get()
    }

    /// Ends the hour if it has passed: `pages_read` pages were read into memory by `now`. Then
    /// calls `blocks`.
    pub(super) fn advance(&self, pages_read: u64, now: u64, blocks: impl FnOnce() -> Blocks) {
        let passed = self.past.borrow().len();
        if pages_read < (passed as u64 + 1) * self.hour {
            return;
        }
        self.past.borrow_mut().push(Hour { end: now, ..self.current.take() });
        // Other CPUs run meanwhile, and must see that the hour has passed.
        let blocks = blocks();
        self.past.borrow_mut()[passed].blocks = blocks;
        (self.tell)(passed as u64 + 1);
    }

    /// A program has ended.
    pub(super) fn ends(&self, now: u64) {
        self.programs.set(self.programs.get() - 1);
        self.ended.set(self.ended.get().max(now));
    }

    /// Whether the run has ended.
    pub(super) fn is_over(&self) -> bool {
        match self.hours {
            Some(hours) => self.past.borrow().len() as u64 >= hours,
            None => self.programs.get() == 0,
        }
    }

    /// The end of the run, in cycles.
    pub(super) fn end(&self) -> u64 {
        let last = self.past.borrow().last().map_or(0, |hour| hour.end);
        if self.hours.is_some() { last } else { self.ended.get() }
    }

    /// The longest wait of a program for a page, in cycles.
    pub(super) fn stall(&self) -> u64 {
        self.stall.get()
    }

    /// The number of waits that were freezes.
    pub(super) fn freezes(&self) -> u64 {
        self.freezes.get()
    }

    /// All hours.
    pub(super) fn hours(&self) -> Vec<Hour> {
        self.past.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusable(thousandths: u64) -> Blocks {
        Blocks { unusable: thousandths, ..Blocks::default() }
    }

    #[test]
    fn hours_have_equal_amounts_of_work() {
        let told = Cell::new(0);
        let tell = |hour| told.set(hour);
        let timeline = Timeline::new(100, Some(2), 1, 8, &tell);
        timeline.used(5);
        timeline.used(9);
        timeline.advance(99, 10, || unreachable!());
        timeline.advance(100, 20, || unusable(7));
        timeline.used(1);
        timeline.record_huge_request(true, false, 3);
        timeline.record_huge_request(true, true, 7);
        timeline.record_huge_request(false, true, 5);
        timeline.advance(199, 30, || unreachable!());
        assert!(!timeline.is_over());
        timeline.advance(230, 40, || unusable(8));
        assert!(timeline.is_over() && told.get() == 2);
        let hours = timeline.hours();
        assert_eq!(
            hours[0],
            Hour { end: 20, pages: 2, stall: 9, blocks: unusable(7), huge: 0, unstalled: 0 }
        );
        assert_eq!(
            hours[1],
            Hour { end: 40, pages: 1, stall: 1, blocks: unusable(8), huge: 3, unstalled: 1 }
        );
        assert_eq!(timeline.freezes(), 1, "one wait of more than 8 cycles");
        assert_eq!((timeline.end(), timeline.stall(), timeline.pages()), (40, 9, 3));
        assert_eq!(timeline.huge(), Huge { requests: 3, served: 2, unstalled: 1, longest: 7 });
    }

    #[test]
    fn without_days_the_run_ends_with_its_programs() {
        let timeline = Timeline::new(100, None, 2, 8, &|_| ());
        timeline.ends(70);
        assert!(!timeline.is_over());
        timeline.ends(50);
        assert!(timeline.is_over());
        assert_eq!(timeline.end(), 70);
    }
}
