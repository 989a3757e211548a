//! A reference that is lent, for the time of a call, to somebody who outlives it.
//!
//! The library's platform and the engine's interrupt handlers live as long as a machine; what they
//! have to call (reclaim, a flusher) is made of the memory that the platform is part of. So they hold a
//! place for a reference, which is filled while a machine runs, and empty before and after.

#![allow(unsafe_code)]

use std::{cell::Cell, ptr::NonNull};

/// See the module.
pub(crate) struct Lent<T: ?Sized>(Cell<Option<NonNull<T>>>);

/// Takes the reference away when the call ends, however it does.
struct Returned<'l, T: ?Sized>(&'l Cell<Option<NonNull<T>>>);

impl<T: ?Sized> Drop for Returned<'_, T> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<T: ?Sized> Lent<T> {
    /// Nothing is lent.
    pub(crate) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Lends what `value` points to while `body` runs.
    ///
    /// # Panics
    ///
    /// If something is lent already.
    ///
    /// # Safety
    ///
    /// What `value` points to is alive, and not borrowed exclusively, until `body` has returned or
    /// unwound.
    pub(crate) unsafe fn lend<R>(&self, value: NonNull<T>, body: impl FnOnce() -> R) -> R {
        assert!(self.0.get().is_none(), "something is lent already");
        self.0.set(Some(value));
        let _returned = Returned(&self.0);
        body()
    }

    /// Uses what is lent, if something is.
    pub(crate) fn with<R>(&self, body: impl FnOnce(Option<&T>) -> R) -> R {
        // SAFETY: what is in the place was put there by `lend`, which has not returned, because it
        // takes it away then; so it is alive. It may return while `body` runs only if `body` was not
        // called from within it on this thread: the place is not `Sync`, and coroutines that are
        // suspended inside of `body` are ended by the run that `lend` waits for.
        body(self.0.get().map(|value| unsafe { value.as_ref() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_there_during_the_call_alone() {
        let place: Lent<dyn Fn(u32) -> u32> = Lent::new();
        let call = |place: &Lent<dyn Fn(u32) -> u32>| place.with(|f| f.map(|f| f(3)));
        let add = 4;
        let f = move |x: u32| x + add;
        let f: &(dyn Fn(u32) -> u32 + 'static) = &f;
        // SAFETY: `f` is alive.
        let found = unsafe { place.lend(NonNull::from(f), || call(&place)) };
        assert_eq!((found, call(&place)), (Some(7), None));
    }
}
