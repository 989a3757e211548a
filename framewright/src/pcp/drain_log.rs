//! Blocks that remote drainers have taken off the lists of a CPU for a zone, until their events are traced.
//!
//! A drainer empties the lists in one visit, and no trace event may be emitted inside the lists. So the
//! drainer logs the blocks that it takes. Only memories on machines with
//! [`Platform::TRACING`](crate::Platform::TRACING) have logs.

use super::{ListIndex, index::RING};
use crate::buddy::{Bundle, Bundles};

/// The log of one CPU for one zone. Its capacity is that of the lists.
pub(crate) struct DrainLog<'m> {
    entries: &'m mut [Bundle],
    /// The entries that are not traced yet.
    first: usize,
    end: usize,
}

impl<'m> DrainLog<'m> {
    /// Entries of a log for lists with these numbers of slots in the store and in quarantine. A
    /// drain logs at most one entry per block on a ring and one per slot.
    pub(crate) const fn capacity(slots: usize, quarantine: usize) -> usize {
        ListIndex::COUNT * RING + slots + quarantine
    }

    /// An empty log.
    pub(crate) fn new(entries: &'m mut [Bundle]) -> Self {
        Self { entries, first: 0, end: 0 }
    }

    /// Whether all entries are traced.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Appends a batch. A drain begins with an empty log, so all its batches fit.
    pub(crate) fn push(&mut self, batch: &[Bundle]) {
        if self.is_empty() {
            (self.first, self.end) = (0, 0);
        }
        let free = self.entries.get_mut(self.end..self.end + batch.len());
        debug_assert!(free.is_some(), "the log is full, so drain events are lost");
        if let Some(free) = free {
            free.copy_from_slice(batch);
            self.end += batch.len();
        }
    }

    /// Moves the oldest entries to `out`, which is empty, until it is full.
    pub(crate) fn take(&mut self, out: &mut Bundles) {
        for &bundle in &self.entries[self.first..self.end] {
            if out.push(bundle).is_none() {
                break;
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Order;

    #[test]
    fn entries_leave_in_their_order_and_free_the_room_for_others() {
        let mut entries = [Bundle::default(); 100];
        let mut log = DrainLog::new(&mut entries);
        for _ in 0..3 {
            let batches: [[Bundle; 50]; 2] = core::array::from_fn(|batch| {
                core::array::from_fn(|at| Bundle::of((batch * 50 + at) as u32, Order::ZERO))
            });
            batches.iter().for_each(|batch| log.push(batch));
            for all in [&batches.concat()[..64], &batches.concat()[64..]] {
                let mut out = Bundles::new();
                log.take(&mut out);
                assert_eq!(out.as_slice(), all);
            }
            assert!(log.is_empty());
        }
    }
}
