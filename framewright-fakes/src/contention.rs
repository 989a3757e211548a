//! [`Contention`]: the locks that the platform reports as held.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// The locks that [`RawLock::is_held`](framewright::sync::RawLock::is_held) reports as held by another CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Contention {
    /// No lock.
    #[default]
    None,
    /// The locks of LRU lists.
    LruLists,
    /// All locks.
    All,
}

/// The lock that was taken last, and the locks of LRU lists, by address.
#[derive(Default)]
pub(crate) struct Locks {
    contention: Mutex<Contention>,
    last_taken: AtomicUsize,
    of_lru: Mutex<HashSet<usize>>,
}

impl Locks {
    pub(crate) fn set_contention(&self, contention: Contention) {
        *self.contention.lock().unwrap() = contention;
    }

    pub(crate) fn note_taken(&self, lock: usize) {
        self.last_taken.store(lock, Relaxed);
    }

    /// Records that the lock taken last protects LRU lists.
    pub(crate) fn note_lru(&self) {
        self.of_lru.lock().unwrap().insert(self.last_taken.load(Relaxed));
    }

    pub(crate) fn is_held(&self, lock: usize) -> bool {
        match *self.contention.lock().unwrap() {
            Contention::None => false,
            Contention::LruLists => self.of_lru.lock().unwrap().contains(&lock),
            Contention::All => true,
        }
    }
}
