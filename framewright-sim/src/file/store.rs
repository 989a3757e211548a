//! A store of pages of files, with seeded errors.
//!
//! The store is a device with a queue. A request waits for a free entry of the queue, then for the
//! channel, which transfers one request after the other. The answer arrives one device latency
//! later; the latencies of requests in flight overlap. Latency and queue limit many small requests,
//! bandwidth limits few large ones. Only the time of each answer is simulated.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
};

use super::FileId;
use crate::{engine::Model, process::Token};
use thiserror::Error;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The speed of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSpec {
    /// From the request to the answer on an idle store, in nanoseconds.
    pub latency_ns: u64,
    /// Bandwidth in MB (10^6 bytes) per second, reads and writes together; 0: unlimited.
    pub mb_per_s: u64,
    /// Requests that are processed at once; 0: any number.
    pub queue: u32,
}

impl StoreSpec {
    /// A store that answers at once.
    pub const INSTANT: Self = Self { latency_ns: 0, mb_per_s: 0, queue: 0 };

    /// `count` striped SATA solid-state disks: 90 µs, 500 MB/s and 32 requests each.
    #[must_use]
    pub const fn ssds(count: u32) -> Self {
        Self { latency_ns: 90_000, mb_per_s: 500 * count as u64, queue: 32 * count }
    }
}

/// The error of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum StoreError {
    /// `EIO`: the device failed.
    #[error("input/output error")]
    Io,
    /// `ENOSPC`: there is no space for a page that was never written before.
    #[error("no space left on the store")]
    Full,
}

/// Seeded errors of a store. By default none.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// Every n-th write fails, counted over all pages; 0: none.
    pub every: u64,
    /// Pages that can neither be read nor written.
    pub pages: Vec<(FileId, u32)>,
    /// Pages that the store has space for; `None`: any number.
    pub capacity: Option<u64>,
}

/// Counters of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Pages read.
    pub read: u64,
    /// Pages written.
    pub written: u64,
    /// Page writes that failed with a [`StoreError`].
    pub failed: u64,
    /// The longest time of a request, in cycles.
    pub slowest: u64,
}

/// A store. Times are in cycles of the machine.
pub(super) struct Store {
    latency: u64,
    /// Cycles of the transfer of one page, times 1024.
    page: u64,
    queue: usize,
    failures: RefCell<Failures>,
    /// The time at which the channel is free.
    free_at: Cell<u64>,
    /// The times at which requests in flight are answered, in order.
    under_way: RefCell<VecDeque<u64>>,
    /// Whether contents are stored.
    stores_contents: Cell<bool>,
    /// The contents that were written. Other pages hold zeroes.
    contents: RefCell<BTreeMap<(FileId, u32), Token>>,
    writes: Cell<u64>,
    stats: Cell<StoreStats>,
}

impl Store {
    /// A store; `stores_contents`: whether contents are stored.
    pub(super) fn new(spec: StoreSpec, model: &Model, stores_contents: bool) -> Self {
        Self {
            latency: model.cycles_of_nanos(spec.latency_ns),
            page: (model.cycles_of_nanos(PAGE * 1000) * 1024)
                .checked_div(spec.mb_per_s)
                .unwrap_or(0),
            queue: spec.queue as usize,
            failures: RefCell::default(),
            free_at: Cell::new(0),
            under_way: RefCell::default(),
            stores_contents: Cell::new(stores_contents),
            contents: RefCell::default(),
            writes: Cell::new(0),
            stats: Cell::default(),
        }
    }

    /// Sets the errors from now on. Pages that were written before the store stored contents do not
    /// count against `capacity`.
    pub(super) fn fail(&self, failures: Failures) {
        self.stores_contents.set(self.stores_contents.get() || failures.capacity.is_some());
        *self.failures.borrow_mut() = failures;
    }

    pub(super) fn stats(&self) -> StoreStats {
        self.stats.get()
    }

    /// The contents of a page.
    pub(super) fn contents(&self, file: FileId, page: u32) -> Token {
        self.contents.borrow().get(&(file, page)).copied().unwrap_or(Token::ZERO)
    }

    /// Reads `pages` neighbours. Returns the time of the answer.
    pub(super) fn read(&self, now: u64, pages: u64) -> u64 {
        self.count(|stats| stats.read += pages);
        self.request(now, pages)
    }

    /// Whether a page can be read.
    pub(super) fn can_read(&self, file: FileId, page: u32) -> Result<(), StoreError> {
        let bad = self.failures.borrow().pages.contains(&(file, page));
        if bad { Err(StoreError::Io) } else { Ok(()) }
    }

    /// Writes the given contents of a page. Returns the time at which the write ends, and its
    /// result.
    pub(super) fn write(
        &self,
        now: u64,
        (file, page): (FileId, u32),
        contents: Token,
    ) -> (u64, Result<(), StoreError>) {
        self.writes.set(self.writes.get() + 1);
        let result = self.can_write(file, page);
        match result {
            Ok(()) => {
                if self.stores_contents.get() {
                    self.contents.borrow_mut().insert((file, page), contents);
                }
                self.count(|stats| stats.written += 1);
            }
            Err(_) => self.count(|stats| stats.failed += 1),
        }
        (self.request(now, 1), result)
    }

    fn can_write(&self, file: FileId, page: u32) -> Result<(), StoreError> {
        let failures = self.failures.borrow();
        let nth = failures.every > 0 && self.writes.get().is_multiple_of(failures.every);
        if nth || failures.pages.contains(&(file, page)) {
            return Err(StoreError::Io);
        }
        let contents = self.contents.borrow();
        let full = failures.capacity.is_some_and(|capacity| contents.len() as u64 >= capacity);
        if full && !contents.contains_key(&(file, page)) {
            return Err(StoreError::Full);
        }
        Ok(())
    }

    /// The time of the answer to a request that is made now.
    fn request(&self, now: u64, pages: u64) -> u64 {
        if self.latency == 0 && self.page == 0 {
            return now;
        }
        let mut under_way = self.under_way.borrow_mut();
        while under_way.front().is_some_and(|&answered| answered <= now) {
            under_way.pop_front();
        }
        let entry_free_at = match self.queue {
            0 => now,
            queue => under_way.len().checked_sub(queue).map_or(now, |first| under_way[first]),
        };
        let begins = self.free_at.get().max(entry_free_at).max(now);
        let moved = begins + pages * self.page / 1024;
        self.free_at.set(moved);
        let answered = moved + self.latency;
        under_way.push_back(answered);
        self.count(|stats| stats.slowest = stats.slowest.max(answered - now));
        answered
    }

    fn count(&self, add: impl FnOnce(&mut StoreStats)) {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(0);

    /// A store on a machine whose cycles take a nanosecond.
    fn store(latency_ns: u64, mb_per_s: u64, queue: u32) -> Store {
        Store::new(StoreSpec { latency_ns, mb_per_s, queue }, &Model::free(1), true)
    }

    #[test]
    fn latencies_overlap_and_transfers_wait_for_the_channel() {
        // 4 GB/s: 1,024 ns a page.
        let store = store(10_000, 4_000, 0);
        assert_eq!(store.read(0, 1), 11_024);
        assert_eq!(store.read(0, 2), 13_072);
        assert_eq!(store.read(50_000, 1), 61_024, "the channel is not free again");
    }

    #[test]
    fn a_full_queue_makes_requests_wait() {
        let store = store(1_000, 0, 2);
        assert_eq!([store.read(0, 1), store.read(0, 1)], [1_000, 1_000]);
        assert_eq!(store.read(0, 1), 2_000);
        assert_eq!(store.read(1_500, 1), 2_500);
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let store = store(0, 0, 0);
        let (old, new) = (Token::ZERO, Token::of(7));
        store.fail(Failures { pages: vec![(FILE, 3)], capacity: Some(1), ..Failures::default() });
        assert_eq!(store.write(0, (FILE, 3), new), (0, Err(StoreError::Io)));
        assert_eq!(store.write(0, (FILE, 4), new), (0, Ok(())));
        assert_eq!(store.write(0, (FILE, 5), new), (0, Err(StoreError::Full)));
        assert_eq!(
            store.write(0, (FILE, 4), new),
            (0, Ok(())),
            "space was allocated again for the page"
        );
        assert_eq!([3, 4, 5].map(|page| store.contents(FILE, page)), [old, new, old]);
        assert_eq!(store.stats(), StoreStats { read: 0, written: 2, failed: 2, slowest: 0 });
        assert!(store.can_read(FILE, 3).is_err() && store.can_read(FILE, 4).is_ok());
    }

    #[test]
    fn every_nth_write_fails() {
        let store = store(0, 0, 0);
        store.fail(Failures { every: 3, ..Failures::default() });
        let failed = (0..9).filter(|page| store.write(0, (FILE, *page), Token::ZERO).1.is_err());
        assert_eq!(failed.collect::<Vec<_>>(), [2, 5, 8]);
    }
}
