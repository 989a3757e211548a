//! The token of one CPU, in a static.
//!
//! Only code on the CPU itself reads or writes the slot. Because callers are pinned, only one
//! thread does so at a time. Other code can still run in the middle of a caller: interrupt
//! handlers, hooks of the embedder, and threads that run while a caller waits in a hook. If such
//! code finds the slot in use, it does not touch the slot. Between the load of the state and the
//! store that marks the slot as in use, only an interrupt handler can run. When the handler has
//! ended, the slot is not in use, and still has its token if it had one, because handlers do not
//! release tokens. The handler may have claimed a token for an empty slot, so the caller checks for
//! a token after the mark. Plain loads and stores in program order suffice, and the hot path loads
//! one word.

use core::{cell::UnsafeCell, fmt, mem::MaybeUninit};

use super::Pinning;
use crate::{
    alloc::CpuToken,
    core::CpuError,
    memory::Memory,
    platform::CpuId,
    sync::{Ordering, StaticBool, StaticU8, compiler_fence},
};

type Token<P> = CpuToken<'static, 'static, P>;

/// There is no token, and the slot is not in use.
const EMPTY: u8 = 0;
/// The slot has its token, and is not in use.
const IDLE: u8 = 1;
/// The slot is in use.
const IN_USE: u8 = 2;

/// A place for the token of one CPU, in a static or in other memory that is never freed. [`CpuSlots`](super::CpuSlots)
/// uses it.
pub struct CpuSlot<P: Pinning + 'static> {
    state: StaticU8,
    /// Whether the slot has its token. Only the user of the slot changes this.
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

// SAFETY: the token is used by one caller at a time, on the CPU of the slot: see `CpuSlot::enter`. All accesses of a
// caller happen before those of the next, because the callers are pinned on the same CPU.
unsafe impl<P: Pinning> Sync for CpuSlot<P> where Memory<'static, P>: Sync {}

impl<P: Pinning> fmt::Debug for CpuSlot<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuSlot").finish_non_exhaustive()
    }
}

impl<P: Pinning> Default for CpuSlot<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Pinning> CpuSlot<P> {
    /// A place without a token.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: StaticU8::new(EMPTY),
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
        if self.state.load(Ordering::Relaxed) != IDLE {
            return None;
        }
        self.mark();
        Some(Entered { slot: self, has_token: true })
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
        if self.state.load(Ordering::Relaxed) == IN_USE {
            return Err(NotEntered::InUse);
        }
        self.mark();
        let has_token = self.has_token.load(Ordering::Relaxed);
        let mut entered = Entered { slot: self, has_token };
        if !has_token {
            entered.claim(memory, cpu).map_err(NotEntered::NoToken)?;
        }
        Ok(entered)
    }

    /// Marks the slot as in use.
    #[inline(always)]
    fn mark(&self) {
        self.state.store(IN_USE, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

/// The slot of this CPU, entered until this value is dropped.
pub(super) struct Entered<P: Pinning + 'static> {
    slot: &'static CpuSlot<P>,
    has_token: bool,
}

impl<P: Pinning> Entered<P> {
    #[cold]
    #[inline(never)]
    fn claim(&mut self, memory: &'static Memory<'static, P>, cpu: CpuId) -> Result<(), CpuError> {
        let token = memory.cpu(cpu)?;
        // SAFETY: this value alone uses the slot, and there is no token in it.
        unsafe { (*self.slot.token.get()).write(token) };
        self.slot.has_token.store(true, Ordering::Relaxed);
        self.has_token = true;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn token(&mut self) -> &mut Token<P> {
        // SAFETY: a value from `CpuSlot::enter` or `CpuSlot::try_enter` has a token until it is released, and only this value
        // uses the slot.
        unsafe { (*self.slot.token.get()).assume_init_mut() }
    }

    /// Releases the token.
    ///
    /// # Safety
    ///
    /// No code that was interrupted on this CPU is about to enter the slot: the caller is not an interrupt handler.
    pub(super) unsafe fn release(mut self) {
        self.slot.has_token.store(false, Ordering::Relaxed);
        self.has_token = false;
        // SAFETY: as in `token`. The slot has no token afterwards, and this value ends.
        unsafe { (*self.slot.token.get()).assume_init_drop() };
    }
}

impl<P: Pinning> Drop for Entered<P> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let state = if self.has_token { IDLE } else { EMPTY };
        self.slot.state.store(state, Ordering::Relaxed);
    }
}
