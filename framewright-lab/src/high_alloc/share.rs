//! How far a run is, for whoever waits for it.

use std::cell::Cell;

/// Parts of a run that are told of.
pub(super) const PARTS: u64 = 1000;
/// Parts of a course that take about as long: the beginning, and three passes.
const STAGES: u64 = 4;

/// What of a run is done.
pub(super) struct Share<'s> {
    /// Hears of parts that were done besides.
    tell: &'s (dyn Fn(u64) + Sync),
    told: Cell<u64>,
}

impl<'s> Share<'s> {
    /// Of a run of which nothing is done.
    pub(super) fn new(tell: &'s (dyn Fn(u64) + Sync)) -> Self {
        Self { tell, told: Cell::new(0) }
    }

    /// All stages before this one are done, and of this `done` of `total`.
    pub(super) fn reach(&self, stage: u64, done: u64, total: u64) {
        let total = total.max(1);
        let now = (stage * total + done.min(total)) * PARTS / (STAGES * total);
        let more = now.saturating_sub(self.told.get());
        if more > 0 {
            self.told.set(now);
            (self.tell)(more);
        }
    }

    /// All of it is done.
    pub(super) fn end(&self) {
        self.reach(STAGES, 0, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn parts_add_up_and_none_is_told_twice() {
        let told = Mutex::new(Vec::new());
        let tell = |parts| told.lock().unwrap().push(parts);
        let share = Share::new(&tell);
        for (stage, done, total) in [(0, 1, 2), (0, 1, 2), (0, 0, 2), (1, 0, 7), (2, 3, 4)] {
            share.reach(stage, done, total);
        }
        share.end();
        assert_eq!(*told.lock().unwrap(), [125, 125, 437, 313]);
        assert_eq!(told.lock().unwrap().iter().sum::<u64>(), PARTS);
    }
}
