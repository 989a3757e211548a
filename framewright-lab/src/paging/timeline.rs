//! How far it all is: when it ends, and what happened hour by hour.
//!
//! An *hour* is a twenty-fourth of a day of turnovers, or of the whole work where there are no days. It is
//! counted in pages brought into memory, so that hours are equally much work however long they take.

use std::cell::{Cell, RefCell};

/// Parts that a timeline is told in.
pub(super) const HOURS: u64 = 24;

/// What happened in an hour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Hour {
    /// When it ended, in cycles.
    pub(super) end: u64,
    /// Pages that programs used in it.
    pub(super) pages: u64,
    /// The longest that a program waited for a page in it, in cycles.
    pub(super) stall: u64,
    /// Share of free memory that could not serve a request of order 3, in thousandths, at its end.
    pub(super) unusable: u64,
    /// Requests for huge pages in it.
    pub(super) huge: u64,
    /// Of these, those that got one and did nothing for it.
    pub(super) unstalled: u64,
}

/// Requests for huge pages, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Huge {
    pub(crate) requests: u64,
    pub(crate) served: u64,
    /// Of these, without reclaiming or compacting.
    pub(crate) unstalled: u64,
    /// The longest that one took, in cycles.
    pub(crate) longest: u64,
}

/// One run's progress, which all event loops see.
pub(super) struct Timeline<'c> {
    /// Pages in an hour.
    hour: u64,
    /// Hours; none if it ends when every program has.
    hours: Option<u64>,
    /// Programs that have not ended.
    programs: Cell<u64>,
    /// When the last of them did, in cycles.
    ended: Cell<u64>,
    current: Cell<Hour>,
    past: RefCell<Vec<Hour>>,
    /// The longest wait of all, in cycles.
    stall: Cell<u64>,
    /// Pages that programs used so far.
    used: Cell<u64>,
    huge: Cell<Huge>,
    tell: &'c dyn Fn(u64),
}

impl<'c> Timeline<'c> {
    /// A timeline of `hours` hours, each of `hour` pages; or of as many as programs take.
    pub(super) fn new(hour: u64, hours: Option<u64>, programs: u64, tell: &'c dyn Fn(u64)) -> Self {
        Self {
            hour: hour.max(1),
            hours,
            programs: Cell::new(programs),
            ended: Cell::new(0),
            current: Cell::default(),
            past: RefCell::default(),
            stall: Cell::new(0),
            used: Cell::new(0),
            huge: Cell::default(),
            tell,
        }
    }

    /// A program used a page that it had waited for so long.
    #[inline]
    pub(super) fn used(&self, waited: u64) {
        let mut hour = self.current.get();
        hour.pages += 1;
        hour.stall = hour.stall.max(waited);
        self.current.set(hour);
        self.stall.set(self.stall.get().max(waited));
        self.used.set(self.used.get() + 1);
    }

    /// A program asked for a huge page, and got one or not, which took so long; it had to reclaim or
    /// compact for it or not.
    pub(super) fn asked_for_huge(&self, served: bool, stalled: bool, took: u64) {
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

    /// Pages that programs used so far.
    pub(super) fn pages(&self) -> u64 {
        self.used.get()
    }

    /// Pages that were brought into memory, at a time; what is `unusable` is looked up if an hour has
    /// passed.
    pub(super) fn look(&self, brought: u64, now: u64, unusable: impl FnOnce() -> u64) {
        let passed = self.past.borrow().len();
        if brought < (passed as u64 + 1) * self.hour {
            return;
        }
        self.past.borrow_mut().push(Hour { end: now, ..self.current.take() });
        // Others go on meanwhile, and must find that the hour has passed.
        let unusable = unusable();
        self.past.borrow_mut()[passed].unusable = unusable;
        (self.tell)(passed as u64 + 1);
    }

    /// A program has come to its end.
    pub(super) fn ends(&self, now: u64) {
        self.programs.set(self.programs.get() - 1);
        self.ended.set(self.ended.get().max(now));
    }

    /// Whether it is all over.
    pub(super) fn is_over(&self) -> bool {
        match self.hours {
            Some(hours) => self.past.borrow().len() as u64 >= hours,
            None => self.programs.get() == 0,
        }
    }

    /// When it was over, in cycles.
    pub(super) fn end(&self) -> u64 {
        let last = self.past.borrow().last().map_or(0, |hour| hour.end);
        if self.hours.is_some() { last } else { self.ended.get() }
    }

    /// The longest that a program waited for a page, in cycles.
    pub(super) fn stall(&self) -> u64 {
        self.stall.get()
    }

    /// All hours.
    pub(super) fn hours(&self) -> Vec<Hour> {
        self.past.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_equally_much_work() {
        let told = Cell::new(0);
        let tell = |hour| told.set(hour);
        let timeline = Timeline::new(100, Some(2), 1, &tell);
        timeline.used(5);
        timeline.used(9);
        timeline.look(99, 10, || unreachable!());
        timeline.look(100, 20, || 7);
        timeline.used(1);
        timeline.asked_for_huge(true, false, 3);
        timeline.asked_for_huge(true, true, 7);
        timeline.asked_for_huge(false, true, 5);
        timeline.look(199, 30, || unreachable!());
        assert!(!timeline.is_over());
        timeline.look(230, 40, || 8);
        assert!(timeline.is_over() && told.get() == 2);
        let hours = timeline.hours();
        assert_eq!(
            hours[0],
            Hour { end: 20, pages: 2, stall: 9, unusable: 7, huge: 0, unstalled: 0 }
        );
        assert_eq!(
            hours[1],
            Hour { end: 40, pages: 1, stall: 1, unusable: 8, huge: 3, unstalled: 1 }
        );
        assert_eq!((timeline.end(), timeline.stall(), timeline.pages()), (40, 9, 3));
        assert_eq!(timeline.huge(), Huge { requests: 3, served: 2, unstalled: 1, longest: 7 });
    }

    #[test]
    fn without_days_it_ends_when_every_program_has() {
        let timeline = Timeline::new(100, None, 2, &|_| ());
        timeline.ends(70);
        assert!(!timeline.is_over());
        timeline.ends(50);
        assert!(timeline.is_over());
        assert_eq!(timeline.end(), 70);
    }
}
