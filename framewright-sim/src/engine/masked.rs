//! When a CPU had interrupts masked lately.
//!
//! A CPU may be ahead of the others: it learns of an interrupt after the time at which that arrived,
//! and may have masked interrupts since, several times. What counts is whether they were masked when
//! it arrived. Handlers are part of this history: interrupts are masked while one runs, and all that
//! the CPU did after it happened so much later.

use std::cell::Cell;

/// Sections that are remembered. What arrived before them is taken as having arrived while interrupts
/// were not masked.
const REMEMBERED: usize = 16;

/// Interrupts were masked from `start` on, and at `end` no longer.
#[derive(Clone, Copy, Default)]
struct Section {
    start: u64,
    end: u64,
}

impl Section {
    fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// The last sections with interrupts masked, none of which overlap.
#[derive(Default)]
pub(super) struct MaskedSections {
    sections: [Cell<Section>; REMEMBERED],
    /// Where the next goes.
    oldest: Cell<usize>,
}

impl MaskedSections {
    /// Interrupts were masked from `start` to `end`.
    #[inline]
    pub(super) fn note(&self, start: u64, end: u64) {
        let section = Section { start, end };
        if section.is_empty() {
            return;
        }
        let place = self.oldest.get();
        self.sections[place].set(section);
        self.oldest.set((place + 1) % REMEMBERED);
    }

    /// When an interrupt was served that arrived at `arrival`: then, or when they were no longer masked.
    pub(super) fn served_at(&self, arrival: u64) -> u64 {
        let covers = |section: &Section| section.start <= arrival && arrival < section.end;
        let sections = self.sections.iter().map(Cell::get);
        sections.into_iter().find(covers).map_or(arrival, |section| section.end)
    }

    /// A handler ran for `cycles` from `time` on, which was no masked time: what came after is so
    /// much later.
    pub(super) fn insert(&self, time: u64, cycles: u64) {
        let mut joined = false;
        for place in &self.sections {
            let Section { start, end } = place.get();
            if start >= end {
                continue;
            }
            if end == time {
                place.set(Section { start, end: end + cycles });
                joined = true;
            } else if start >= time {
                place.set(Section { start: start + cycles, end: end + cycles });
            }
        }
        if !joined {
            self.note(time, time + cycles);
        }
    }

    /// Nothing was masked.
    pub(super) fn forget(&self) {
        self.sections.iter().for_each(|place| place.set(Section::default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_part_of_the_history() {
        let masked = MaskedSections::default();
        masked.note(10, 20);
        masked.note(30, 30);
        masked.note(30, 40);
        assert_eq!([9, 10, 19, 20, 35].map(|at| masked.served_at(at)), [9, 20, 20, 20, 40]);
        // In the open, and after a masked section.
        masked.insert(25, 2);
        masked.insert(20, 3);
        assert_eq!(
            [15, 22, 23, 27, 28, 29, 30].map(|at| masked.served_at(at)),
            [23, 23, 23, 27, 30, 30, 30]
        );
        assert_eq!([34, 35, 44, 45].map(|at| masked.served_at(at)), [34, 45, 45, 45]);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let masked = MaskedSections::default();
        (0..=REMEMBERED as u64).for_each(|nth| masked.note(10 * nth, 10 * nth + 5));
        assert_eq!((masked.served_at(2), masked.served_at(12)), (2, 15));
        masked.forget();
        assert_eq!(masked.served_at(12), 12);
    }
}
