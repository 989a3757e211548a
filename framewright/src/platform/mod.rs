//! The machine below the library: required and optional services.
//!
//! A [`Platform`] is a *value* that a [`Memory`](crate::Memory) owns: a zero-sized type on bare
//! metal, a handle in a simulator, a mapping on a host. Two memories on two machines therefore
//! live in one process. Its methods come in two groups:
//!
//! * **services that the allocator needs**: locks, interrupt masking, making another CPU run a
//!   memory barrier, waiting, clearing and copying frames, time;
//! * **callbacks for the embedder**: trace events, corruption reports, and [`Relief`], through which
//!   reclaim and compaction are reached.
//!
//! The hooks for a simulator are the trait [`Probe`]: costs, cache lines touched, exclusive use, schedule
//! points, forced rare paths. Its methods default to nothing and cost nothing: they are empty, inlined and
//! branch-free. Other machines write `impl Probe for Machine {}`.
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
    Captured, CompactPriority, Compacted, Need, NoRelief, OutOfMemory, Pause, Relief, ReliefSlot,
    Spare, Throttle, Verdict,
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

/// The condition that a waiting loop waits for, so that a machine can decide how to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A lock that another CPU holds: short.
    Lock,
    /// The owner of per-CPU lists to leave them: short.
    Owner,
    /// Memory: for a request between two rounds of relief or one that may not fail, or for a given range of
    /// which other callers hold frames: long.
    Memory,
    /// Other CPUs to flush their TLBs: as long as an interrupt takes.
    Flush,
}

/// How the owner of per-CPU lists excludes a remote drainer.
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
/// * if [`Platform::owner_lock`] says [`OwnerLock::Biased`], then [`Platform::remote_barrier`]
///   returns only after the holder of the token of each targeted CPU has executed a full memory barrier since
///   the call, or was not running. This includes a thread that claims the token during the call. On
///   processors where an interrupt is not such a barrier, its handler has to execute one. The call is itself
///   a full barrier for the caller. A machine that sends the barrier to CPUs as interrupts must therefore
///   ensure that a token is claimed and used on the CPU it names.
///
/// # Panics
///
/// A method should not panic. If one does, no frame has two owners. However:
/// * if [`Platform::clear`] or [`Platform::trace`] panics, the block that the interrupted call was to hand out or
///   to free is free afterwards, as are those that it was giving back to the zone. What it has changed for itself
///   only, such as an isolation, a claim of a CPU or the right to change what memory there is, is undone;
/// * if [`Platform::corruption`] panics, the report has been made, and the refused block is lost, as it would be
///   otherwise;
/// * if [`Platform::copy`] panics, pages that were about to move stay where they were, as described at
///   [`Mover`](crate::migrate::Mover);
/// * if a method panics that is called under a lock of the library ([`Platform::irq_save`],
///   [`Platform::irq_restore`], the simulation hooks) or to wait for one, or [`Platform::remote_barrier`], the
///   lock or the lists of the CPU stay locked: all callers that need them wait for ever. If it was called while a
///   CPU works on its own lists, all frames on these lists are lost.
pub unsafe trait Platform: Probe + Sized + Sync {
    /// The lock that protects a zone.
    type Lock: RawLock<Self>;
    /// The words through which the owners of per-CPU lists and drainers exclude each other:
    /// [`PlainWord`](crate::sync::PlainWord), unless the machine simulates store buffers.
    type Word: RawWord<Self>;
    /// The interrupt state that [`Platform::irq_save`] returns.
    type Irq;

    /// Whether [`Platform::trace`] wants events. Where it is `false` the compiler removes every
    /// event along with the code that would build it.
    const TRACING: bool = false;

    /// Masks interrupts on this CPU. Returns whether they were masked before.
    fn irq_save(&self) -> Self::Irq;
    /// Restores the interrupt state that [`Platform::irq_save`] returned.
    fn irq_restore(&self, irq: Self::Irq);

    /// The way in which owners of per-CPU lists exclude drainers on this machine.
    fn owner_lock(&self) -> OwnerLock;
    /// Runs a full memory barrier on the targeted CPUs and on the caller's. Called with
    /// interrupts enabled and no lock held, and only under [`OwnerLock::Biased`].
    fn remote_barrier(&self, target: BarrierTarget);

    /// The body of every waiting loop: relax, serve this CPU's own requests, halt or park.
    /// `spins` counts the calls of one loop, from 0. Between two calls the loop checks its condition: it
    /// loads a [`Platform::Word`], unless it waits for a lock or for memory.
    fn wait(&self, why: Wait, spins: u32);

    /// Fills the 2^order frames from `pfn` with zeroes. The caller owns them.
    fn clear(&self, pfn: Pfn, order: Order);
    /// Copies one frame. The caller owns both.
    fn copy(&self, to: Pfn, from: Pfn);
    /// Fills the 2^order frames from `pfn`, which are free, with the pattern that
    /// [`Platform::verify_poison`] checks, a different one for each frame ([`poison_word`] returns it).
    /// Does nothing if frames have no contents.
    fn poison(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// The offset of the first byte of the frame, which is free, that differs from the pattern of
    /// [`Platform::poison`], as precise as the machine compares. `None` if no byte differs.
    fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
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
    /// frame. The library continues normally, because only the embedder knows whether the machine may
    /// continue. A kernel logs the report, or panics if security matters more than availability. Never called under a lock of the library; must not free or allocate through
    /// the memory that reports.
    fn corruption(&self, report: &Corruption);
}
