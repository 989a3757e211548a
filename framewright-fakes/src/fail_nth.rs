//! [`FailNth`]: a fault at the n-th call.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The message of the panic at the n-th call. A panic hook can distinguish it from other panics.
const MESSAGE: &str = "a fault";

/// Selects the n-th call of a sequence. A test runs with n = 1, 2, 3 and so on until
/// [`has_fired`](FailNth::has_fired) returns `false`: then every call has failed once.
#[derive(Debug, Default)]
pub struct FailNth {
    /// Calls until the selected one, including it; 0 if there is none.
    left: AtomicU32,
    has_fired: std::sync::atomic::AtomicBool,
}

impl FailNth {
    /// No call is selected.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects call number `nth` from now on, counted from 1; none if it is 0.
    pub fn arm(&self, nth: u32) {
        self.left.store(nth, Relaxed);
        self.has_fired.store(false, Relaxed);
    }

    /// Selects no call. Does not change the result of [`FailNth::has_fired`].
    pub fn disarm(&self) {
        self.left.store(0, Relaxed);
    }

    /// Counts a call. Returns whether it is the selected one.
    pub fn is_nth(&self) -> bool {
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        let fires = before == Ok(1);
        self.has_fired.fetch_or(fires, Relaxed);
        fires
    }

    /// Counts a call.
    ///
    /// # Panics
    ///
    /// At the selected call, with the message "a fault".
    pub fn panic_at_nth(&self) {
        assert!(!self.is_nth(), "{MESSAGE}");
    }

    /// Whether the selected call has happened since [`FailNth::arm`].
    pub fn has_fired(&self) -> bool {
        self.has_fired.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_call_fails_once() {
        let fault = FailNth::new();
        assert!((0..3).all(|_| !fault.is_nth()), "a call fails although none is selected");
        fault.arm(2);
        let calls: Vec<bool> = (0..4).map(|_| fault.is_nth()).collect();
        assert_eq!(calls, [false, true, false, false]);
        assert!(fault.has_fired());
        fault.arm(2);
        assert!(
            !fault.is_nth() && !fault.has_fired(),
            "a call failed although there were fewer calls"
        );
    }
}
