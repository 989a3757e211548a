//! A slot for a reference to a target that does not live as long as the slot. The slot is filled
//! only during a call.
//!
//! The library's platform and the engine's interrupt handlers live as long as a machine. They call
//! reclaim and a flusher, which borrow the memory that contains the platform. They therefore
//! contain a slot for a reference, which is filled while a machine runs and empty otherwise.

#![allow(unsafe_code)]

use std::{cell::Cell, ptr::NonNull};

/// A slot for a reference to a `T`.
pub(crate) struct Lent<T: ?Sized>(Cell<Option<NonNull<T>>>);

/// Empties the slot when the call returns or unwinds.
struct Returned<'l, T: ?Sized>(&'l Cell<Option<NonNull<T>>>);

impl<T: ?Sized> Drop for Returned<'_, T> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<T: ?Sized> Lent<T> {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Puts a reference to `value` into the slot while `body` runs.
    ///
    /// # Panics
    ///
    /// If the slot is not empty.
    ///
    /// # Safety
    ///
    /// `value` points to an object that is alive and not borrowed exclusively until `body` has
    /// returned or unwound.
    pub(crate) unsafe fn lend<R>(&self, value: NonNull<T>, body: impl FnOnce() -> R) -> R {
        assert!(self.0.get().is_none(), "the slot is not empty");
        self.0.set(Some(value));
        let _returned = Returned(&self.0);
        body()
    }

    /// Runs `body` with the reference in the slot, or `None` if the slot is empty.
    pub(crate) fn with<R>(&self, body: impl FnOnce(Option<&T>) -> R) -> R {
        // SAFETY: `lend` put the pointer there and has not returned, because it empties the slot on
        // its return. So the target is alive now. `lend` cannot return while `body` runs, because
        // this call is nested in it on this thread: the slot is not `Sync`, and a coroutine that is
        // suspended inside of `body` is ended by the run that `lend` waits for.
        body(self.0.get().map(|value| unsafe { value.as_ref() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_available_during_the_call_only() {
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
