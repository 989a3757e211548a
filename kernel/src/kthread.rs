//! Threads of the kernel.

/// Has the threads of this CPU do what they have to; whether there was anything.
pub(crate) fn run() -> bool {
    false
}
