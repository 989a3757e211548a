//! The slot for the `Relief` of a memory.
//!
//! A `Relief` refers to its memory. The memory's platform must return the `Relief`, but exists before both. So the
//! machine has a slot, which `HostMachine::with_relief` fills while its body runs.

#![allow(unsafe_code)]

use framewright::platform::{NoRelief, Relief, ReliefSlot, Wait};
use std::{
    ptr::NonNull,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use crate::wait::wait;

/// A slot for a `Relief`. While it is empty, requests get no relief.
#[derive(Default)]
pub(crate) struct LentRelief {
    place: RwLock<Option<Lent>>,
    /// Whether a call of [`LentRelief::lend`] is running. It may be waiting for the last uses to
    /// end.
    lending: AtomicBool,
    /// The number of running uses. They do not hold the lock, because uses may be nested.
    users: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Lent(NonNull<dyn Relief + Sync>);

// SAFETY: the pointer refers to a `Sync` value, and any thread may use such a value.
unsafe impl Send for Lent {}
// SAFETY: as above; only shared references are made of the pointer.
unsafe impl Sync for Lent {}

/// Empties the slot when the call ends, also after a panic.
struct Returned<'l>(&'l LentRelief);

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        *self.0.place.write().unwrap_or_else(PoisonError::into_inner) = None;
        let mut spins = 0;
        while self.0.users.load(SeqCst) > 0 {
            wait(Wait::Lock, spins);
            spins += 1;
        }
        self.0.lending.store(false, SeqCst);
    }
}

/// Ends a use, also after a panic.
struct Used<'l>(&'l AtomicUsize);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl LentRelief {
    /// Uses `relief` on all threads while `body` runs. Returns `None`, without running `body`, if the slot
    /// is not empty: a caller inside the relief in use would wait for its own end.
    pub(crate) fn lend<R>(
        &self,
        relief: &(dyn Relief + Sync),
        body: impl FnOnce() -> R,
    ) -> Option<R> {
        let relief: NonNull<dyn Relief + Sync + '_> = NonNull::from(relief);
        // SAFETY: only the lifetime changes, and only `with_relief` uses the pointer.
        let relief: NonNull<dyn Relief + Sync> = unsafe { std::mem::transmute(relief) };
        if self.lending.swap(true, SeqCst) {
            return None;
        }
        let _returned = Returned(self);
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Some(Lent(relief));
        Some(body())
    }
}

impl ReliefSlot for LentRelief {
    fn with_relief<R>(&self, body: impl FnOnce(&dyn Relief) -> R) -> R {
        self.users.fetch_add(1, SeqCst);
        let _used = Used(&self.users);
        let lent = *self.place.read().unwrap_or_else(PoisonError::into_inner);
        match lent {
            None => body(&NoRelief),
            // SAFETY: `lend` stored the pointer and has not returned. Before it returns, it removes the pointer and
            // then waits for all uses that may have loaded it.
            Some(lent) => body(unsafe { lent.0.as_ref() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use framewright::ZoneId;

    use super::*;

    struct Some7;

    impl Relief for Some7 {
        fn reclaimable(&self, _zone: ZoneId) -> Option<u64> {
            Some(7)
        }
    }

    #[test]
    fn a_lent_relief_is_used_during_the_call_only() {
        let place = LentRelief::default();
        let found = place.lend(&Some7, || place.reclaimable(ZoneId::default()));
        assert_eq!((found, place.reclaimable(ZoneId::default())), (Some(Some(7)), None));
        let nested = place.lend(&Some7, || place.lend(&Some7, || ()));
        assert_eq!(nested, Some(None), "a second relief was lent at the same time");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            place.lend(&Some7, || panic!("in between"));
        }));
        assert!(panicked.is_err() && place.reclaimable(ZoneId::default()).is_none());
    }

    /// A relief that waits until the slot is empty, and then lends another relief to the same slot.
    #[derive(Default)]
    struct Nested {
        place: LentRelief,
        entered: AtomicBool,
        lent: AtomicBool,
    }

    impl Relief for Nested {
        fn reclaimable(&self, _zone: ZoneId) -> Option<u64> {
            self.entered.store(true, SeqCst);
            while self.place.place.read().unwrap().is_some() {
                std::thread::yield_now();
            }
            self.lent.store(self.place.lend(&Some7, || ()).is_some(), SeqCst);
            None
        }
    }

    #[test]
    fn a_relief_in_use_cannot_lend_and_does_not_wait() {
        let nested: &'static Nested = Box::leak(Box::default());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            nested.place.lend(nested, || {
                std::thread::spawn(|| nested.place.reclaimable(ZoneId::default()));
                while !nested.entered.load(SeqCst) {
                    std::thread::yield_now();
                }
            });
            done.send(()).unwrap();
        });
        is_done.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for itself");
        assert!(!nested.lent.load(SeqCst));
        assert_eq!(nested.place.lend(&Some7, || ()), Some(()), "the slot is not free again");
    }

    /// A relief whose use ends only when `over` is set.
    #[derive(Default)]
    struct Slow {
        entered: AtomicBool,
        over: AtomicBool,
        left: AtomicBool,
    }

    impl Relief for Slow {
        fn reclaimable(&self, _zone: ZoneId) -> Option<u64> {
            self.entered.store(true, SeqCst);
            while !self.over.load(SeqCst) {
                std::thread::yield_now();
            }
            self.left.store(true, SeqCst);
            None
        }
    }

    #[test]
    fn all_uses_have_ended_when_the_call_returns_although_waits_end_early() {
        let _early = crate::wait::early::Early::begin();
        let (place, slow) = (LentRelief::default(), Slow::default());
        std::thread::scope(|scope| {
            place.lend(&slow, || {
                scope.spawn(|| place.reclaimable(ZoneId::default()));
                while !slow.entered.load(SeqCst) {
                    std::thread::yield_now();
                }
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    slow.over.store(true, SeqCst);
                });
            });
            assert!(slow.left.load(SeqCst), "the relief is still in use");
        });
    }
}
