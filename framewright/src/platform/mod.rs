//! The machine below the library: required and optional services.
//!
//! A [`Platform`] is a *value* that a [`Memory`](crate::Memory) owns: a zero-sized type on bare
//! metal, a handle in a simulator, a mapping on a host. So one process can have several memories on
//! different platforms. The trait has two groups of methods:
//!
//! * **services that the allocator needs**: locks, interrupt masking, memory barriers on other
//!   CPUs, waiting, clearing and copying frames, time;
//! * **callbacks for the embedder**: trace events, corruption reports, and [`Relief`], which starts reclaim and
//!   compaction.
//!
//! The hooks for a simulator are in the trait [`Probe`]: costs, cache lines touched, exclusive use,
//! schedule points, forced rare paths. The default methods are empty and inlined, so they cost
//! nothing. Platforms without a simulator write `impl Probe for Machine {}`.
//!
//! The library never spins on its own: every waiting loop calls [`Platform::wait`], which may
//! serve this CPU's pending requests, halt it, or park the thread.

#![allow(unsafe_code)]

mod hooks;
mod lock;
#[cfg(all(test, framewright_loom))]
mod lock_loom;
#[cfg(all(test, any(framewright_loom, framewright_tso)))]
pub(crate) mod model;
mod poison;
mod relief;
mod unwind;

use crate::{
    sync::{RawLock, RawWord},
    types::{Corruption, Event, Order, Pfn},
};

pub use crate::types::CpuId;
pub use hooks::{Access, Cost, Line, Miss, Probe, Section, Site};
pub(crate) use lock::SpinLock;
pub use poison::poison_word;
pub(crate) use relief::{CaptureSlot, MOVES_PER_DRAIN};
pub use relief::{
    Captured, CompactPriority, Compacted, Need, NoKillReason, NoRelief, OutOfMemory, Pause, Relief,
    ReliefSlot, Throttle, Verdict,
};
pub(crate) use unwind::or_on_panic;

/// The CPUs that a remote barrier must reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarrierTarget {
    /// One CPU.
    Cpu(CpuId),
    /// Every CPU of the machine.
    All,
}

/// The event that a waiting loop waits for, and how long that takes, so that a machine can choose
/// how to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The release of a lock by another CPU: short.
    Lock,
    /// The end of an owner's use of its per-CPU lists: short.
    Owner,
    /// Free memory: long. The waiter is a request between two rounds of reclaim and compaction, a
    /// request that must not fail, or a call for a given range in which other callers have isolated
    /// or locked pages.
    Memory,
    /// TLB flushes of other CPUs: as long as an interrupt.
    Flush,
}

/// The protocol by which the owner of per-CPU lists excludes a remote drainer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnerLock {
    /// The owner uses plain loads and stores; a drainer pays for a barrier on the owner's CPU.
    /// Needs a machine that can run such a barrier ([`Platform::remote_barrier`]).
    #[default]
    Biased,
    /// Both sides use an atomic try-lock. For machines without remote barriers.
    Trylock,
}

/// A machine that a memory runs on.
///
/// # Safety
///
/// The library's own soundness rests on these promises:
///
/// * a lock of type [`Platform::Lock`] excludes: between a successful acquisition and the
///   release no other acquisition succeeds, and the release happens before the next acquisition;
/// * a word of type [`Platform::Word`] is atomic, with the orderings that its callers name;
/// * if [`Platform::owner_lock`] returns [`OwnerLock::Biased`], then [`Platform::remote_barrier`]
///   is a full memory barrier for the caller and for the holders of the tokens of the targeted
///   CPUs: it returns only after each holder has executed one since the call, or was not running. A
///   thread that claims such a token during the call is a holder, too. So a machine that sends the
///   barrier to CPUs as interrupts must ensure that a token is claimed and used on the CPU it
///   names. On processors where an interrupt is no full barrier, its handler has to execute one.
///
/// # Panics
///
/// A method should not panic. If one does, no frame has two owners. However:
/// * if [`Platform::clear`] or [`Platform::trace`] panics, the block that the interrupted call was
///   to return or to free is free afterwards, and so are the blocks that it was giving back to the
///   zone. Temporary state of the call is undone, such as an isolation, the claim of a CPU, or the
///   hotplug lock;
/// * if [`Platform::corruption`] panics, the report has been made, and the refused block leaks, as
///   without the panic;
/// * if [`Platform::copy`] panics, pages that were about to move stay in their old frames, as
///   described at [`Mover`](crate::migrate::Mover);
/// * if a method panics while a lock of the library is held or waited for ([`Platform::irq_save`],
///   [`Platform::irq_restore`], [`Platform::wait`], the hooks of [`Probe`]), or if
///   [`Platform::remote_barrier`] panics, the lock or the lists of the CPU stay locked: all callers
///   that need them wait for ever. If a CPU was working on its own lists, all frames on these lists
///   are lost.
pub unsafe trait Platform: Probe + Sized + Sync {
    /// The lock that protects a zone, and other data that CPUs share.
    type Lock: RawLock<Self>;
    /// The words through which the owners of per-CPU lists and drainers exclude each other, and
    /// through which CPUs wait for TLB flushes: [`PlainWord`](crate::sync::PlainWord), unless the
    /// machine simulates store buffers.
    type Word: RawWord<Self>;
    /// The interrupt state that [`Platform::irq_save`] returns.
    type Irq;

    /// Whether [`Platform::trace`] uses events. If it is `false`, the compiler removes every event
    /// with the code that builds it.
    const TRACING: bool = false;

    /// Masks interrupts on this CPU. Returns the previous state.
    fn irq_save(&self) -> Self::Irq;
    /// Restores the interrupt state that [`Platform::irq_save`] returned.
    fn irq_restore(&self, irq: Self::Irq);

    /// The protocol by which owners of per-CPU lists exclude drainers on this machine.
    fn owner_lock(&self) -> OwnerLock;
    /// Runs a full memory barrier on the targeted CPUs and on the caller's. Called with
    /// interrupts enabled and no lock held, and only under [`OwnerLock::Biased`].
    fn remote_barrier(&self, target: BarrierTarget);

    /// The body of every waiting loop: relaxes the CPU, serves requests to it, halts it, or parks the
    /// thread. `spins` counts the calls of one loop, from 0. Between two calls the loop checks its
    /// condition: it loads a [`Platform::Word`], unless it waits for a lock or for memory.
    ///
    /// Waits for a lock ([`Wait::Lock`]) happen with interrupts masked. If interrupt handlers allocate or free, the
    /// wait must leave interrupts masked: otherwise a handler could wait for the lock that the interrupted code is
    /// about to get. All other waits happen with interrupts enabled, unless the caller has masked them.
    fn wait(&self, why: Wait, spins: u32);

    /// Fills the 2^order frames from `pfn` with zeroes.
    ///
    /// # Safety
    ///
    /// The caller owns the frames: no other code uses them meanwhile.
    unsafe fn clear(&self, pfn: Pfn, order: Order);
    /// Copies one frame.
    ///
    /// # Safety
    ///
    /// The caller owns both frames.
    unsafe fn copy(&self, to: Pfn, from: Pfn);
    /// Fills the 2^order frames from `pfn` with the pattern that [`Platform::verify_poison`] checks, a
    /// different one for each frame ([`poison_word`] returns it). Does nothing if frames have no contents.
    ///
    /// # Safety
    ///
    /// The frames are free, and only the caller accesses them.
    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// The offset of the first byte of the frame that differs from the pattern of [`Platform::poison`], at the
    /// granularity at which the machine compares. `None` if no byte differs.
    ///
    /// # Safety
    ///
    /// The frame is free, and only the caller accesses it.
    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        let _ = pfn;
        None
    }

    /// A monotonic clock, in nanoseconds.
    fn now(&self) -> u64;

    /// The embedder's reclaim and compaction; the default has none.
    fn relief(&self) -> &dyn Relief {
        &NoRelief
    }

    /// Receives trace events, if [`Platform::TRACING`]. Never called under a lock of the
    /// library.
    #[inline(always)]
    fn trace(&self, cpu: CpuId, event: &Event) {
        let _ = (cpu, event);
    }

    /// Receives the reports of hardening: a bad raw free that was refused, or damage to a free
    /// frame. The library continues normally, because only the embedder knows whether the machine
    /// may continue. A kernel logs the report, or panics if security matters more than
    /// availability. Never called under a lock of the library. Must not free or allocate through
    /// the memory that reports.
    fn corruption(&self, report: &Corruption);
}
