//! The token of one CPU, in a static.
//!
//! Only code on the CPU itself reads or writes the slot, and because callers are pinned, only one thread at a time.
//! Other code can still run in the middle of a caller: interrupt handlers, hooks of the embedder, and threads that run
//! while a caller waits in a hook. If such code finds the slot in use, it does not touch the slot. Only a handler can
//! run before the caller has marked the slot as in use. When the handler has ended, the mark is as before, and the
//! caller reads only after the mark whether the token is there. So plain loads and stores in program order suffice.

use core::{cell::UnsafeCell, mem::MaybeUninit};

use super::Pinning;
use crate::{
    alloc::CpuToken,
    core::CpuError,
    memory::Memory,
    platform::CpuId,
    sync::{Ordering, StaticBool, compiler_fence},
};

type Token<P> = CpuToken<'static, 'static, P>;

/// The token of one CPU.
pub(super) struct Slot<P: Pinning + 'static> {
    in_use: StaticBool,
    /// Whether the token is there. Only the user of the slot changes it.
    has_token: StaticBool,
    token: UnsafeCell<MaybeUninit<Token<P>>>,
}

/// The reason why a slot was not entered.
pub(super) enum NotEntered {
    /// The interrupted code, or the code that called the hook, uses the token.
    InUse,
    /// The token cannot be claimed.
    NoToken(CpuError),
}

impl NotEntered {
    pub(super) fn no_such(cpu: CpuId) -> Self {
        Self::NoToken(CpuError::NoSuchCpu(cpu))
    }
}

impl<P: Pinning> Slot<P> {
    pub(super) const fn new() -> Self {
        Self {
            in_use: StaticBool::new(false),
            has_token: StaticBool::new(false),
            token: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Enters the slot if it is not in use and has its token.
    ///
    /// # Safety
    ///
    /// The caller is pinned on the CPU of the slot until the result is dropped.
    #[inline(always)]
    pub(super) unsafe fn try_enter(&'static self) -> Option<Entered<P>> {
        let entered = self.mark()?;
        self.has_token.load(Ordering::Relaxed).then_some(entered)
    }

    /// Enters the slot of `cpu`. Claims the token if the slot has none.
    ///
    /// # Safety
    ///
    /// The slot is that of `cpu` and of `memory`, and the caller is pinned on `cpu` until the result is dropped.
    pub(super) unsafe fn enter(
        &'static self,
        memory: &'static Memory<'static, P>,
        cpu: CpuId,
    ) -> Result<Entered<P>, NotEntered> {
        let entered = self.mark().ok_or(NotEntered::InUse)?;
        if !self.has_token.load(Ordering::Relaxed) {
            entered.claim(memory, cpu).map_err(NotEntered::NoToken)?;
        }
        Ok(entered)
    }

    /// Marks the slot as in use, if it is not. The token may be missing.
    #[inline(always)]
    fn mark(&'static self) -> Option<Entered<P>> {
        if self.in_use.load(Ordering::Relaxed) {
            return None;
        }
        self.in_use.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Entered(self))
    }
}

/// The slot of this CPU, entered until this value is dropped.
pub(super) struct Entered<P: Pinning + 'static>(&'static Slot<P>);

impl<P: Pinning> Entered<P> {
    #[cold]
    #[inline(never)]
    fn claim(&self, memory: &'static Memory<'static, P>, cpu: CpuId) -> Result<(), CpuError> {
        let token = memory.cpu(cpu)?;
        // SAFETY: this value alone uses the slot, and there is no token in it.
        unsafe { (*self.0.token.get()).write(token) };
        self.0.has_token.store(true, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn token(&mut self) -> &mut Token<P> {
        // SAFETY: a value from `Slot::enter` or `Slot::try_enter` has a token until it is released, and only this value
        // uses the slot.
        unsafe { (*self.0.token.get()).assume_init_mut() }
    }

    /// Releases the token.
    pub(super) fn release(self) {
        self.0.has_token.store(false, Ordering::Relaxed);
        // SAFETY: as in `token`. The slot has no token afterwards, and this value ends.
        unsafe { (*self.0.token.get()).assume_init_drop() };
    }
}

impl<P: Pinning> Drop for Entered<P> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.in_use.store(false, Ordering::Relaxed);
    }
}
