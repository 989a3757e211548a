//! The OOM lock: one request at a time asks the embedder for a verdict.

use crate::sync::{AtomicBool, Ordering};

/// The OOM lock. Its holder may ask for a verdict; other requests assume that the verdict frees
/// memory, and wait.
pub(crate) struct OomLock(AtomicBool);

impl OomLock {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn try_lock(&self) -> Option<OomGuard<'_>> {
        let is_free = !self.0.swap(true, Ordering::Acquire);
        is_free.then(|| OomGuard(self))
    }
}

/// The OOM lock, held until this value is dropped.
pub(crate) struct OomGuard<'j>(&'j OomLock);

impl Drop for OomGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
