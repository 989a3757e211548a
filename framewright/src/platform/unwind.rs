//! Hooks of the embedder that panic.

/// Runs `hook`, which calls the embedder. If the embedder panics, `undo` runs while the panic
/// unwinds. Without a panic, or in a program that aborts on panic, only `hook` runs. Returns its
/// result.
#[inline(always)]
pub(crate) fn or_on_panic<R>(hook: impl FnOnce() -> R, undo: impl FnMut()) -> R {
    let guard = OnPanic(undo);
    let result = hook();
    core::mem::forget(guard);
    result
}

struct OnPanic<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
