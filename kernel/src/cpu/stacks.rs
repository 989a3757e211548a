//! Stacks.

use crate::boot::early::EarlyMemory;

/// Interrupt stacks (IST) of a CPU, in addition to the stack of its thread.
pub(crate) const IST_STACKS: usize = 5;

/// Bytes of the stack of an interrupt.
const INTERRUPT_BYTES: usize = 16 * 1024;
/// Bytes of the stack of a thread.
const THREAD_BYTES: usize = 128 * 1024;

/// A stack, which is never freed.
#[derive(Clone, Copy)]
pub(crate) struct Stack {
    top: u64,
}

impl Stack {
    /// A stack for one class of vectors.
    pub(crate) fn for_interrupts(early: &mut EarlyMemory) -> Self {
        Self::of(early, INTERRUPT_BYTES)
    }

    /// A stack for a thread.
    pub(crate) fn for_thread(early: &mut EarlyMemory) -> Self {
        Self::of(early, THREAD_BYTES)
    }

    fn of(early: &mut EarlyMemory, bytes: usize) -> Self {
        Self { top: early.take(bytes, 4096).as_mut_ptr_range().end as u64 }
    }

    /// The top address, from which the stack grows down.
    pub(crate) fn top(self) -> u64 {
        self.top
    }
}
