//! The token of one CPU.
//!
//! Only code on the CPU itself uses a slot, and no other thread does so meanwhile, because callers are pinned. Code
//! that runs in the middle of a caller (an interrupt handler, or another thread while the caller waits) finds the slot
//! in use and leaves it alone. If a handler interrupts the caller before the slot is marked as in use, the handler ends
//! before the caller continues. So plain loads and stores suffice, in program order.

use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering, compiler_fence},
};

use framewright::{CpuError, CpuId, CpuToken, Memory};

use crate::platform::Machine;

type Token = CpuToken<'static, 'static, Machine>;

/// The token of one CPU, claimed when the CPU uses it for the first time.
pub(crate) struct Slot {
    in_use: AtomicBool,
    token: UnsafeCell<Option<Token>>,
}

// SAFETY: the token is used by one caller at a time, on the CPU of the slot: see `Slot::enter`.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) const fn new() -> Self {
        Self { in_use: AtomicBool::new(false), token: UnsafeCell::new(None) }
    }

    /// Enters the slot; `None` if it is in use.
    ///
    /// # Safety
    ///
    /// The caller is pinned on the CPU of the slot until the result is dropped.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> Option<Entered<'_>> {
        if self.in_use.load(Ordering::Relaxed) {
            return None;
        }
        self.in_use.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Entered(self))
    }
}

/// A slot that this caller alone uses until the value is dropped.
pub(crate) struct Entered<'a>(&'a Slot);

impl Entered<'_> {
    /// The token of the CPU, if it was claimed.
    #[inline(always)]
    pub(crate) fn claimed(&mut self) -> Option<&mut Token> {
        // SAFETY: this value alone uses the slot.
        unsafe { &mut *self.0.token.get() }.as_mut()
    }

    /// The token of the CPU. Claims it first if necessary.
    ///
    /// # Errors
    ///
    /// The memory has no such CPU, or it is offline.
    pub(crate) fn token(
        &mut self,
        memory: &'static Memory<'static, Machine>,
        cpu: CpuId,
    ) -> Result<&mut Token, CpuError> {
        // SAFETY: this value alone uses the slot.
        let token = unsafe { &mut *self.0.token.get() };
        match token {
            Some(token) => Ok(token),
            None => Ok(token.insert(memory.cpu(cpu)?)),
        }
    }

    /// Frees the blocks on the lists of the CPU, and gives its token back.
    pub(crate) fn release(self) {
        // SAFETY: this value alone uses the slot.
        let token = unsafe { &mut *self.0.token.get() };
        if let Some(mut token) = token.take() {
            token.drain();
        }
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.in_use.store(false, Ordering::Relaxed);
    }
}
